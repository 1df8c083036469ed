from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from convt_onnx import pipeline
from convt_onnx.passes.fold_neighbours import FoldNeighbours
from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.passes.lower import Lower

from ..graph.building import (
    array,
    braces,
    initializer_names,
    model,
    op_types,
    with_function,
)
from ..verify.judging import assert_close, assert_same, random_feeds, run
from .neighbours import BN, behind, quantised


def assert_folded(applied, *ops, tolerance=1e-5):
    assert applied.changes == (f"ct: {', '.join(ops)} folded",)
    assert op_types(applied.after) == ["ConvTranspose"]
    assert [o.name for o in applied.after.graph.output] == list(applied.conv_transpose.output)
    assert_same(applied.before, applied.after, tolerance=tolerance)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("opset", [7, 9, 14, 15, 22])
def test_batch_normalization(apply, opset, group, bias):
    steps = "y = BatchNormalization <epsilon=0.01, momentum=0.5> (h, gamma, beta, mean, var)"
    before = behind(steps, group=group, bias=bias, opset=opset, **BN)
    applied = apply(before, FoldNeighbours)
    if opset >= 14:
        assert_folded(applied, "BatchNormalization")
    else:  # onnx's evaluator trains there
        assert op_types(applied.after) == ["ConvTranspose"]
        feeds = random_feeds(before)
        assert_close(run(applied.after, feeds), run(before, feeds))


@pytest.mark.parametrize(
    ("step", "bias"),
    [
        ("y = Mul (h, c)", True),
        ("y = Mul (c, h)", False),
        ("y = Div (h, c)", True),
        ("y = Add (h, c)", False),
        ("y = Add (c, h)", True),
        ("y = Sub (h, c)", False),
        ("y = Sub (c, h)", True),
        ("y = Sub (c, h)", False),
    ],
)
@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1, 1), (1, 1, 1, 1), (1,), ()])
def test_arithmetic_by_one_value_a_channel_or_one_alone(apply, step, bias, shape):
    before = behind(step, bias=bias, c=array(*shape, seed=7) + np.float32(0.1))
    assert_folded(apply(before, FoldNeighbours), step.split()[2])


@pytest.mark.parametrize("shape", ["1,4,1,1", "N,4,H,W"])
def test_whatever_the_sizes(apply, shape):
    before = behind("y = Add (h, c)", shape=shape, c=array(6, 1, 1))
    assert_folded(apply(before, FoldNeighbours), "Add")


def test_depthwise_with_two_outputs_a_channel(apply):
    text = """g (float[2,3,5] x) => (float[] y) {
      [ct] h = ConvTranspose <strides=[2], group=3> (x, w)
      y = BatchNormalization (h, gamma, beta, mean, var) }"""
    applied = apply(model(text, w=array(3, 2, 4), **BN), FoldNeighbours)
    assert_folded(applied, "BatchNormalization")


def test_three_dimensions(apply):
    text = """g (float[1,2,3,4,2] x) => (float[] y) {
      [ct] h = ConvTranspose <strides=[2,1,3], group=2> (x, w) y = Mul (h, c) }"""
    before = model(text, w=array(2, 3, 2, 3, 2), c=array(6, 1, 1, 1))
    assert_folded(apply(before, FoldNeighbours), "Mul")


def test_a_chain_is_rounded_once(apply):
    steps = """i = Mul (h, c) j = Add (d, i) k = Div (j, e)
      l = BatchNormalization (k, gamma, beta, mean, var) m = Sub (l, s) y = Sub (s, m)"""
    given = {n: array(6, 1, 1, seed=i) + np.float32(0.2) for i, n in enumerate("cde")}
    before = behind(steps, bias=False, s=array(1), **given, **BN)
    applied = apply(before, FoldNeighbours)
    assert_folded(applied, "Mul", "Add", "Div", "BatchNormalization", "Sub", "Sub")
    assert initializer_names(applied.after) == {"ct/weight", "ct/bias"}


def test_constants_that_are_computed(apply):
    steps = """t = Sqrt (c) u = Unsqueeze (t, axes) y = Mul (h, u)"""
    before = behind(steps, c=np.abs(array(6)) + 0.1, axes=np.array([1, 2]))
    assert_folded(apply(before, FoldNeighbours), "Mul")


