"""Where crops stay, and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convt_onnx import targets
from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_crops import FoldCrops

from ..graph.building import array, ints, model, op_types, with_function
from ..verify.judging import assert_same

HUGE = (1 << 63) - 1
OPEN = "float[N,3,L]"
UP = "y = ConvTranspose <strides=[2]> (x, w, b)"
CROP = "z = Slice (y, s, e, a)"
SIZE = "q = Shape (y) h = Slice (q, a, three, zero)"


def build(nodes, x=OPEN, *, start=1, end=-2, axis=2, inputs="", outputs="float[] z", **others):
    text = f"g ({x} x{inputs}) => ({outputs}) {{ {nodes} }}"
    known = {
        "s": ints(start),
        "e": ints(end),
        "a": ints(axis),
        "zero": ints(0),
        "one": ints(1),
        "two": ints(2),
        "three": ints(3),
        "four": ints(4),
    }
    words = set("".join(c if c.isalnum() else " " for c in nodes).split())
    arrays = {n: v for n, v in known.items() if n in words} | others
    return model(text, **{"w": array(3, 4, 5), "b": array(4), **arrays})


def assert_refused(apply, before, *ids, sizes=(2, 6), feeds=None, **options):
    """Nothing changes, for these reasons."""
    applied = apply(before, CanonicalPads, FoldCrops, **options)
    assert applied.changes == ()
    assert [m.reason.id for m in applied.context.misses] == list(ids)
    assert op_types(applied.after) == op_types(before)
    assert [n.input for n in applied.nodes] == [n.input for n in before.graph.node]
    for n in sizes:
        assert_same(before, applied.after, {"x": array(1, 3, n), **(feeds or {})})
    return applied


@pytest.mark.parametrize(("step", "start", "end"), [(2, 0, HUGE), (-1, HUGE, -HUGE), (-2, 8, 0)])
def test_a_step(apply, step, start, end):
    nodes = f"{UP} z = Slice (y, s, e, a, t)"
    assert_refused(apply, build(nodes, start=start, end=end, t=ints(step)), "CT403")


def test_several_readers(apply):
    before = build(f"{UP} r = Relu (y) {CROP}", outputs="float[] z, float[] r")
    assert_refused(apply, before, "CT401")


def test_the_uncropped_value_is_an_output(apply):
    assert_refused(apply, build(f"{UP} {CROP}", outputs="float[] z, float[] y"), "CT402")


def test_two_parts_of_one_output(apply):
    before = build(f"{UP} {CROP} v = Slice (y, e, four, a)", outputs="float[] z, float[] v")
    assert_refused(apply, before, "CT401", sizes=())


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_batch_and_channels(apply, axis):
    before = build(f"{UP} {CROP}", start=0, end=1, axis=axis)
    assert_refused(apply, before, *(["CT406"] if axis == 0 else ["CT404"]))


def test_the_first_of_a_batch(apply):
    assert_refused(
        apply, build(f"{UP} {CROP}", "float[2,3,L]", start=0, end=1, axis=0), "CT404", sizes=()
    )


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        (0, 4, "CT406"),
        (-3, HUGE, "CT406"),
        (-3, -1, "CT406"),
        (1, 99, "CT406"),
        (0, -5, "CT407"),
        (3, -2, "CT407"),
    ],
)
def test_not_the_same_rows_for_every_size(apply, start, end, reason):
    assert_refused(apply, build(f"{UP} {CROP}", start=start, end=end), reason, sizes=(5, 6))


@pytest.mark.parametrize(("start", "end"), [(5, 5), (9, 4), (17, 99), (16, -1), (HUGE, HUGE)])
def test_nothing_would_be_left(apply, start, end):
    before = build(f"{UP} {CROP}", "float[1,3,7]", start=start, end=end)
    assert_refused(apply, before, "CT407", sizes=())


@pytest.mark.parametrize("which", ["s", "e"])
def test_bounds_from_an_input(apply, which):
    nodes = f"{UP} z = Slice (y, {'k, e' if which == 's' else 's, k'}, a)"
    before = build(nodes, inputs=", int64[1] k")
    assert_refused(apply, before, "CT405", feeds={"k": ints(1 if which == "s" else -1)})


def test_bounds_from_an_initializer_that_may_be_overridden(apply):
    before = build(f"{UP} {CROP}", inputs=", int64[1] s")
    assert_refused(apply, before, "CT405")


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        (f"{SIZE} k = Div (h, two)", "CT406"),
        (f"{SIZE} f = Mod (h, four) k = Sub (h, f)", "CT405"),
        (f"{SIZE} f = Div (h, four) k = Mul (f, four)", "CT405"),
        (f"{SIZE} f = Cast <to=1> (h) c = Cast <to=7> (f) k = Sub (c, one)", "CT405"),
        (f"{SIZE} f = Mul (h, h) k = Sub (f, one)", "CT405"),
        (f"{SIZE} f = Sub (h, four) g = Sub (f, four) k = Sub (g, two)", "CT406"),
        ("q = Shape (v) h = Slice (q, a, three, zero) k = Mul (h, two)", "CT406"),
    ],
)
def test_computed_bounds_that_are_not_the_same_for_every_size(apply, chain, reason):
    nodes = f"{UP} {chain} z = Slice (y, one, k, a)"
    before = build(nodes, inputs=", float[N,3,M] v" if "(v)" in chain else "")
    feeds = {"v": array(1, 3, 4)} if "(v)" in chain else {}
    assert_refused(apply, before, reason, sizes=(5, 6), feeds=feeds)


def test_names_that_say_nothing_are_not_equal_sizes(apply):
    nodes = f"""{UP} q = Shape (v) h = Slice (q, a, three, zero) k = Mul (h, two)
    z = Slice (y, one, k, a)"""
    before = build(nodes, "float[N,3,None]", inputs=", float[N,3,None] v")
    assert_refused(apply, before, "CT406", feeds={"v": array(1, 3, 2)})


@pytest.mark.parametrize("axes", ["k", "c"])
def test_axes_that_are_not_known(apply, axes):
    nodes = f"{UP} z = Slice (y, s, e, {axes})"
    if axes == "k":
        assert_refused(apply, build(nodes, inputs=", int64[1] k"), "CT408", feeds={"k": ints(2)})
    else:
        assert_refused(apply, build(nodes, c=ints(5)), "CT408", sizes=())


def test_the_same_axis_twice(apply):
    nodes = f"{UP} z = Slice (y, s2, e2, a2)"
    before = build(nodes, s2=ints(1, 1), e2=ints(-1, -1), a2=ints(2, -1))
    assert_refused(apply, before, "CT408", sizes=())


@pytest.mark.parametrize(
    "operator",
    [
        "u = Mul (y, m)",
        "u = PRelu (y, m)",
        "u = Add (m, y)",
        "u = Where (c, y, m)",
        "u = InstanceNormalization (y, b, b)",
        "u = Softmax (y)",
        "u = CumSum (y, a0)",
    ],
)
def test_behind_an_operator_that_depends_on_the_position(apply, operator):
    nodes = f"{UP} {operator} z = Slice (u, s, e, a)"
    others = {"m": np.arange(1, 10, dtype=np.float32)} if "m" in operator[3:] else {}
    others |= {"c": np.arange(9) % 2 == 0} if "(c" in operator else {}
    others |= {"a0": np.array(2)} if "a0" in operator else {}
    others = {k: v for k, v in others.items() if k != "m" or ", m)" in nodes or "(m" in nodes}
    before = build(nodes, "float[1,3,3]", **others)
    ids = ["CT411"] if operator.split()[2] in ("Mul", "PRelu", "Add") else []
    assert_refused(apply, before, *ids, sizes=(3,))


def test_a_vector_as_long_as_the_channels_runs_along_the_width(apply):
    before = build(f"{UP} u = Mul (y, m) z = Slice (u, s, e, a)", "float[1,3,1]", m=array(5))
    assert_refused(apply, before, "CT411", sizes=(1,))


def test_batch_normalization_over_the_cropped_axis(apply):
    nodes = f"""{UP} t = Transpose <perm=[0,2,1]> (y)
    u = BatchNormalization (t, n, n, n, n) z = Slice (u, s, e, a)"""
    before = build(nodes, "float[1,3,3]", axis=1, n=np.abs(array(9)))
    assert_refused(apply, before, "CT411", sizes=(3,))


def test_the_uncropped_size_is_read_elsewhere(apply):
    nodes = f"{UP} {SIZE} k = Sub (h, two) z = Slice (y, one, k, a) v = Add (h, one)"
    assert_refused(apply, build(nodes, outputs="float[] z, int64[] v"), "CT412")


def test_a_crop_in_a_branch(apply):
    nodes = f"""{UP} z = If (c) <
      then_branch = t () => (float[] p) {{ p = Slice (y, s, e, a) }},
      else_branch = f () => (float[] q) {{ q = Neg (x) }}>"""
    before = build(nodes, inputs=", bool c")
    assert_refused(apply, before, "CT410", feeds={"c": np.array(True)})


def test_pads_that_add_rows(apply):
    before = build(f"{UP} z = Pad (y, p)", p=ints(0, 0, -1, 0, 0, 1))
    assert apply(before, CanonicalPads, FoldCrops).changes == ()


def test_pads_of_the_channels(apply):
    before = build(f"{UP} z = Pad (y, p)", p=ints(0, -1, -1, 0, 0, 0))
    assert [m.reason.id for m in apply(before, FoldCrops).context.misses] == ["CT404"]


def test_pads_from_an_input(apply):
    before = build(f"{UP} z = Pad (y, p)", inputs=", int64[6] p")
    assert [m.reason.id for m in apply(before, FoldCrops).context.misses] == ["CT405"]


def test_the_rest_of_a_slice_has_run_time_bounds(apply):
    nodes = f"{UP} e2 = Concat <axis=0> (k, e) z = Slice (y, s2, e2, a2)"
    before = build(nodes, inputs=", int64[1] k", s2=ints(1, 1), a2=ints(1, 2))
    assert_refused(apply, before, "CT405", "CT414", feeds={"k": ints(3)})


def test_output_shape_on_an_open_size(apply):
    nodes = f"y = ConvTranspose <strides=[2], output_shape=[9]> (x, w, b) {CROP}"
    assert_refused(apply, build(nodes, "float[1,3,L]"), "CT413", sizes=(3, 4))


def test_a_node_that_the_user_skips(apply):
    before = build(f"[n] {UP} {CROP}")
    assert_refused(apply, before, skip=["n"])


def test_a_slice_of_another_domain(apply):
    text = f"g ({OPEN} x) => (float[] z) {{ {UP} z = other.Slice (y) }}"
    before = model(text, domains='"other" : 1', w=array(3, 4, 5), b=array(4))
    assert apply(before, FoldCrops).changes == ()


def test_attributes_of_the_functions_caller(apply):
    before = with_function(
        "g (float[1,3,7] x) => (float[] y) { y = f.cut <k=[1]> (x, w) }",
        """cut <k> (a, b) => (c) { y = ConvTranspose (a, b)
        c = Slice <starts: ints = @k, ends=[4], axes=[2]> (y) }""",
        opset=9,
        w=array(3, 4, 5),
    )
    assert apply(before, FoldCrops).changes == ()


@pytest.fixture
def symmetric(monkeypatch):
    target = replace(targets.get_target("ort-cpu"), name="symmetric", asymmetric_pads=False)
    monkeypatch.setitem(targets.TARGETS, "symmetric", target)
    return "symmetric"


def test_a_target_without_asymmetric_pads(apply, symmetric):
    assert_refused(apply, build(f"{UP} {CROP}"), "CT409", target=symmetric)
    assert_refused(apply, build(f"{UP} {CROP}", start=3, end=-1), "CT409", target=symmetric)


@pytest.mark.parametrize(("start", "end"), [(1, -1), (2, -2), (1, HUGE), (2, -1)])
def test_such_a_target_takes_what_symmetric_pads_can_say(apply, symmetric, start, end):
    before = build(f"{UP} {CROP}", start=start, end=end)
    applied = apply(before, CanonicalPads, FoldCrops, target=symmetric)
    assert op_types(applied.after) == ["ConvTranspose"]
    assert_same(before, applied.after, {"x": array(2, 3, 4)})
