"""Quantised weights that have to be folded first, reasons, and islands of other float types."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from convt_onnx.graph.quantised import integer_variants
from convt_onnx.optimization import OptimizeOptions, optimize
from convt_onnx.passes.base import Context
from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.passes.lower import Lower
from convt_onnx.targets import get_target

from ..graph.building import array, initializer_names, model, op_types, with_function, write
from ..verify.judging import assert_close, random_feeds, run

INTEGERS = np.random.default_rng(0).integers(-127, 128, (3, 4, 5)).astype(np.int8)
FORMS = ["phases", "phases-split", "overlap-add", "zero-insertion"]


def scales(*shape):
    return np.abs(array(*shape)) / 50 + np.float32(0.01)


def assert_same(applied, tolerance=1e-5):
    feeds = random_feeds(applied.before)
    assert_close(run(applied.after, feeds), run(applied.before, feeds), tolerance)


def wide_types(proto):
    return {t.data_type for t in proto.graph.initializer if len(t.dims) >= 3}


TRANSPOSED = """g (float[1,3,7] x) => (float[] y) {
  v = DequantizeLinear <axis=AXIS> (q, s) w = Transpose <perm=[2,0,1]> (v)
  [a] y = ConvTranspose <strides=[2]> (x, w) }"""
FAKE = """g (float[1,3,7] x) => (float[] y) {
  q = QuantizeLinear <axis=AXIS> (v, s, z) w = DequantizeLinear <axis=AXIS> (q, s, z)
  [a] y = ConvTranspose <strides=[2]> (x, w) }"""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_transpose_moves_to_the_integers(apply, axis, form):
    """tf2onnx leaves it there; axis 0 of [M, K, C_in] is axis 1 of the weight."""
    q = np.ascontiguousarray(INTEGERS.transpose(1, 2, 0))
    text = TRANSPOSED.replace("AXIS", str(axis))
    before = model(text, q=q, s=scales(q.shape[axis]))
    applied = apply(before, FoldWeights, Lower, forms={"a": form})
    assert onnx.TensorProto.FLOAT not in wide_types(applied.after)
    assert "DequantizeLinear" in op_types(applied.after)
    assert_same(applied)


@pytest.mark.parametrize("perm", ["[1,0]", "[0,1,3]", "[0,0,1]", "[0,1,2,3]"])
def test_a_transpose_of_another_rank_stays(apply, perm):
    text = TRANSPOSED.replace("AXIS", "0").replace("[2,0,1]", perm)
    applied = apply(model(text, q=INTEGERS, s=scales(3)), FoldWeights)
    assert op_types(applied.after) == ["DequantizeLinear", "Transpose", "ConvTranspose"]


def test_several_transposes_and_an_identity(apply):
    text = """g (float[1,3,7] x) => (float[] y) {
      u = DequantizeLinear <axis=2> (q, s, z) v = Transpose <perm=[1,2,0]> (u) i = Identity (v)
      w = Transpose (i) [a] y = ConvTranspose <strides=[2]> (x, w) }"""
    z = np.array([3, -4, 5, 0], np.int8)
    q = np.ascontiguousarray(INTEGERS.transpose(0, 2, 1))
    applied = apply(model(text, q=q, s=scales(4), z=z), FoldWeights)
    assert op_types(applied.after) == ["DequantizeLinear", "ConvTranspose"]
    assert_same(applied)


@pytest.mark.parametrize("axis", [0, 1])
def test_float_weights_behind_a_constant_quantizer(apply, axis):
    before = model(
        FAKE.replace("AXIS", str(axis)),
        v=array(3, 4, 5),
        s=scales(INTEGERS.shape[axis]),
        z=np.zeros(INTEGERS.shape[axis], np.int8),
    )
    applied = apply(before, FoldWeights, Lower, forms={"a": "phases"})
    assert wide_types(applied.after) == {onnx.TensorProto.INT8}
    assert "QuantizeLinear" not in op_types(applied.after)
    assert "v" not in initializer_names(applied.after)
    assert_same(applied)


def test_in_a_function(apply):
    values = ",".join(str(v) for v in INTEGERS.ravel())
    body = f"""up (x) => (y) {{
      q = Constant <value = int8[3,4,5] {{{values}}}> () s = Constant <value_float = 0.02> ()
      v = DequantizeLinear (q, s) w = Identity (v) y = ConvTranspose <strides=[2]> (x, w) }}"""
    before = with_function("g (float[1,3,7] x) => (float[] y) { y = f.up (x) }", body)
    applied = apply(before, FoldWeights, Lower, forms={"all": "phases"})
    assert "ConvTranspose" not in op_types(applied.after)
    assert_same(applied)


@pytest.mark.parametrize("text", [TRANSPOSED, FAKE])
@pytest.mark.parametrize("dequantize", [True, False])
def test_dequantize_folds_everything(text, dequantize, tmp_path):
    if text is TRANSPOSED:
        axis, named = "0", {"q": INTEGERS.transpose(1, 2, 0).copy()}
    else:
        axis, named = "1", {"v": array(3, 4, 5), "z": np.zeros(4, np.int8)}
    before = model(text.replace("AXIS", axis), s=scales(4), **named)
    out = tmp_path / "out.onnx"
    options = OptimizeOptions(dequantize=dequantize, forms={"a": "phases"})
    result = optimize(write(before, tmp_path), out, options)
    assert result.verification.ok
    after = onnx.load(out)
    wanted = onnx.TensorProto.FLOAT if dequantize else onnx.TensorProto.INT8
    assert wide_types(after) == {wanted}
    assert ("DequantizeLinear" in op_types(after)) != dequantize


def test_dequantize_folds_the_bias_too(tmp_path):
    text = """g (float[1,3,7] x) => (float[] y) {
      w = DequantizeLinear <axis=1> (q, s) b = DequantizeLinear <axis=0> (p, s)
      [a] y = ConvTranspose <strides=[2]> (x, w, b) }"""
    bias = np.arange(4, dtype=np.int32) * 100
    before = model(text, q=INTEGERS, s=scales(4), p=bias)
    out = tmp_path / "out.onnx"
    optimize(write(before, tmp_path), out, OptimizeOptions(dequantize=True))
    after = onnx.load(out)
    assert op_types(after) == ["ConvTranspose"]
    folded = {t.name: numpy_helper.to_array(t) for t in after.graph.initializer}
    np.testing.assert_allclose(folded[after.graph.node[0].input[2]], bias * scales(4), rtol=1e-6)


# Reasons.


def misses(proto, tmp_path):
    result = optimize(
        write(proto, tmp_path), tmp_path / "out.onnx", OptimizeOptions(verify=False, force=True)
    )
    return [(m.node, m.reason.id) for m in result.misses]


@pytest.mark.parametrize(
    ("attributes", "shape", "expected"),
    [
        ("<axis=0>", (3,), [("a", "CT462")]),
        ("<axis=1>", (4,), []),
        ("<axis=2>", (5,), [("a", "CT463")]),
        ("<axis=1, block_size=2>", (3, 2, 5), [("a", "CT463")]),
        ("", (), []),
    ],
)
def test_scales_that_rule_integers_out_are_reported(attributes, shape, expected, tmp_path):
    text = f"""g (float[1,3,7] x) => (float[] y) {{
      w = DequantizeLinear {attributes} (q, s) [a] y = ConvTranspose <strides=[2]> (x, w) }}"""
    s = np.full(shape, 0.02, np.float32)
    assert misses(model(text, opset=21, ir_version=10, q=INTEGERS, s=s), tmp_path) == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("attributes", ["<axis=2>", "<axis=1, block_size=2>"])
def test_other_scales_are_repacked_at_run_time(apply, attributes, form):
    text = f"""g (float[1,3,7] x) => (float[] y) {{
      w = DequantizeLinear {attributes} (q, s) [a] y = ConvTranspose <strides=[2]> (x, w) }}"""
    s = scales(5) if "axis=2" in attributes else scales(3, 2, 5)
    applied = apply(
        model(text, opset=21, ir_version=10, q=INTEGERS, s=s), FoldWeights, Lower, forms={"a": form}
    )
    assert wide_types(applied.after) <= {onnx.TensorProto.INT8} or "block" in attributes
    feeds = random_feeds(applied.before)
    assert_close(run(applied.after, feeds), run(applied.before, feeds), 1e-5)


@pytest.mark.parametrize("other", ["", "[b] z = ConvTranspose (x, w)"])
def test_integer_variants_are_left_alone(other, tmp_path):
    text = """g (float[1,3,7] x) => (float[] y) {
      [a] y = com.example.QLinearConvTranspose (x, w, s) OTHER }""".replace("OTHER", other)
    proto = model(text, domains='"com.example" : 1', w=array(3, 4, 5), s=array())
    assert ("a", "CT461") in misses(proto, tmp_path)
    assert "QLinearConvTranspose" in op_types(onnx.load(tmp_path / "out.onnx"))


@pytest.mark.parametrize("kind", ["QLinearConv", "ConvInteger", "ConvTranspose"])
def test_other_nodes_are_no_integer_variants(kind):
    text = f"g (float[1,3,7] x) => (float[] y) {{ y = {kind} (x, w) }}"
    assert not list(integer_variants(ir.from_proto(model(text, w=array(3, 4, 5)))))


# Float16 and mixed precision.


@pytest.mark.parametrize("form", ["keep", *FORMS])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_float16_scales(apply, axis, form):
    attribute = "" if axis is None else f"<axis={axis}>"
    text = f"""g (float16[1,3,7] x) => (float16[] y) {{
      w = DequantizeLinear {attribute} (q, s) [a] y = ConvTranspose <strides=[2]> (x, w) }}"""
    shape = () if axis is None else (INTEGERS.shape[axis],)
    s = np.asarray(scales(*shape)).astype(np.float16)
    before = model(text, opset=19, q=INTEGERS, s=s)
    applied = apply(before, FoldWeights, Lower, forms={"a": form})
    assert wide_types(applied.after) == {onnx.TensorProto.INT8}
    feeds = random_feeds(before)
    assert_close(run(applied.after, feeds), run(before, feeds), 5e-3)


@pytest.mark.parametrize("form", ["keep", *FORMS])
def test_a_float32_island_in_a_float16_model(apply, form):
    text = """g (float16[1,3,7] h) => (float16[] r) {
      x = Cast <to=1> (h) w = Cast <to=1> (v) b = Cast <to=1> (c)
      [a] y = ConvTranspose <strides=[2]> (x, w, b) r = Cast <to=10> (y) }"""
    half = {"v": array(3, 4, 5, dtype=np.float16), "c": array(4, dtype=np.float16)}
    applied = apply(model(text, **half), FoldWeights, Lower, forms={"a": form})
    assert op_types(applied.after).count("Cast") == 2
    assert_same(applied, 2e-3)


@pytest.mark.parametrize("form", ["keep", *FORMS])
def test_integers_dequantised_to_float16_and_cast(apply, form):
    text = """g (float[1,3,7] x) => (float[] y) {
      v = DequantizeLinear <axis=1> (q, s) w = Cast <to=1> (v)
      [a] y = ConvTranspose <strides=[2]> (x, w) }"""
    before = model(text, opset=19, q=INTEGERS, s=scales(4).astype(np.float16))
    applied = apply(before, FoldWeights, Lower, forms={"a": form})
    assert wide_types(applied.after) == {onnx.TensorProto.INT8}
    feeds = random_feeds(before)
    assert_close(run(applied.after, feeds), run(before, feeds), 1e-5)


def test_the_context_keeps_weights_quantised_by_default():
    assert Context(get_target("ort-cpu"), {}, None).dequantize is False
