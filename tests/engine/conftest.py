from __future__ import annotations

import pytest

from convt_onnx.engine.backend import load_backend
from convt_onnx.errors import MissingPartError


@pytest.fixture(scope="session")
def rtx():
    """TensorRT-RTX, which builds without a GPU."""
    try:
        return load_backend("tensorrt-rtx")
    except MissingPartError as error:
        pytest.skip(str(error))
