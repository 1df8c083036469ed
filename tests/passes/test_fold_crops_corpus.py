"""What exporters write."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from convt_onnx import model_io, pipeline
from convt_onnx.decide import Choice
from convt_onnx.passes.base import Context
from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_crops import FoldCrops
from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.targets import get_target

from ..graph.building import op_types
from ..shared_models import SHARED

ARCHITECTURES = "corpus/architectures"

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is absent")

FOLDED = {
    f"{ARCHITECTURES}/keras_dcgan": (3, 0),
    f"{ARCHITECTURES}/keras_odd_kernels": (3, 0),
    f"{ARCHITECTURES}/paper_autopad_transformers_style__ts": (2, 0),
    f"{ARCHITECTURES}/tf2onnx_unet_dynamic": (3, 0),
    f"{ARCHITECTURES}/transformers_mimi_decoder__dy": (6, 4),
    "corpus/trained/candy_style_transfer": (2, 0),
    "cases/094_encodec_mimi_causal_convtranspose_k8_s4_then_sli/model": (1, 0),
}
REFUSED = {
    # Cropped to the size of a tensor that pooling has rounded.
    f"{ARCHITECTURES}/paper_fcn8s_group__ts": {"CT406"},
    f"{ARCHITECTURES}/fcn8s_fp16": {"CT406"},
    # Cut into two parts, both of which are used.
    "corpus/trained/gtcrn_speech_enhancement": {"CT401"},
}


def assert_folds(name):
    loaded = model_io.load(SHARED / f"{name}.onnx")
    context = Context(get_target("ort-cpu"), {}, Choice({}, frozenset()))
    pipeline.run((FoldWeights, CanonicalPads, FoldCrops), loaded, context)
    return ir.to_proto(loaded.model), context


@pytest.mark.parametrize("name", FOLDED)
def test_folded(name):
    after, context = assert_folds(name)
    count, slices = FOLDED[name]
    assert len(context.changes["fold-crops"]) == count
    assert [m for m in context.misses if m.pass_name == "fold-crops"] == []
    assert op_types(after).count("Slice") == slices


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    _, context = assert_folds(name)
    assert context.changes["fold-crops"] == []
    misses = [m for m in context.misses if m.pass_name == "fold-crops"]
    assert {m.reason.id for m in misses} == REFUSED[name]
