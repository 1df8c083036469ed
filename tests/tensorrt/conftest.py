from __future__ import annotations

import pytest

from convt_onnx.engine.backend import load_backend
from convt_onnx.engine.soname import ensure_library_name
from convt_onnx.errors import MissingPartError


@pytest.fixture(scope="session")
def rtx():
    """TensorRT-RTX, which builds without a GPU, ready for plugins."""
    try:
        backend = load_backend("tensorrt-rtx")
    except MissingPartError as error:
        pytest.skip(str(error))
    ensure_library_name(backend)
    return backend
