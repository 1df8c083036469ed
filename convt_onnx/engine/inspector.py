"""What an engine consists of, from the library's own inspector."""

from __future__ import annotations

import json

from convt_onnx.engine.backend import Backend
from convt_onnx.engine.log import make_log


def inspect_engine(backend: Backend, content: bytes) -> tuple[str, ...] | None:
    """Names of an engine's layers after fusion; None where the engine cannot be loaded.

    Args:
        backend: The library that built it.
        content: The engine.
    """
    trt = backend.module
    engine = trt.Runtime(make_log(backend)).deserialize_cuda_engine(content)
    if engine is None:
        return None
    text = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    layers = json.loads(text).get("Layers", [])
    return tuple(x if isinstance(x, str) else str(x.get("Name", "")) for x in layers)
