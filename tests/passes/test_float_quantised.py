from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.passes.float_quantised import FloatQuantised

from ..graph.building import array, model, op_types
from ..verify.judging import assert_close, random_feeds, run


def integers(*shape, dtype=np.int8):
    info = np.iinfo(dtype)
    low, high = max(info.min, -1000), min(info.max, 1000)
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


def quantised(zero=3, dtype=np.int8, reader="y = ConvTranspose <strides=[2,2]> (d, w)"):
    text = f"""g (float[2,4,5,7] x) => (float[] y)
    {{ q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) {reader} }}"""
    return model(text, s=np.float32(0.03), z=np.array(zero, dtype), w=array(4, 3, 3, 2))


def weights(dtype, zero=0, axis=None):
    count = () if axis is None else ((4, 3)[axis],)
    attributes = "" if axis is None else f"<axis={axis}>"
    text = f"""g (float[2,4,5,7] x) => (float[] y)
    {{ w = DequantizeLinear {attributes} (q, s, z) y = ConvTranspose <strides=[2,2]> (x, w) }}"""
    return model(
        text,
        q=integers(4, 3, 3, 2, dtype=dtype),
        s=np.linspace(0.01, 0.02, int(np.prod(count)), dtype=np.float32).reshape(count),
        z=np.full(count, zero, dtype),
    )


class TestConstants:
    @pytest.mark.parametrize(
        "dtype, zero, axis", [(np.uint8, 0, None), (np.uint8, 7, 1), (np.int8, -2, None)]
    )
    def test_become_floats(self, apply, dtype, zero, axis):
        proto = weights(dtype, zero, axis)
        applied = apply(proto, FloatQuantised, target="tensorrt-rtx")
        assert applied.changes == ("w: folded",)
        assert op_types(applied.after) == ["ConvTranspose"]
        feeds = random_feeds(proto)
        assert_close(run(applied.after, feeds), run(proto, feeds))

    def test_int32_biases_of_other_nodes_too(self, apply):
        text = """g (float[2,4,5,7] x) => (float[] y)
        { b = DequantizeLinear (q, s) y = Conv (x, w, b) }"""
        proto = model(text, q=integers(3, dtype=np.int32), s=np.float32(0.01), w=array(3, 4, 2, 2))
        applied = apply(proto, FloatQuantised, target="tensorrt")
        assert op_types(applied.after) == ["Conv"]
        feeds = random_feeds(proto)
        assert_close(run(applied.after, feeds), run(proto, feeds))

    def test_that_the_target_takes_stay_integers(self, apply):
        assert apply(weights(np.int8), FloatQuantised, target="tensorrt-rtx").changes == ()

    def test_stay_for_targets_that_take_all(self, apply):
        assert apply(weights(np.uint8, 7), FloatQuantised, target="ort-cpu").changes == ()

    def test_computed_when_the_model_runs_are_told(self, apply):
        text = """g (uint8[4,3,3,2] q, float[2,4,5,7] x) => (float[] y)
        { w = DequantizeLinear (q, s) y = ConvTranspose (x, w) }"""
        applied = apply(model(text, s=np.float32(0.1)), FloatQuantised, target="tensorrt-rtx")
        assert applied.changes == ()
        assert [m.reason.id for m in applied.context.misses] == ["CT515"]


class TestActivations:
    @pytest.mark.parametrize("dtype, zero", [(np.int8, 3), (np.uint8, 128), (np.uint8, 0)])
    def test_are_rounded_in_floats_to_the_same_values(self, apply, dtype, zero):
        proto = quantised(zero, dtype)
        applied = apply(proto, FloatQuantised, target="tensorrt-rtx")
        assert op_types(applied.after) == ["Div", "Round", "Clip", "Mul", "ConvTranspose"]
        # Beyond the range at both ends.
        feeds = {"x": 4 * array(2, 4, 5, 7)}
        assert_close(run(applied.after, feeds), run(proto, feeds), 1e-6)

    def test_with_a_zero_point_of_zero_stay(self, apply):
        assert apply(quantised(0), FloatQuantised, target="tensorrt-rtx").changes == ()

    def test_whose_integers_others_read_stay(self, apply):
        proto = quantised(3, reader="t = Transpose (q) y = DequantizeLinear (t, s, z)")
        applied = apply(proto, FloatQuantised, target="tensorrt-rtx")
        assert op_types(applied.after).count("QuantizeLinear") == 1
        assert "y" in {m.node for m in applied.context.misses}

    def test_need_round(self, apply):
        text = """g (float[4] x) => (float[4] y)
        { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"""
        proto = model(text, opset=10, s=np.float32(0.1), z=np.uint8(3))
        assert apply(proto, FloatQuantised, target="tensorrt-rtx").changes == ()

    def test_in_a_branch(self, apply):
        text = """g (bool c, float[4] x) => (float[] y) { y = If (c) <
            then_branch = t () => (float[] a)
            { q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) },
            else_branch = e () => (float[] b) { b = Neg (x) }
        > }"""
        proto = model(text, s=np.float32(0.1), z=np.uint8(3))
        applied = apply(proto, FloatQuantised, target="tensorrt-rtx")
        assert "QuantizeLinear" not in op_types(applied.after)
        feeds = random_feeds(proto)
        assert_close(run(applied.after, feeds), run(proto, feeds))