def test_constants_that_are_nodes(apply):
    value = f"<value = float[6,1,1] {braces(array(6))}>"
    assert_folded(apply(behind(f"c = Constant {value} () y = Mul (h, c)"), FoldNeighbours), "Mul")


def test_another_reader_of_the_weight_keeps_it(apply):
    text = """g (float[1,4,5] x) => (float[] y, float[] z) {
      [ct] h = ConvTranspose <strides=[2]> (x, w) y = Mul (h, c)
      [other] z = ConvTranspose (x, w) }"""
    before = model(text, w=array(4, 6, 3), c=array(6, 1))
    applied = apply(before, FoldNeighbours)
    assert initializer_names(applied.after) == {"w", "ct/weight"}
    assert_same(before, applied.after)


def test_readers_that_scale_it_alike_share_the_new_one(apply):
    text = """g (float[1,4,5] x) => (float[] y, float[] z) {
      [a] h = ConvTranspose <strides=[2]> (x, w) y = Mul (h, c)
      [b] i = ConvTranspose <strides=[3]> (x, w) j = Mul (i, c) z = Add (j, d) }"""
    before = model(text, w=array(4, 6, 3), c=array(6, 1), d=array(6, 1, seed=1))
    applied = apply(before, FoldNeighbours)
    assert initializer_names(applied.after) == {"a/weight", "b/bias"}
    assert_same(before, applied.after)


def test_the_identity_leaves_the_weight_alone(apply):
    before = behind(
        "i = Mul (h, one) y = Add (i, zero)", one=np.ones((), "f"), zero=np.zeros(1, "f")
    )
    applied = apply(before, FoldNeighbours)
    assert_folded(applied, "Mul", "Add")
    assert initializer_names(applied.after) == {"w", "b"}


def test_a_channel_scaled_by_zero(apply):
    scale = array(6, 1, 1)
    scale[2] = 0
    assert_folded(apply(behind("y = Mul (h, c)", c=scale), FoldNeighbours), "Mul")


def test_the_output_takes_over_name_type_and_readers(apply):
    text = """g (float[1,4,5] x) => (float[] p, float[] q) {
      h = ConvTranspose <strides=[2]> (x, w) y = Add (h, c) p = Relu (y) q = Neg (y) }"""
    applied = apply(model(text, w=array(4, 6, 3), c=array(6, 1)), FoldNeighbours)
    assert [(n.op_type, list(n.output)) for n in applied.nodes] == [
        ("ConvTranspose", ["y"]),
        ("Relu", ["p"]),
        ("Neg", ["q"]),
    ]
    # What `--form` and `--skip` call the node does not change.
    assert applied.conv_transpose.name == "ConvTranspose->h"
    assert_same(applied.before, applied.after)


def test_a_summand_goes_into_the_bias_of_a_weight_known_at_run_time(apply):
    text = """g (float[1,4,5] x, float[4,6,3] w) => (float[] y) {
      [ct] h = ConvTranspose <strides=[2]> (x, w) y = Sub (h, c) }"""
    assert_folded(apply(model(text, c=array(6, 1)), FoldNeighbours), "Sub")


def test_a_summand_goes_into_the_bias_of_a_quantised_weight(apply):
    before = quantised("y = Add (h, c)")
    applied = apply(before, FoldNeighbours)
    assert op_types(applied.after) == ["DequantizeLinear", "ConvTranspose"]
    assert_same(before, applied.after)


@pytest.mark.parametrize("dtype", ["double", "float16"])
def test_other_element_types(apply, dtype):
    kind = np.float64 if dtype == "double" else np.float16
    steps = "i = Mul (h, c) y = Add (i, d)"
    given = {n: array(6, 1, 1, seed=i).astype(kind) for i, n in enumerate("cd")}
    applied = apply(behind(steps, dtype=dtype, **given), FoldNeighbours)
    assert applied.changes == ("ct: Mul, Add folded",)
    assert all(
        t.data_type == applied.before.graph.initializer[0].data_type
        for t in applied.after.graph.initializer
    )
    if dtype == "float16":
        assert_same(applied.before, applied.after, tolerance=4e-3)


