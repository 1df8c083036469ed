"""`inspect --target tensorrt-rtx` against what TensorRT-RTX does."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from convt_onnx import inspect
from convt_onnx.reasons import REASONS

from ..graph.building import array, as_inputs, model, with_function, write
from .simulating import assert_means, means, optimised


@pytest.fixture
def sweep(load, rtx):
    return load("tensorrt_sweep")


def check_sweep(sweep, rtx, folder, count, seed):
    lines = list(sweep.sweep(rtx, sweep.geometries(count, seed), folder))
    assert len(lines) > count // 2
    for x in lines:
        assert x.after == "right", (seed, x)
        assert sweep.as_predicted(x), (seed, x)
    assert {x.before for x in lines} >= {"refused", "not built", "wrong", "right"}


def test_drawn_models_build_after_optimize_and_go_wrong_before_as_predicted(sweep, rtx, tmp_path):
    check_sweep(sweep, rtx, tmp_path, 32, seed=7)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 4))
def test_many_drawn_models(sweep, rtx, tmp_path, seed):
    check_sweep(sweep, rtx, tmp_path, 500, seed)


def gaps(proto, folder, target="tensorrt-rtx"):
    found = inspect(write(proto, folder), [target]).gaps
    assert all(g.target == target and g.reason.id in REASONS for g in found)
    return [(g.reason.id, g.effect) for g in found]


def node(attributes="", x="float[2,4,5,7] x", inputs="x, w", w=None, opset=17, **arrays):
    text = f"g ({x}) => (float[] y) {{ y = ConvTranspose <{attributes or 'group=1'}> ({inputs}) }}"
    return model(text, opset=opset, w=array(4, 3, 3, 4) if w is None else w, **arrays)


RULES = {
    "CT517": (
        node("strides=[5], pads=[2,1], output_padding=[4]", x="float[2,4,1] x", w=array(4, 3, 1)),
        "refused",
    ),
    "CT500": (node("strides=[1,2], dilations=[2,1]"), "refused"),
    "CT502": (
        node("output_shape=[11], strides=[2]", x="float[2,4,5] x", w=array(4, 3, 3)),
        "refused",
    ),
    "CT503": (node("output_shape=[9,9]", x="float[2,4,H,W] x"), "refused"),
    "CT504": (node("output_shape=[15,16], strides=[3,2]", w=array(4, 3, 1, 4)), "refused"),
    "CT505": (node("output_shape=[10,15], strides=[2,2]"), "wrong"),
    "CT506": (node('auto_pad="VALID", output_padding=[1,1], strides=[2,2]'), "wrong"),
    "CT507": (node('auto_pad="SAME_LOWER", output_shape=[6,9]'), "wrong"),
    "CT508": (
        node("output_padding=[1,0], strides=[2,2]", "float[2,4,5,7] x, float[3] b", "x, w, b"),
        "wrong",
    ),
    "CT509": (node(x="float[N,C,H,W] x"), "refused"),
    "CT512": (node(x="float[1,4,2,2,2,2] x", w=array(4, 3, 1, 1, 2, 2)), "refused"),
    "CT514": (
        model(
            "g (double[2,4,5,7] x) => (double[] y) { y = ConvTranspose (x, w) }",
            w=array(4, 3, 3, 4, dtype=np.float64),
        ),
        "narrowed",
    ),
    "CT501": (
        model(
            "g (bfloat16[2,4,5,7] x) => (bfloat16[2,3,7,10] y) { y = ConvTranspose (x, w) }",
            opset=22,
            w=array(4, 3, 3, 4).astype(ml_dtypes.bfloat16),
        ),
        "refused",
    ),
    "CT515": (
        model(
            """g (float[2,4,5,7] x) => (float[] y)
            { w = DequantizeLinear (q, s, z) y = ConvTranspose (x, w) }""",
            q=np.arange(144, dtype=np.uint8).reshape(4, 3, 3, 4),
            s=np.float32(0.1),
            z=np.uint8(9),
        ),
        "refused",
    ),
}


@pytest.mark.parametrize("id", RULES)
def test_each_rule_has_a_model(tmp_path, id):
    proto, effect = RULES[id]
    assert gaps(proto, tmp_path) == [(id, effect)]
    assert gaps(proto, tmp_path, "ort-cpu") == []


RIGHT = {
    "explicit pads": node("pads=[1,2,0,1], strides=[2,2]"),
    "output_padding within the pads": node("pads=[1,1,1,1], output_padding=[1,1], strides=[2,2]"),
    "an even total": node("output_shape=[9,14], strides=[2,2]"),
    "SAME without output_padding": node('auto_pad="SAME_UPPER", strides=[2,2]'),
    "a constant bias": node(
        "output_padding=[1,0], strides=[2,2]", inputs="x, w, b", b=np.ones(3, np.float32)
    ),
    "a default bias": as_inputs(
        node("output_padding=[1,0], strides=[2,2]", inputs="x, w, b", b=np.ones(3, np.float32)),
        "b",
    ),
}


@pytest.mark.parametrize("proto", RIGHT.values(), ids=RIGHT)
def test_what_comes_out_right_has_no_gap(tmp_path, proto):
    assert gaps(proto, tmp_path) == []


def test_attributes_that_a_function_reads_from_its_call(tmp_path):
    proto = with_function(
        "g (float[2,4,5,7] x) => (float[] y) { y = f.up <step=[2,3]> (x, w) }",
        "up <step> (x, w) => (y) { y = ConvTranspose <strides: ints = @step> (x, w) }",
        w=array(4, 3, 3, 4),
    )
    assert gaps(proto, tmp_path) == [("CT510", "wrong")]


def test_functions_of_one_name_are_told_and_inlined(rtx, tmp_path):
    body = '\n<domain: "{0}", opset_import: ["" : 17]>\nup (x) => (y) {{ {1} }}'
    text = "g (float[2,4,5,7] x) => (float[] a, float[] b) { a = one.up (x) b = two.up (x) }"
    text += body.format("one", "w = Constant <value = float[4,1,1,1] {1,2,3,4}> () "
                        "y = ConvTranspose <strides=[2,2]> (x, w)")  # fmt: skip
    text += body.format("two", "y = Neg (x)")
    proto = model(text, domains='"one" : 1, "two" : 1')
    feeds = {"x": array(2, 4, 5, 7)}
    source = write(proto, tmp_path)
    assert ("CT511", "wrong") in gaps(proto, tmp_path)
    got = means(rtx, source, feeds)
    assert got["a"].shape == got["b"].shape  # one body stands for both
    out, _ = optimised(proto, tmp_path)
    assert_means(rtx, out, proto, feeds)


def test_operators_that_onnx_took_back_are_told(tmp_path):
    text = """g (float[2,4,5,7] x) => (float[a,b,c,d] y)
    { t = ConvTranspose (x, w) y = Crop <border=[1,1,1,1]> (t) }"""
    proto = model(text, opset=7, ir_version=4, w=array(4, 3, 3, 4))
    assert gaps(proto, tmp_path) == [("CT516", "refused")]


def test_old_versions_have_more(tmp_path):
    proto = node("group=2", x="float[1,4,3,3,3] x", w=array(4, 3, 2, 2, 2))
    assert gaps(proto, tmp_path) == []
    assert gaps(proto, tmp_path, "tensorrt-rtx-1.4") == [("CT513", "refused")]
