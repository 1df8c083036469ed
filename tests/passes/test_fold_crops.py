"""Where crops fold into the pads."""

from __future__ import annotations

import pytest

from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_crops import FoldCrops

from ..graph.building import array, initializer_names, ints, model, op_types
from ..verify.judging import assert_close, assert_same, random_feeds, run
from .cropping import HUGE, OF_Y, UP, UP2, bounds, graph, numbers, one, pads


def assert_folded(apply, before, begin_end, output_padding=None, sizes=(), reference=None):
    applied = apply(before, CanonicalPads, FoldCrops)
    zeros = [0] * (len(begin_end) // 2)
    assert pads(applied) == (list(begin_end), output_padding or zeros)
    assert not {"Slice", "Pad", "Crop", "Shape", "Constant"} & set(op_types(applied.after))
    assert initializer_names(applied.after) <= {"w", "b", "m", "i"}
    assert [o.name for o in applied.after.graph.output] == ["z"]
    for n in sizes:
        feeds = {"x": array(2, 3, *([n] * (len(zeros))), seed=n)}
        assert_same(before, applied.after, feeds)
    if not sizes:
        assert_same(before, applied.after, reference=reference)
    return applied


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (1, -2, [1, 2]),
        (0, -1, [0, 1]),
        (3, HUGE, [3, 0]),
        (3, (1 << 31) - 1, [3, 0]),
        (0, 15, [0, 2]),
        (2, 17, [2, 0]),
        (2, 99, [2, 0]),
        (-99, 16, [0, 1]),
        (-4, HUGE, [13, 0]),
        (-1, HUGE, [16, 0]),
        (-6, -2, [11, 2]),
        (0, HUGE, [0, 0]),
    ],
)
@pytest.mark.parametrize("opset", [7, 9, 10, 13, 22])
def test_a_slice_of_static_sizes(apply, start, end, wanted, opset):
    if opset < 10:
        before = one(f"{UP} z = Slice <axes=[2], starts=[{start}], ends=[{end}]> (y)", opset=opset)
    else:
        before = one(f"{UP} z = Slice (y, s, e, a)", opset=opset, **bounds([start], [end], [2]))
    applied = assert_folded(apply, before, wanted)
    assert len(applied.changes) == 1


@pytest.mark.parametrize("axis", [2, -1])
@pytest.mark.parametrize(("start", "end"), [(1, -2), (0, -4), (4, HUGE)])
def test_a_slice_of_open_sizes(apply, start, end, axis):
    before = one(f"{UP} z = Slice (y, s, e, a)", "float[N,3,L]", **bounds([start], [end], [axis]))
    wanted = [start, -min(end, 0)]
    applied = assert_folded(apply, before, wanted, sizes=(1, 2, 5))
    (change,) = applied.changes
    assert change.startswith("ConvTranspose->y: Slice folded")


def test_axes_may_be_absent(apply):
    nodes = f"{UP} z = Slice (y, s, e)"
    starts, ends = ints(0, 0, 1), ints(HUGE, HUGE, -1)
    assert_folded(apply, one(nodes, s=starts, e=ends), [1, 1])
    nodes = f"{UP} z = Slice <starts=[0, 0, 1], ends=[9, 9, -1]> (y)"
    assert_folded(apply, one(nodes, opset=9), [1, 1])


def test_several_axes_in_one_slice_and_one_slice_an_axis(apply):
    x, kernel = "float[N,3,H,W]", (4, 3)
    before = one(f"{UP2} z = Slice (y, s, e, a)", x, kernel, **bounds([1, 0], [-1, -2], [3, 2]))
    assert_folded(apply, before, [0, 1, 2, 1], sizes=(2, 5))
    nodes = f"{UP2} p = Slice (y, s, e, a) z = Slice (p, s, e, c)"
    before = one(nodes, x, kernel, **bounds([1], [-1], [2]), c=ints(3))
    assert_folded(apply, before, [1, 1, 1, 1], sizes=(2, 5))


def test_two_crops_of_one_axis_add_up(apply):
    nodes = f"{UP} p = Slice (y, s, e, a) z = Slice (p, c, e, a)"
    before = one(nodes, "float[N,3,L]", (7,), **bounds([1], [-1], [2]), c=ints(2))
    assert_folded(apply, before, [3, 2], sizes=(1, 4))


def test_a_crop_takes_output_padding_away(apply):
    up = "y = ConvTranspose <strides=[4], output_padding=[3]> (x, w, b)"
    before = one(f"{up} z = Slice (y, s, e, a)", **bounds([0], [-2], [2]))
    assert_folded(apply, before, [0, 0], [1])


def test_pads_may_exceed_the_kernel(apply):
    before = one(f"{UP} z = Slice (y, s, e, a)", **bounds([9], [-7], [2]))
    assert_folded(apply, before, [9, 7])


@pytest.mark.parametrize("opset", [2, 7, 10, 11, 18, 22])
def test_a_pad_with_negative_pads(apply, opset):
    if opset < 11:
        before = one(f"{UP} z = Pad <pads=[0, 0, -1, 0, 0, -2]> (y)", opset=opset)
    elif opset < 18:
        before = one(f"{UP} z = Pad (y, p)", opset=opset, p=ints(0, 0, -1, 0, 0, -2))
    else:
        before = one(f'{UP} z = Pad <mode="reflect"> (y, p, , a)', opset=opset, **_axes(-1, -2))
    # onnx's evaluator knows no negative pads, nor an empty name for an input.
    same = one(f"{UP} z = Slice <axes=[2], starts=[1], ends=[-2]> (y)", opset=9)
    assert_folded(apply, before, [1, 2], reference=same)


