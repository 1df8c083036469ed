from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.passes.float_quantised import FloatQuantised

from ..graph.building import array, as_inputs, model, op_types, with_function
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


def biased(bias="q", attributes="", zero=None, **arrays):
    """A convolution with a quantised bias, `ort-cuda`'s case."""
    third = "" if zero is None else ", z"
    text = f"""g (float[2,4,5,7] x) => (float[] y)
    {{ b = DequantizeLinear {attributes} ({bias}, s{third}) y = Conv (x, w, b) }}"""
    arrays = {"q": integers(3, dtype=np.int32), "s": np.float32(0.01)} | arrays
    if zero is not None:
        arrays["z"] = zero
    return model(text, w=array(3, 4, 2, 2), **arrays)


class TestBiasesOffTheDevice:
    """DequantizeLinear of int32, which ONNX Runtime's CUDA provider leaves to the CPU."""

    @pytest.mark.parametrize(
        "proto",
        [
            biased(),
            biased(attributes="<axis = 0>", s=np.linspace(0.01, 0.03, 3, dtype=np.float32)),
            biased(zero=np.int32(0)),
        ],
        ids=["one scale", "a scale each", "zero point"],
    )
    def test_become_floats(self, apply, proto):
        applied = apply(proto, FloatQuantised, target="ort-cuda")
        assert applied.changes == ("b: folded",)
        assert op_types(applied.after) == ["Conv"]
        assert {i.name for i in applied.after.graph.initializer}.isdisjoint({"q", "s", "z"})
        feeds = random_feeds(proto)
        assert_close(run(applied.after, feeds), run(proto, feeds))

    def test_of_a_constant_node_too(self, apply):
        text = """g (float[2,4,5,7] x) => (float[] y)
        { q = Constant <value = int32[3] {5, -70, 900}> () b = DequantizeLinear (q, s)
          y = Conv (x, w, b) }"""
        proto = model(text, s=np.float32(0.01), w=array(3, 4, 2, 2))
        applied = apply(proto, FloatQuantised, target="ort-cuda")
        assert op_types(applied.after) == ["Conv"]
        feeds = random_feeds(proto)
        assert_close(run(applied.after, feeds), run(proto, feeds))

    def test_in_a_branch_too(self, apply):
        text = """g (bool c, float[2,4,5,7] x) => (float[2,3,4,6] y) { y = If (c) <
            then_branch = t () => (float[2,3,4,6] a)
            { b = DequantizeLinear (q, s) a = Conv (x, w, b) },
            else_branch = e () => (float[2,3,4,6] d) { d = Conv (x, w) }
        > }"""
        arrays = {"q": integers(3, dtype=np.int32), "s": np.float32(0.01), "w": array(3, 4, 2, 2)}
        proto = model(text, **arrays)
        applied = apply(proto, FloatQuantised, target="ort-cuda")
        assert "DequantizeLinear" not in op_types(applied.after)
        for taken in (True, False):
            feeds = {"c": np.array(taken), "x": array(2, 4, 5, 7)}
            assert_close(run(applied.after, feeds), run(proto, feeds))

    def test_that_others_read_are_folded_for_each(self, apply):
        text = """g (float[2,4,5,7] x) => (float[] y, int32[3] q2)
        { b = DequantizeLinear (q, s) q2 = Identity (q) y = Conv (x, w, b) }"""
        arrays = {"q": integers(3, dtype=np.int32), "s": np.float32(0.01), "w": array(3, 4, 2, 2)}
        applied = apply(model(text, **arrays), FloatQuantised, target="ort-cuda")
        assert op_types(applied.after) == ["Identity", "Conv"]

    @pytest.mark.parametrize("ir_version", [3, 9])
    @pytest.mark.parametrize("reader", ["b", ""])
    def test_that_the_model_gives_out_keep_their_name(self, apply, ir_version, reader):
        text = f"""g (float[2,4,5,7] x) => (float[2,3,4,6] y, float[3] b)
        {{ q = Constant <value = int32[3] {{5, -70, 900}}> ()
          s = Constant <value = float {{0.01}}> ()
          b = DequantizeLinear (q, s) y = Conv (x, w, {reader}) }}"""
        proto = model(text, w=array(3, 4, 2, 2))
        if ir_version == 3:
            proto = as_inputs(proto, "w")
        proto.ir_version = ir_version
        applied = apply(proto, FloatQuantised, target="ort-cuda")
        assert applied.changes == ("b: folded",)
        assert "DequantizeLinear" not in op_types(applied.after)
        assert [o.name for o in applied.after.graph.output] == ["y", "b"]
        feeds = {"x": array(2, 4, 5, 7)}
        assert_close(run(applied.after, feeds), run(proto, feeds))

    @pytest.mark.parametrize("target", ["ort-cpu", "portable"])
    def test_stay_where_the_runtime_takes_them(self, apply, target):
        assert apply(biased(), FloatQuantised, target=target).changes == ()

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8])
    def test_integers_that_the_device_takes_stay(self, apply, dtype):
        proto = weights(dtype, 7 * (dtype is np.uint8))
        assert apply(proto, FloatQuantised, target="ort-cuda").changes == ()

    def test_activations_stay(self, apply):
        assert apply(quantised(3), FloatQuantised, target="ort-cuda").changes == ()

    @pytest.mark.parametrize("moving", ["int32[3] q", "float s"])
    def test_computed_when_the_model_runs_are_told(self, apply, moving):
        text = f"""g ({moving}, float[2,4,5,7] x) => (float[] y)
        {{ b = DequantizeLinear (q, s) y = Conv (x, w, b) }}"""
        arrays = {"q": integers(3, dtype=np.int32), "s": np.float32(0.01), "w": array(3, 4, 2, 2)}
        del arrays[moving.split()[1]]
        applied = apply(model(text, **arrays), FloatQuantised, target="ort-cuda")
        assert applied.changes == ()
        assert [(m.node, m.reason.id) for m in applied.context.misses] == [("b", "CT575")]

    def test_that_a_caller_may_override_stay(self, apply):
        applied = apply(as_inputs(biased(), "q"), FloatQuantised, target="ort-cuda")
        assert applied.changes == ()

    def test_of_another_domain_stay(self, apply):
        proto = biased()
        proto.graph.node[0].domain = "com.microsoft"
        proto.opset_import.add(domain="com.microsoft", version=1)
        assert apply(proto, FloatQuantised, target="ort-cuda").changes == ()

    def test_in_a_function_stay(self, apply):
        proto = with_function(
            "g (float[2,4,5,7] x) => (float[] y) { y = f.biased (x, w) }",
            """biased (x, w) => (y)
            { q = Constant <value = int32[3] {5, -70, 900}> ()
              s = Constant <value = float {0.01}> ()
              b = DequantizeLinear (q, s) y = Conv (x, w, b) }""",
            w=array(3, 4, 2, 2),
        )
        assert apply(proto, FloatQuantised, target="ort-cuda").changes == ()

    def test_of_a_quantised_network_leave_the_device_no_more(self, apply):
        """Integers in and out of both convolutions: the results stay on their grid."""
        text = """g (float[2,4,5,7] x) => (float[] y)
        { xq = QuantizeLinear (x, sx, z) xd = DequantizeLinear (xq, sx, z)
          wd = DequantizeLinear (wq, sw) b = DequantizeLinear (q, sb) c = Conv (xd, wd, b)
          cq = QuantizeLinear (c, sc, z) y = DequantizeLinear (cq, sc, z) }"""
        sx, sw, sc = np.float32(0.03), np.float32(0.01), np.float32(0.2)
        arrays = {"sx": sx, "sw": sw, "sb": sx * sw, "sc": sc, "z": np.uint8(128)}
        arrays |= {"wq": integers(3, 4, 2, 2), "q": integers(3, dtype=np.int32)}
        proto = model(text, **arrays)
        applied = apply(proto, FloatQuantised, target="ort-cuda")
        assert applied.changes == ("b: folded",)
        feeds = random_feeds(proto)
        # A value between two steps may be rounded to either.
        assert np.abs(run(applied.after, feeds)["y"] - run(proto, feeds)["y"]).max() <= 1.001 * sc
