"""Engines of TensorRT and TensorRT-RTX: build, check, run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convt_onnx.engine.backend import Backend, load_backend
    from convt_onnx.engine.build import build_engine
    from convt_onnx.engine.options import BuildOptions, BuildResult

_HOMES = {
    "Backend": "backend",
    "BuildOptions": "options",
    "BuildResult": "options",
    "build_engine": "build",
    "load_backend": "backend",
}

__all__ = ["Backend", "BuildOptions", "BuildResult", "build_engine", "load_backend"]


def __getattr__(name: str) -> Any:
    # On first use: verification reads an engine's header, and a build verifies.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
