from __future__ import annotations

import onnx
import pytest

from convt_onnx import OptimizeOptions, optimize

from ..graph.building import write
from .plugging import UNTIMED


@pytest.fixture
def plugged(tmp_path):
    """Optimise with the plugin: the model before and after, and the result."""

    def call(proto, target="tensorrt-rtx", **options):
        source = write(proto, tmp_path, "before.onnx")
        options = {"plugin": True, "force": True, "tune": UNTIMED} | options
        result = optimize(source, options=OptimizeOptions(target=target, **options))
        after = onnx.load(result.output)
        onnx.checker.check_model(after, full_check=True)
        assert result.verification is None or result.verification.ok
        return after, result

    return call
