from __future__ import annotations

import pytest

from convt_onnx.passes.replace_removed import ReplaceRemoved

from ..graph.building import model, op_types
from ..verify.judging import assert_close, random_feeds, run

KINDS = {
    "crop": ("Crop <border=[1,2,3,0]> (x)", ["Slice"]),
    "affine": ("Affine <alpha=2.5, beta=-0.5> (x)", ["Mul", "Add"]),
    "affine without beta": ("Affine <alpha=2.5> (x)", ["Mul", "Add"]),
    "image scaler": ("ImageScaler <scale=0.5, bias=[1.0,-2.0,3.0]> (x)", ["Mul", "Add"]),
}


def experimental(call, opset=7):
    text = f"g (float[2,3,7,9] x) => (float[a,b,c,d] y) {{ y = {call} }}"
    return model(text, opset=opset, ir_version=3)


@pytest.mark.parametrize("call, ops", KINDS.values(), ids=KINDS)
def test_the_values_stay(apply, call, ops):
    proto = experimental(call)
    applied = apply(proto, ReplaceRemoved, target="tensorrt-rtx")
    assert [op for op in op_types(applied.after) if op != "Constant"] == ops
    feeds = random_feeds(proto)
    assert_close(run(applied.after, feeds), run(proto, feeds))


@pytest.mark.parametrize("call, ops", KINDS.values(), ids=KINDS)
def test_targets_that_run_them_keep_them(apply, call, ops):
    assert apply(experimental(call), ReplaceRemoved, target="ort-cpu").changes == ()


@pytest.mark.parametrize(
    "call",
    ["Crop <border=[1,2,3,0], scale=[2,2]> (x)", "Crop <border=[-1,0,0,0]> (x)", "Relu (x)"],
)
def test_what_they_do_not_say_alike_stays(apply, call):
    assert apply(experimental(call), ReplaceRemoved, target="tensorrt-rtx").changes == ()


def test_old_opsets_stay(apply):
    proto = experimental("Affine <alpha=2.0> (x)", opset=6)
    assert apply(proto, ReplaceRemoved, target="tensorrt-rtx").changes == ()


def test_a_name_of_another_domain_stays(apply):
    text = "g (float[2,3,7,9] x) => (float[a,b,c,d] y) { y = mine.Crop <border=[1,1,1,1]> (x) }"
    proto = model(text, opset=7, domains='"mine" : 1')
    assert apply(proto, ReplaceRemoved, target="tensorrt-rtx").changes == ()