def test_bfloat16(apply):
    text = """g (bfloat16[1,4,5] x) => (bfloat16[] y) {
      [ct] h = ConvTranspose <strides=[2]> (x, w) y = Mul (h, c) }"""
    w, c = array(4, 6, 3).astype(ml_dtypes.bfloat16), array(6, 1).astype(ml_dtypes.bfloat16)
    applied = apply(model(text, opset=22, ir_version=10, w=w, c=c), FoldNeighbours)
    (tensor,) = applied.after.graph.initializer
    wanted = (w.astype(np.float64) * c.astype(np.float64)[None]).astype(ml_dtypes.bfloat16)
    assert (onnx.numpy_helper.to_array(tensor).astype("f") == wanted.astype("f")).all()


def test_in_a_subgraph_with_the_weight_outside(apply):
    text = """g (float[1,4,5] x, bool c) => (float[] y) {
      y = If (c) <
        then_branch = t () => (float[] p) {
          h = ConvTranspose <strides=[2]> (x, w) p = Mul (h, k) },
        else_branch = e () => (float[] q) {
          h = ConvTranspose <strides=[2]> (x, w) q = Mul (h, k) }> }"""
    before = model(text, w=array(4, 6, 2), k=array(6, 1))
    applied = apply(before, FoldNeighbours)
    assert op_types(applied.after) == ["If", "ConvTranspose", "ConvTranspose"]
    assert len(applied.after.graph.initializer) == 1
    for flag in (True, False):
        assert_same(before, applied.after, {"x": array(1, 4, 5), "c": np.array(flag)})


def test_in_a_function(apply):
    w, c = braces(array(4, 3, 3)), braces(array(6))
    before = with_function(
        "g (float[1,4,5] x) => (float[] y) { y = f.up (x) }",
        f"""up (x) => (y) {{
          w = Constant <value = float[4,3,3] {w}> () c = Constant <value = float[6,1] {c}> ()
          h = ConvTranspose <group=2, strides=[2]> (x, w) i = Mul (h, c) y = Add (i, c) }}""",
    )
    applied = apply(before, FoldNeighbours)
    assert applied.changes == ("f:up/ConvTranspose->h: Mul, Add folded",)
    assert op_types(applied.after) == ["up", "Constant", "Constant", "ConvTranspose"]
    feeds = random_feeds(before)  # the oracle does not reach into functions
    assert_close(run(applied.after, feeds), run(before, feeds))


@pytest.mark.parametrize("target", ["ort-cpu", "portable"])
def test_in_the_whole_pipeline(apply, target):
    steps = "i = BatchNormalization (h, gamma, beta, mean, var) y = LeakyRelu (i)"
    before = behind(steps, **BN)
    applied = apply(before, *pipeline.PREPARATIONS, *pipeline.FOLDS, Lower, target=target)
    assert "BatchNormalization" not in op_types(applied.after)
    assert_same(before, applied.after)


def test_a_computed_weight_is_folded_first(apply):
    text = """g (float[1,4,5] x) => (float[] y) {
      w = Mul (v, u) [ct] h = ConvTranspose (x, w) y = Mul (h, c) }"""
    before = model(text, v=array(4, 6, 3), u=array(1), c=array(6, 1))
    assert_folded(apply(before, FoldWeights, FoldNeighbours), "Mul")


def test_behind_a_crop_that_folds_first(apply):
    text = """g (float[N,4,L] x) => (float[] y) {
      [ct] h = ConvTranspose <strides=[2]> (x, w) i = Slice (h, one, end, two)
      j = BatchNormalization (i, gamma, beta, mean, var) k = Slice (j, one, far, two)
      y = Mul (k, c) }"""
    numbers = {"one": 1, "two": 2, "end": -1, "far": 2**62}
    arrays = {n: np.array([v]) for n, v in numbers.items()}
    before = model(text, w=array(4, 6, 5), c=array(6, 1), **arrays, **BN)
    applied = apply(before, *pipeline.PREPARATIONS, *pipeline.FOLDS)
    assert op_types(applied.after) == ["ConvTranspose"]
    assert applied.attributes["pads"] == [2, 1]
    assert_same(before, applied.after)
