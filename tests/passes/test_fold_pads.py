from __future__ import annotations

import itertools

import numpy as np
import pytest

from convt_onnx import pipeline
from convt_onnx.passes.fold_pads import FoldPads
from convt_onnx.passes.lower import Lower

from ..graph.building import array, braces, ints, model, op_types, with_function
from ..verify.judging import assert_close, assert_same, random_feeds, run
from .padding import before, behind


def assert_folded(applied, pads, output_padding):
    assert op_types(applied.after) == ["ConvTranspose"]
    assert applied.attributes["pads"] == pads
    assert applied.attributes["output_padding"] == output_padding
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize(("b", "a"), [(1, 2), (2, 0), (0, 1), (0, 0)])
def test_rows_before_a_stride_of_one_are_cropped_less(apply, b, a):
    model = before([0, 0, b, 0, 0, a], ", pads=[2,3]")
    applied = apply(model, FoldPads)
    assert applied.changes == ("ct: the Pad before it folded",)
    assert_folded(applied, [2 - b, 3 - a], [0])


@pytest.mark.parametrize(("b", "a"), list(itertools.product((0, 1, 2), (0, 1, 2))))
def test_rows_before_a_longer_stride_count_as_many_times(apply, b, a):
    model = before([0, 0, b, 0, 0, a], ", strides=[3], dilations=[2], pads=[6,4]", x="float[2,4,7]")
    pads, output_padding = ([6 - 3 * b, max(4 - 3 * a, 0)], [max(3 * a - 4, 0)])
    assert_folded(apply(model, FoldPads), pads, output_padding)


def test_each_axis_of_its_own(apply):
    model = before(
        [0, 0, 1, 0, 0, 0, 0, 2],
        ", strides=[2,1], pads=[3,0,1,2]",
        x="float[2,4,5,6]",
        w=(4, 3, 3, 4),
    )
    assert_folded(apply(model, FoldPads), [1, 0, 1, 0], [0, 0])


def test_auto_pad_is_written_out(apply):
    model = before([0, 0, 0, 0, 0, 1], ', auto_pad="SAME_UPPER", strides=[2]')
    applied = apply(model, FoldPads)
    assert "auto_pad" not in applied.attributes
    assert_folded(applied, [1, 0], [1])


def test_two_pads_one_behind_the_other(apply):
    text = """g (float[1,4,5] x) => (float[] y) {
      p = Pad (x, pads) q = Pad (p, pads) [ct] y = ConvTranspose <pads=[2,2]> (q, w) }"""
    applied = apply(model(text, w=array(4, 3, 4), pads=ints(0, 0, 1, 0, 0, 1)), FoldPads)
    assert_folded(applied, [0, 0], [0])


@pytest.mark.parametrize("opset", [2, 10])
def test_pads_as_an_attribute(apply, opset):
    text = """g (float[2,4,5] x) => (float[] y) {
      p = Pad <pads=[0,0,1,0,0,1]> (x) [ct] y = ConvTranspose <pads=[2,2]> (p, w) }"""
    applied = apply(model(text, opset=opset, w=array(4, 3, 4)), FoldPads)
    assert applied.attributes["pads"] == [1, 1]
    feeds = random_feeds(applied.before)
    assert_close(run(applied.after, feeds), run(applied.before, feeds))


def test_paddings_of_opset_1(apply):
    text = """g (float[2,4,5] x) => (float[] y) {
      p = Pad <paddings=[0,0,1,0,0,2]> (x) [ct] y = ConvTranspose <pads=[2,2]> (p, w) }"""
    old = model(text, opset=1, w=array(4, 3, 4))
    applied = apply(old, FoldPads)
    assert op_types(applied.after) == ["ConvTranspose"]
    assert applied.attributes["pads"] == [1, 0]


@pytest.mark.parametrize(
    "pad",
    [
        "Pad (x, pads, , axes)",
        "Pad (x, pads, zero, axes)",
        'Pad <mode="constant"> (x, pads, , axes)',
    ],
)
def test_axes_and_value_as_inputs(apply, pad):
    text = f"""g (float[2,4,5,6] x) => (float[] y) {{
      p = {pad} [ct] y = ConvTranspose <pads=[1,2,1,2]> (p, w) }}"""
    tensors = {"pads": ints(1, 0, 2, 1), "axes": ints(-1, 2), "zero": np.array(0, np.float32)}
    applied = apply(model(text, opset=18, w=array(4, 3, 3, 4), **tensors), FoldPads)
    assert_folded(applied, [1, 1, 0, 0], [0, 0])


def test_pads_that_are_computed(apply):
    """As torch writes them: the last axis first, reversed and transposed by the graph."""
    text = """g (float[2,4,5] x) => (float[] y) {
      none = ConstantOfShape <value = int64[1] {0}> (four) all = Concat <axis=0> (given, none)
      pairs = Reshape (all, rows) back = Slice (pairs, last, first, zero, minus)
      turned = Transpose <perm=[1,0]> (back) pads = Reshape (turned, minus)
      p = Pad (x, pads) [ct] y = ConvTranspose <pads=[2,2]> (p, w) }"""
    tensors = {
        "given": ints(2, 1),
        "four": ints(4),
        "rows": ints(-1, 2),
        "last": ints(-1),
        "first": ints(-1000),
        "zero": ints(0),
        "minus": ints(-1),
    }
    assert_folded(apply(model(text, w=array(4, 3, 4), **tensors), FoldPads), [0, 1], [0])


