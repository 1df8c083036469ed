"""Transposed convolution in deployed ONNX models: found, rewritten, verified, explained."""

from __future__ import annotations

from pathlib import Path

from convt_onnx._version import __version__

__all__ = ["__version__"]

# A checkout that is not installed keeps passes/, plugins/ and models/ beside this package.
if not (Path(__file__).parent / "passes").is_dir():
    __path__.append(str(Path(__file__).parent.parent))