def _axes(begin, end):
    return {"p": ints(begin, end), "a": ints(-1)}


def test_a_pad_of_nothing_goes(apply):
    before = one(f'{UP} z = Pad <mode="reflect"> (y, p)', p=ints(*[0] * 6))
    assert_folded(apply, before, [0, 0])


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [("border=[1, 2, 3, 0]", [2, 1, 0, 3]), ("border=[1, 2, 0, 0], scale=[5, 6]", [2, 1, 4, 4])],
)
def test_the_legacy_crop(apply, attributes, wanted):
    x, kernel = "float[1,3,4,4]", (5, 5)
    before = one(f"{UP2} z = Crop <{attributes}> (y)", x, kernel, opset=6, ir_version=3)
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied) == (wanted, [0, 0])
    top, left, bottom, right = wanted
    cut = f"axes=[2,3], starts=[{top},{left}], ends=[{11 - bottom},{11 - right}]"
    nodes = f"{UP2} z = Slice <{cut}> (y)"
    same = one(nodes, x, kernel, opset=6)
    assert_same(same, applied.after)
    feeds = random_feeds(before)
    assert_close(run(applied.after, feeds), run(before, feeds))


OF_X = "q = Shape (x) g = Gather (q, axis) i = Mul (g, scale) j = Add (i, three0)"


@pytest.mark.parametrize(
    ("chain", "wanted"),
    [
        (f"{OF_Y} e = Sub (h, one)", [1, 1]),
        (f"{OF_Y} e = Sub (h, three)", [1, 3]),
        (f"{OF_Y} f = Sub (h, two) e = Max (f, zero)", [1, 2]),
        (f"{OF_Y} n = Neg (h) f = Add (n, two) e = Neg (f)", [1, 2]),
        (f"{OF_Y} f = Mul (h, two) k = Sub (f, two) e = Div (k, two)", [1, 1]),
        (f"{OF_Y} f = Cast <to=6> (h) k = Cast <to=7> (f) e = Sub (k, one)", [1, 1]),
        ("q = Shape <start=2, end=3> (y) e = Sub (q, one)", [1, 1]),
        ("q = Shape <start=-1> (y) e = Sub (q, one)", [1, 1]),
        (f"{OF_X} e = Unsqueeze (j, zero)", [1, 0]),
        ("q = Shape (x) h = Slice (q, two, three, zero) e = Mul (h, two)", [1, 3]),
        ("r = Relu (x) q = Shape (r) h = Gather (q, two) e = Mul (h, two)", [1, 3]),
        (
            "t = Transpose <perm=[0,2,1]> (x) q = Shape (t) h = Gather (q, one) e = Mul (h, two)",
            [1, 3],
        ),
        ("q = Shape (x) c1, c2, c3 = Split (q) e = Mul (c3, two)", [1, 3]),
        (f"{OF_Y} k = Mod (h, one) f = Sub (h, k) e = Sub (f, one)", [1, 1]),
        (f"{OF_Y} f = Min (h, h) k = Concat <axis=0> (f) e = Sub (k, one)", [1, 1]),
    ],
)
def test_bounds_computed_from_sizes(apply, chain, wanted):
    nodes = f"{UP} {chain} z = Slice (y, one, e, two)"
    text = graph(nodes, "float[N,3,L]").replace("Split (q)", "Split (q)")
    before = model(text, w=array(3, 4, 5), b=array(4), **numbers(nodes))
    assert_folded(apply, before, wanted, sizes=(1, 2, 6))


@pytest.mark.parametrize("x", ["float[N,3,L]", "float[N,3,?]", "float[1,3,7]", "float[]"])
def test_the_chain_of_tf2onnx(apply, x):
    """Shape, Sub, Max, Div, and a Pad of as many rows as are missing: none."""
    nodes = f"""q = Shape (x) l = Slice (q, two, three, zero) o = Mul (l, two)
    {UP} r = Shape (y) h = Slice (r, two, three, zero) d = Sub (h, o) m = Max (d, zero)
    s = Div (m, two) e = Add (s, o) p = Slice (y, s, e, two)
    n = Neg (d) k = Max (n, zero) t = Concat <axis=0> (zero, zero, zero, zero, zero, k)
    z = Pad (p, t)"""
    text = graph(nodes, x)
    before = model(text, w=array(3, 4, 5), b=array(4), **numbers(nodes))
    assert_folded(apply, before, [1, 2], sizes=(1, 2, 6) if x != "float[1,3,7]" else ())


def test_constant_nodes_and_arithmetic_on_them(apply):
    nodes = f"""c4 = Constant <value_int=4> () c2 = Constant <value_int=2> ()
    r = Mod (c4, c2) f = Sub (c4, c2) s0 = Add (f, r) zero = Constant <value_ints=[0]> ()
    s = Unsqueeze (s0, zero) n = Neg (s0) e = Unsqueeze (n, zero)
    a = Constant <value=int64[1] {{2}}> () {UP} z = Slice (y, s, e, a)"""
    assert_folded(apply, one(nodes, "float[N,3,L]"), [2, 2], sizes=(2, 5))


def test_constants_that_others_read_stay(apply):
    nodes = f"{UP} p = Slice (y, s, e, a) z = Slice (x, s, e, a)"
    text = graph(nodes, outputs="float[] p, float[] z")
    before = model(text, w=array(3, 4, 5), b=array(4), **bounds([1], [-1], [2]))
    applied = apply(before, CanonicalPads, FoldCrops)
    assert pads(applied)[0] == [1, 1]
    assert initializer_names(applied.after) == {"w", "b", "s", "e", "a"}
    assert_same(before, applied.after)
