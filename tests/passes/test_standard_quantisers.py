"""QuantizeLinear and DequantizeLinear of com.microsoft."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.passes.lower import Lower
from convt_onnx.passes.standard_quantisers import StandardQuantisers

from ..graph.building import array, model
from ..verify.judging import random_feeds, run

INTEGERS = np.arange(-30, 30).reshape(3, 4, 5).astype(np.int8)
CALL = "com.microsoft."
BODY = """
a = {c}QuantizeLinear (x, k, n)  d = {c}DequantizeLinear (a, k, n)
w = {c}DequantizeLinear <AXIS> (q, s, z)
[up] y = ConvTranspose <strides=[2]> (d, w)
e = {c}QuantizeLinear (y, l, m)  r = {c}DequantizeLinear (e, l, m)
"""


def build(axis="axis=1", *, opset=17, scale=None, body=BODY, **others):
    per_channel = "axis" in axis
    if scale is None:
        scale = np.linspace(0.01, 0.05, 4, dtype=np.float32) if per_channel else np.float32(0.02)
    known = {
        "q": INTEGERS,
        "s": np.asarray(scale),
        "z": np.zeros(np.shape(scale), np.int8),
        "k": np.float32(0.03),
        "n": np.uint8(120),
        "l": np.float32(0.2),
        "m": np.uint8(128),
    } | others
    text = body.replace("{c}", CALL).replace("<AXIS>", f"<{axis}>" if axis else "")
    arrays = {n: np.asarray(a) for n, a in known.items()}
    return model(
        f"g (float[1,3,7] x) => (float[] r) {{ {text} }}",
        opset=opset,
        domains='"com.microsoft" : 1',
        **arrays,
    )


def domains(proto):
    nodes = [n for n in proto.graph.node if "Quantize" in n.op_type or "Dequantize" in n.op_type]
    return {n.domain for n in nodes}


def assert_equal(before, after):
    feeds = random_feeds(before)
    old, new = run(before, feeds)["r"], run(after, feeds)["r"]
    assert len(np.unique(old)) > 5
    np.testing.assert_array_equal(new, old)


@pytest.mark.parametrize("axis", ["", "axis=1"])
@pytest.mark.parametrize("opset", [13, 17, 22])
def test_they_become_standard(apply, axis, opset):
    before = build(axis, opset=opset)
    applied = apply(before, StandardQuantisers)
    assert applied.changes == ("up: 5 of com.microsoft became standard",)
    assert domains(applied.after) == {""}
    assert_equal(before, applied.after)


@pytest.mark.parametrize("form", ["phases", "overlap-add"])
@pytest.mark.parametrize("axis", ["", "axis=1"])
def test_forms_stay_quantised(apply, axis, form):
    before = build(axis)
    passes = (StandardQuantisers, FoldWeights, Lower)
    applied = apply(before, *passes, forms={"up": form})
    assert "ConvTranspose" not in [n.op_type for n in applied.nodes]
    weights = [t for t in applied.after.graph.initializer if len(t.dims) >= 3]
    assert {t.data_type for t in weights} == {onnx.TensorProto.INT8}
    feeds = random_feeds(before)
    old, new = run(before, feeds)["r"], run(applied.after, feeds)["r"]
    assert np.abs(old - new).max() <= 0.2 + 1e-6


def test_16_bits_where_the_opset_has_them(apply):
    wide = {"q": INTEGERS.astype(np.int16) * 100, "z": np.zeros(4, np.int16)}
    before = build(opset=17, **wide)
    applied = apply(before, StandardQuantisers)
    assert [m.reason.id for m in applied.context.misses] == ["CT464"]
    assert domains(applied.after) == {"", "com.microsoft"}
    assert_equal(before, applied.after)
    assert domains(apply(build(opset=21, **wide), StandardQuantisers).after) == {""}


def test_float16_scales_where_the_opset_has_them(apply):
    body = """w = {c}DequantizeLinear <AXIS> (q, s, z)
    [up] y = ConvTranspose (h, w)  r = Cast <to=1> (y)"""
    half = np.linspace(0.01, 0.05, 4).astype(np.float16)
    text = body.replace("[up]", "h = Cast <to=10> (x) [up]")
    unused = dict.fromkeys("knlm", np.float32(0))
    for opset, wanted in ((17, {"com.microsoft"}), (19, {""})):
        before = build(opset=opset, scale=half, body=text, **unused)
        assert domains(apply(before, StandardQuantisers).after) == wanted


def test_a_computed_scale(apply):
    body = f"t = ReduceMax <keepdims=0> (x)  u = Mul (s, t) {BODY}".replace(
        "(q, s, z)", "(q, u, z)"
    )
    assert_refused(apply, build(body=body))


def test_an_axis_before_opset_13(apply):
    assert_refused(apply, build(opset=12))


def assert_refused(apply, before):
    applied = apply(before, StandardQuantisers)
    weight = next(n for n in applied.nodes if n.output[0] == "w")
    assert weight.domain == "com.microsoft"
    assert [m.reason.id for m in applied.context.misses] == ["CT464"]


def test_quantisers_elsewhere_stay(apply):
    text = """[up] y = ConvTranspose (x, w)  t = Tanh (y)
    e = com.microsoft.QuantizeLinear (t, l, m)  r = com.microsoft.DequantizeLinear (e, l, m)"""
    before = model(
        f"g (float[1,3,7] x) => (float[] r) {{ {text} }}",
        domains='"com.microsoft" : 1',
        w=array(3, 4, 5),
        l=np.array(0.1, np.float32),
        m=np.array(128, np.uint8),
    )
    applied = apply(before, StandardQuantisers)
    assert applied.changes == ()
    assert domains(applied.after) == {"com.microsoft"}


def test_a_node_that_is_skipped(apply):
    applied = apply(build(), StandardQuantisers, skip=("up",))
    assert applied.changes == ()


@pytest.mark.parametrize("relu", [False, True])
def test_behind_a_relu_in_a_branch(apply, relu):
    end = "v = Relu (y)" if relu else "v = Identity (y)"
    body = f"""c = ReduceSum <keepdims=0> (x)  b = Cast <to=9> (c)
    r = If (b) <then_branch = t () => (float[1,4,17] p) {{
      w = {{c}}DequantizeLinear <AXIS> (q, s, z) [up] y = ConvTranspose <strides=[2]> (x, w)
      {end} e = {{c}}QuantizeLinear (v, l, m) p = {{c}}DequantizeLinear (e, l, m) }},
    else_branch = f () => (float[1,4,17] o) {{ o = ConstantOfShape (sh) }}>"""
    before = build(body=body, sh=np.array([1, 4, 17], np.int64))
    applied = apply(before, StandardQuantisers)
    wanted = "3" if relu else "1"
    assert applied.changes == (f"up: {wanted} of com.microsoft became standard",)
    assert_equal(before, applied.after)
