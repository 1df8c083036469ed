from __future__ import annotations

import itertools

import numpy as np
import pytest

from convt_onnx.errors import GeometryError
from convt_onnx.padding import AUTO_PADS
from convt_onnx.passes.canonical_pads import CanonicalPads

from ..graph.building import array, model, with_function
from ..verify.judging import assert_same, random_feeds, run

CANONICAL = ("kernel_shape", "strides", "dilations", "pads", "output_padding", "group")


def node(attributes, x="float[1,3,7]", w=(3, 4, 4), opset=17):
    text = f"g ({x} x) => (float[] y) {{ y = ConvTranspose <{attributes}> (x, w) }}"
    return model(text, opset=opset, w=array(*w))


def test_absent_attributes_become_their_defaults(apply):
    text = "g (float[1,3,7,6] x) => (float[] y) { y = ConvTranspose (x, w) }"
    applied = apply(model(text, w=array(3, 4, 3, 2)), CanonicalPads)
    assert applied.attributes == {
        "kernel_shape": [3, 2],
        "strides": [1, 1],
        "dilations": [1, 1],
        "pads": [0, 0, 0, 0],
        "output_padding": [0, 0],
        "group": 1,
    }
    assert applied.changes == ("ConvTranspose->y: attributes written out",)
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize(
    ("auto_pad", "kernel", "stride"),
    list(itertools.product(AUTO_PADS, (1, 2, 3, 5), (1, 2, 3))),
)
def test_auto_pad_becomes_pads(apply, auto_pad, kernel, stride):
    attributes = f'auto_pad="{auto_pad}", strides=[{stride}]'
    applied = apply(node(attributes, w=(3, 4, kernel)), CanonicalPads)
    assert sorted(applied.attributes) == sorted(CANONICAL)
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize(
    ("auto_pad", "out"),
    list(itertools.product(AUTO_PADS, (13, 14, 15, 16, 17))),
)
def test_output_shape_becomes_pads_and_output_padding(apply, auto_pad, out):
    attributes = f'auto_pad="{auto_pad}", strides=[2], output_shape=[{out}]'
    applied = apply(node(attributes), CanonicalPads)
    assert sorted(applied.attributes) == sorted(CANONICAL)
    (y,) = run(applied.after, random_feeds(applied.before)).values()
    assert y.shape == (1, 4, out)
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize(
    ("pads", "output_padding", "wanted"),
    [
        ((1, 2), 1, ((1, 1), 0)),
        ((1, 1), 1, ((1, 0), 0)),
        ((1, 0), 1, ((1, 0), 1)),
        ((0, 1), 2, ((0, 0), 1)),
    ],
)
def test_output_padding_is_taken_from_the_end_pads(apply, pads, output_padding, wanted):
    text = f"pads={list(pads)}, output_padding=[{output_padding}], strides=[3]"
    applied = apply(node(text), CanonicalPads)
    (begin, end), left = wanted
    assert applied.attributes["pads"] == [begin, end]
    assert applied.attributes["output_padding"] == [left]
    assert_same(applied.before, applied.after)


def test_negative_end_pads_become_output_padding(apply):
    applied = apply(node("pads=[1, -1], strides=[2]"), CanonicalPads)
    assert applied.attributes["pads"] == [1, 0]
    assert applied.attributes["output_padding"] == [1]
    feeds = random_feeds(applied.before)
    # ONNX Runtime refuses the original, so the oracle is the only judge.
    wanted = apply(node("pads=[1, 0], strides=[2], output_padding=[1]"), CanonicalPads)
    assert_same(wanted.before, applied.after, feeds)


def test_the_dilation_of_a_kernel_of_one_is_one(apply):
    applied = apply(
        node("dilations=[3, 2], strides=[2, 2]", "float[1,3,4,5]", (3, 4, 1, 3)), CanonicalPads
    )
    assert applied.attributes["dilations"] == [1, 2]
    assert_same(applied.before, applied.after)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_open_sizes_do_not_matter_to_auto_pad(apply, auto_pad):
    before = node(f'auto_pad="{auto_pad}", strides=[2,3]', "float[N,3,H,W]", (3, 4, 5, 2))
    applied = apply(before, CanonicalPads)
    assert applied.changes
    for sizes in ((1, 3, 1, 1), (2, 3, 4, 9)):
        assert_same(before, applied.after, {"x": array(*sizes)})


@pytest.mark.parametrize("opset", [1, 7, 11, 21, 22])
def test_every_opset(apply, opset):
    applied = apply(node('auto_pad="SAME_LOWER", strides=[2]', opset=opset), CanonicalPads)
    assert_same(applied.before, applied.after)


