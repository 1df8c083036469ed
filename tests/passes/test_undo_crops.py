from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convt_onnx import targets
from convt_onnx.decide import Choice
from convt_onnx.passes.base import Context
from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.crops_symmetric import symmetric_part
from convt_onnx.passes.fold_crops import FoldCrops
from convt_onnx.passes.undo_crops import UndoCrops
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec

from ..graph.building import array, braces, ints, model, op_types, with_function
from ..verify.judging import assert_same, run

SYMMETRIC = replace(
    targets.get_target("ort-cpu"), name="symmetric", conv_transpose=True, asymmetric_pads=False
)


@pytest.fixture
def undo(apply, monkeypatch):
    """For a target that takes symmetric pads alone; folding does not bring the crop back."""
    monkeypatch.setitem(targets.TARGETS, "symmetric", SYMMETRIC)

    def call(proto, **options):
        canonical = apply(proto, CanonicalPads, **options).after
        applied = apply(canonical, UndoCrops, target="symmetric", **options)
        again = apply(applied.after, FoldCrops, UndoCrops, target="symmetric", **options)
        assert again.changes == ()
        assert again.after == applied.after
        return applied

    return call


def node(attributes, x="float[N,3,L]", kernel=(5,), opset=17):
    text = f"g ({x} x) => (float[] y) {{ y = ConvTranspose <{attributes}> (x, w, b) }}"
    return model(text, opset=opset, w=array(3, 4, *kernel), b=array(4))


def inside(applied):
    return applied.attributes["pads"], applied.attributes["output_padding"]


@pytest.mark.parametrize("opset", [1, 9, 10, 13, 22])
@pytest.mark.parametrize(
    ("attributes", "pads", "output_padding", "slices"),
    [
        # The end loses more: rows are dropped behind the node.
        ("strides=[2], pads=[0, 3]", [0, 0], 0, 1),
        ("strides=[2], pads=[1, 2]", [1, 1], 0, 1),
        # The begin loses more, by less than a stride: output_padding makes up for it.
        ("strides=[2], pads=[2, 1]", [2, 2], 1, 0),
        ("strides=[3], pads=[2, 0]", [2, 2], 2, 0),
        ("strides=[2], pads=[1, 1], output_padding=[1]", [1, 1], 1, 0),
        # By more: the rest is dropped in front.
        ("strides=[2], pads=[3, 0]", [1, 1], 1, 1),
        ("strides=[1], pads=[2, 0]", [0, 0], 0, 1),
        ("strides=[3], pads=[4, 0], output_padding=[1]", [1, 1], 2, 1),
    ],
)
def test_applies(undo, opset, attributes, pads, output_padding, slices):
    before = node(attributes, opset=opset)
    applied = undo(before)
    assert inside(applied) == (pads, [output_padding])
    assert op_types(applied.after) == ["ConvTranspose", "Slice"][: 1 + slices]
    assert "output_shape" not in applied.attributes
    for n in (2, 5):
        assert_same(before, applied.after, {"x": array(2, 3, n)})


def test_one_slice_does_all_axes(undo):
    before = node("strides=[2,2], pads=[0,3,2,0]", "float[N,3,H,W]", (4, 5))
    applied = undo(before)
    assert inside(applied) == ([0, 1, 0, 1], [0, 1])
    assert op_types(applied.after) == ["ConvTranspose", "Slice"]
    assert_same(before, applied.after, {"x": array(2, 3, 3, 4)})


def test_names_stay(undo):
    text = """g (float[1,3,L] x) => (float[1,4,M] y) {
      [n] y = ConvTranspose <pads=[0,1]> (x, w) z = Neg (y) }"""
    applied = undo(model(text, w=array(3, 4, 5)))
    assert applied.conv_transpose.name == "n"
    assert applied.nodes[1].output == ["y"]
    assert applied.changes == ("n: symmetric pads, [0] and [1] sliced",)
    unnamed = undo(node("pads=[0, 1]"))
    assert unnamed.conv_transpose.name == "ConvTranspose->y"


def test_an_even_difference_of_dilation_and_stride(undo):
    applied = undo(node("strides=[2], dilations=[3], pads=[1, 4]"))
    assert inside(applied) == ([1, 1], [0])
    assert_same(applied.before, applied.after, {"x": array(1, 3, 4)})


@pytest.mark.parametrize(
    "attributes",
    [
        "kernel_shape=[5], pads=[1, 1]",
        "pads=[0, 0], strides=[2]",
        "pads=[0, 0], strides=[2], output_padding=[1]",
        'auto_pad="SAME_UPPER", strides=[1], dilations=[2]',
        "strides=[2]",
    ],
)
def test_not_where_pads_are_symmetric(undo, attributes):
    assert undo(node(attributes)).changes == ()


def test_not_where_the_target_takes_them(apply):
    assert apply(node("pads=[0, 1]"), CanonicalPads, UndoCrops).changes == ()


