"""Engines of TensorRT and TensorRT-RTX: build, check, run."""

from convt_onnx.engine.backend import Backend, load_backend
from convt_onnx.engine.build import BuildOptions, BuildResult, build_engine

__all__ = ["Backend", "BuildOptions", "BuildResult", "build_engine", "load_backend"]