def test_nothing_to_write(apply):
    text = "kernel_shape=[4], strides=[2], dilations=[1], pads=[1,1], output_padding=[0], group=1"
    assert apply(node(text), CanonicalPads).changes == ()


def test_not_where_the_crop_depends_on_an_open_size(apply):
    before = node("strides=[2], output_shape=[14]", "float[N,3,L]")
    applied = apply(before, CanonicalPads)
    assert applied.changes == ()
    assert applied.attributes == {"strides": [2], "output_shape": [14]}


def test_not_where_attributes_come_from_the_call(apply):
    before = with_function(
        "g (float[1,3,7] x) => (float[] y) { y = f.up <s=[2]> (x, w) }",
        "up <s> (a, b) => (c) { c = ConvTranspose <strides: ints = @s> (a, b) }",
        w=array(3, 4, 4),
    )
    assert apply(before, CanonicalPads).changes == ()


def test_not_where_a_begin_pad_is_negative(apply):
    assert apply(node("pads=[-1, 1], strides=[2]"), CanonicalPads).changes == ()


def test_not_where_no_valid_output_padding_says_it(apply):
    # -3 rows at the end, at a stride of 2.
    assert apply(node("pads=[0, -3], strides=[2]"), CanonicalPads).changes == ()


def test_not_where_the_weight_has_no_shape(apply):
    text = "g (float[1,3,7] x, float[] w) => (float[] y) { y = ConvTranspose <strides=[2]> (x, w) }"
    assert apply(model(text), CanonicalPads).changes == ()


def test_not_a_node_that_the_user_skips(apply):
    text = """g (float[1,3,7] x) => (float[] y, float[] z)
    { [a] y = ConvTranspose (x, w) [b] z = ConvTranspose (x, w) }"""
    applied = apply(model(text, w=array(3, 4, 4)), CanonicalPads, skip=["a"])
    assert applied.changes == ("b: attributes written out",)
    assert not applied.after.graph.node[0].attribute


def test_not_an_operator_of_the_same_name_in_another_domain(apply):
    text = "g (float[1,3,7] x) => (float[] y) { y = other.ConvTranspose (x, w) }"
    before = model(text, domains='"other" : 1', w=array(3, 4, 4))
    assert apply(before, CanonicalPads).changes == ()


@pytest.mark.parametrize(
    "attributes",
    ["pads=[1]", "strides=[0]", "group=2", "output_shape=[99]", "kernel_shape=[3]"],
)
def test_invalid_nodes_are_refused_by_name(apply, attributes):
    with pytest.raises(GeometryError, match="ConvTranspose->y"):
        apply(node(attributes), CanonicalPads)


def test_in_a_subgraph(apply):
    text = """g (float[1,3,7] x, bool c) => (float[] y) {
      y = If (c) <
        then_branch = t () => (float[] p) { p = ConvTranspose <auto_pad="SAME_UPPER"> (x, w) },
        else_branch = e () => (float[] q) { q = ConvTranspose <strides=[3]> (x, w) }> }"""
    applied = apply(model(text, w=array(3, 4, 4)), CanonicalPads)
    assert len(applied.changes) == 2
    for flag in (True, False):
        feeds = {"x": array(1, 3, 7), "c": np.array(flag)}
        assert_same(applied.before, applied.after, feeds)


def test_equal_names_in_two_branches_have_shapes_of_their_own(apply):
    text = """g (float[1,3,8] x, bool c) => (float[] y) {
      y = If (c) <
        then_branch = t () => (float[] p) {
          h = MaxPool <kernel_shape=[2], strides=[2]> (x)
          p = ConvTranspose <output_shape=[9], strides=[2]> (h, w) },
        else_branch = e () => (float[] q) {
          h = Relu (x)
          q = ConvTranspose <output_shape=[17], strides=[2]> (h, w) }> }"""
    applied = apply(model(text, w=array(3, 4, 4)), CanonicalPads)
    for flag in (True, False):
        feeds = {"x": array(1, 3, 8), "c": np.array(flag)}
        assert_same(applied.before, applied.after, feeds)


def test_in_a_function_whose_values_are_named_as_the_models(apply):
    before = with_function(
        "g (float[1,3,9] x) => (float[] y) { h = Conv (x, v) y = f.up (h) }",
        """up (x) => (y) {
          w = Constant <value = float[2,1,3] {1,2,3,4,5,6}> ()
          y = ConvTranspose <auto_pad="SAME_UPPER", strides=[2]> (x, w) }""",
        v=array(2, 3, 2),
    )
    applied = apply(before, CanonicalPads)
    assert applied.changes == ("f:up/ConvTranspose->y: attributes written out",)
    assert_same(before, applied.after)
