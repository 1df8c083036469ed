"""Decoders and upsamplers that export themselves to ONNX.

Ten published decoders as small torch modules, one file each. `names()` and `get()` describe them
without torch; `build()` makes a seeded module and its example inputs, `export()` writes the file:

    from convt_onnx.models import export
    export("hifigan", "hifigan.onnx", size="full", dynamic=True)
"""

from __future__ import annotations

if __name__ != "convt_onnx.models":
    raise ImportError("import convt_onnx.models: this folder is a part of that package")

from convt_onnx.models.exporting import Built, build, export
from convt_onnx.models.registry import ModelInfo, get, names

__all__ = ["Built", "ModelInfo", "build", "export", "get", "names"]