def test_a_pad_before_stays_for_its_other_readers(apply):
    text = """g (float[2,4,5] x) => (float[] y, float[] z) {
      p = Pad (x, pads) [ct] y = ConvTranspose <pads=[2,2]> (p, w) z = Relu (p) }"""
    applied = apply(model(text, w=array(4, 3, 4), pads=ints(0, 0, 1, 0, 0, 2)), FoldPads)
    assert applied.attributes["pads"] == [1, 0]
    assert op_types(applied.after) == ["Pad", "ConvTranspose", "Relu"]
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize("bias", [None, np.zeros(6, np.float32)])
@pytest.mark.parametrize(("end", "padding"), [(1, 0), (2, 0), (1, 1)])
def test_rows_behind_become_output_padding(apply, bias, end, padding):
    attributes = f", strides=[3], pads=[1,0], output_padding=[{padding}]"
    applied = apply(behind([0, 0, 0, 0, 0, end], attributes, bias=bias), FoldPads)
    assert applied.changes == ("ct: the Pad behind it folded",)
    assert_folded(applied, [1, 0], [end + padding])


def test_a_pad_of_nothing_goes_whatever_the_bias(apply):
    assert_folded(apply(behind([0] * 6, ", pads=[1,2]", bias=array(6)), FoldPads), [1, 2], [0])


def test_before_and_behind(apply):
    text = """g (float[N,4,L] x) => (float[] y) {
      p = Pad (x, front) [ct] h = ConvTranspose <strides=[2], pads=[2,0]> (p, w)
      y = Pad (h, back) }"""
    tensors = {"front": ints(0, 0, 1, 0, 0, 0), "back": ints(0, 0, 0, 0, 0, 1)}
    applied = apply(model(text, w=array(4, 3, 3), **tensors), FoldPads)
    assert_folded(applied, [0, 0], [1])
    assert_same(applied.before, applied.after, {"x": array(2, 4, 9)})


@pytest.mark.parametrize("form", ["phases", "zero-insertion"])
def test_a_target_that_gets_convolutions_has_no_limit(apply, form):
    for made in (
        before([0, 0, 2, 0, 0, 3], ", strides=[2], pads=[1,1]"),
        behind([0, 0, 2, 0, 0, 5], ", strides=[2]"),
    ):
        assert apply(made, FoldPads, target="portable").changes
        lowered = apply(made, FoldPads, Lower, target="portable", forms={"ct": form})
        assert lowered.changes == (f"ct: {form}",)
        assert_same(made, lowered.after)


@pytest.mark.parametrize("target", ["ort-cpu", "portable"])
def test_in_the_whole_pipeline(apply, target):
    made = before([0, 0, 1, 0, 0, 1], ", strides=[2], pads=[2,1]")
    passes = (*pipeline.PREPARATIONS, *pipeline.FOLDS, Lower)
    applied = apply(made, *passes, target=target, forms={"all": "phases"})
    assert "Pad" not in op_types(applied.after)
    assert_same(made, applied.after)


def test_in_a_subgraph_with_the_pad_outside(apply):
    text = """g (float[2,4,5] x, bool c) => (float[] y) {
      p = Pad (x, pads)
      y = If (c) <then_branch = t () => (float[] u) { u = ConvTranspose <pads=[2,2]> (p, w) },
                  else_branch = e () => (float[] v) { v = ConvTranspose <pads=[2,1]> (p, w) }> }"""
    made = model(text, w=array(4, 3, 4), pads=ints(0, 0, 1, 0, 0, 1))
    applied = apply(made, FoldPads)
    assert op_types(applied.after) == ["If", "ConvTranspose", "ConvTranspose"]
    for flag in (True, False):
        assert_same(made, applied.after, {"x": array(2, 4, 5), "c": np.array(flag)})


def test_in_a_function(apply):
    made = with_function(
        "g (float[2,4,5] x) => (float[] y) { y = f.up (x) }",
        f"""up (x) => (y) {{
          w = Constant <value = float[4,3,4] {braces(array(4, 3, 4))}> ()
          front = Constant <value_ints = [0,0,1,0,0,0]> ()
          back = Constant <value_ints = [0,0,0,0,0,1]> ()
          p = Pad (x, front) h = ConvTranspose <strides=[2], pads=[2,0]> (p, w)
          y = Pad (h, back) }}""",
    )
    applied = apply(made, FoldPads)
    assert len(applied.changes) == 2
    assert op_types(applied.after) == ["up", "Constant", "ConvTranspose"]
    feeds = random_feeds(made)
    assert_close(run(applied.after, feeds), run(made, feeds))
