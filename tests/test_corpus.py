"""Every model of the shared corpus and cases, on every target; skipped where they are absent."""

from __future__ import annotations

import onnx
import pytest

from convt_onnx import OptimizeOptions, VerifyOptions, optimize
from convt_onnx.errors import GeometryError
from convt_onnx.targets import TARGETS

from .shared_models import INVALID, MODELS, inputs_beside, label

pytestmark = pytest.mark.skipif(not MODELS, reason="the shared corpus is not beside the checkout")


def conv_transposes(path):
    model = onnx.load(path, load_external_data=False)
    return [n for n in model.graph.node if n.op_type == "ConvTranspose" and n.domain == ""]


# tests/engine/test_corpus.py builds engines of what the TensorRT targets give.
@pytest.mark.parametrize("target", [t for t in TARGETS if not t.startswith("tensorrt")])
@pytest.mark.parametrize("path", MODELS, ids=label)
def test_is_verified_or_refused_with_a_reason(path, target, tmp_path):
    out = tmp_path / "out.onnx"
    options = OptimizeOptions(target=target, checks=VerifyOptions(inputs=inputs_beside(path)))
    if path.parent.name.startswith(INVALID):
        with pytest.raises(GeometryError):
            optimize(path, out, options)
        assert list(tmp_path.iterdir()) == []
        return
    result = optimize(path, out, options)
    assert result.verification is None or result.verification.ok
    if target == "portable":
        assert conv_transposes(out) == []
        assert all(d.form is not None for d in result.decisions)
    again = optimize(out, tmp_path / "again.onnx", options)
    assert not again.modified
    assert (tmp_path / "again.onnx").read_bytes() == out.read_bytes()