def test_not_where_the_begin_pad_is_negative(undo):
    before = node("pads=[-1, 1], strides=[2]")
    assert undo(before).changes == ()


def test_not_where_the_crop_depends_on_an_open_size(undo):
    before = node("strides=[2], output_shape=[14]", "float[1,3,L]")
    assert undo(before).changes == ()


def test_not_where_the_weight_has_no_shape(undo):
    text = "g (float[1,3,7] x, float[] w) => (float[] y) { y = ConvTranspose <pads=[0,1]> (x, w) }"
    assert undo(model(text)).changes == ()


def test_not_a_node_that_the_user_skips(undo):
    text = """g (float[1,3,7] x) => (float[] y, float[] z)
    { [a] y = ConvTranspose <pads=[0,1]> (x, w) [b] z = ConvTranspose <pads=[0,1]> (x, w) }"""
    applied = undo(model(text, w=array(3, 4, 4)), skip=["a"])
    assert [c[:2] for c in applied.changes] == ["b:"]
    assert_same(applied.before, applied.after)


def test_not_an_operator_of_the_same_name_in_another_domain(undo):
    text = "g (float[1,3,7] x) => (float[] y) { y = other.ConvTranspose <pads=[0,1]> (x, w) }"
    assert undo(model(text, domains='"other" : 1', w=array(3, 4, 4))).changes == ()


def test_a_crop_that_folding_left_asymmetric_elsewhere(apply, undo):
    text = """g (float[N,3,L] x) => (float[] z) {
      y = ConvTranspose <strides=[2]> (x, w) z = Slice (y, s, e, a) }"""
    before = model(text, w=array(3, 4, 5), s=ints(1), e=ints(-2), a=ints(2))
    folded = apply(before, CanonicalPads, FoldCrops)
    assert op_types(folded.after) == ["ConvTranspose"]
    applied = undo(folded.after)
    assert op_types(applied.after) == ["ConvTranspose", "Slice"]
    assert_same(before, applied.after, {"x": array(2, 3, 4)})


def test_in_a_subgraph(undo):
    text = """g (float[1,3,7] x, bool c) => (float[] y) {
      y = If (c) <
        then_branch = t () => (float[] p) { p = ConvTranspose <pads=[0,2]> (x, w) },
        else_branch = e () => (float[] q) {
          q = ConvTranspose <pads=[2,0], strides=[3]> (x, w) }> }"""
    applied = undo(model(text, w=array(3, 4, 4)))
    assert len(applied.changes) == 2
    for flag in (True, False):
        assert_same(applied.before, applied.after, {"x": array(1, 3, 7), "c": np.array(flag)})


def test_in_a_function(undo):
    before = with_function(
        "g (float[N,3,L] x) => (float[] y) { y = f.up (x) }",
        f"""up (x) => (y) {{ w = Constant <value = float[3,4,4] {braces(array(3, 4, 4))}> ()
        y = ConvTranspose <pads=[0,1], strides=[2]> (x, w) }}""",
    )
    applied = undo(before)
    assert op_types(applied.after).count("Slice") == 1
    assert_same(before, applied.after, {"x": array(1, 3, 5)})


@st.composite
def specs(draw):
    n = draw(st.integers(1, 3))

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(n))

    strides = each(1, 4)
    return ConvTransposeSpec(
        in_channels=2,
        out_channels=3,
        group=1,
        kernel=each(1, 4),
        strides=strides,
        dilations=each(1, 3),
        pads_begin=each(0, 6),
        pads_end=each(0, 6),
        output_padding=tuple(draw(st.integers(0, s - 1)) for s in strides),
    ).canonical()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(specs(), st.integers(7, 22), st.integers(0, 1 << 20))
def test_drawn(spec, opset, seed):
    sizes = [a.least_length + 1 for a in spec.axes()]
    part = symmetric_part(spec)
    assert part.spec.pads_begin == part.spec.pads_end
    assert all(op < s for op, s in zip(part.spec.output_padding, spec.strides, strict=True))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 2, *sizes)).astype(np.float32)
    weight = rng.standard_normal(spec.weight_shape).astype(np.float32)
    text = f"""g (float[] x) => (float[] y) {{ y = ConvTranspose <strides={list(spec.strides)},
    dilations={list(spec.dilations)}, pads={[*spec.pads_begin, *spec.pads_end]},
    output_padding={list(spec.output_padding)}> (x, w) }}"""
    loaded = ir.from_proto(model(text, opset=opset, w=weight))
    context = Context(SYMMETRIC, {}, Choice({}, frozenset()))
    CanonicalPads(context)(loaded)
    UndoCrops(context)(loaded)
    after = ir.to_proto(loaded)
    FoldCrops(context)(loaded)
    UndoCrops(context)(loaded)
    assert ir.to_proto(loaded) == after
    (y,) = run(after, {"x": x}).values()
    wanted = conv_transpose(x, weight, None, spec)
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, rtol=0, atol=2e-5)
