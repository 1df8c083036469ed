from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from convt_onnx import optimize

from ..shared_models import SHARED

NEIGHBOURS = {"BatchNormalization", "Add", "Mul"}
# Such nodes with a constant directly behind a ConvTranspose, before and after.
COUNTS = {
    "corpus/trained/gtcrn_speech_enhancement.onnx": (11, 0),
    "corpus/trained/ppocrv4_det.onnx": (2, 0),
    "cases/038_in_out_k4_s2_p1_bn_leakyrelu/model.onnx": (1, 0),
    "cases/075_convtranspose_batchnormalization_to_be_folded/model.onnx": (1, 0),
    "cases/097_grouped_convtranspose_bn_w_16_8_1_5_group_2/model.onnx": (1, 0),
    "cases/101_bias_as_a_separate_add_after_convtranspose/model.onnx": (1, 0),
}


def behind(path: Path) -> int:
    graph = onnx.load(path, load_external_data=False).graph
    made = {o for n in graph.node if n.op_type == "ConvTranspose" for o in n.output}
    constant = {t.name for t in graph.initializer}
    constant |= {o for n in graph.node if n.op_type == "Constant" for o in n.output}
    return sum(
        n.op_type in NEIGHBOURS and bool(made & set(n.input)) and bool(constant & set(n.input))
        for n in graph.node
    )


@pytest.mark.parametrize("name", COUNTS)
def test_none_is_left_that_folds(tmp_path, name):
    source = SHARED / name
    if not source.exists():
        pytest.skip(f"no {name} in ../shared")
    result = optimize(source, tmp_path / "out.onnx")
    assert result.verification is not None and result.verification.ok
    assert (behind(source), behind(tmp_path / "out.onnx")) == COUNTS[name]
