"""What the forms that are made for ONNX Runtime's CPU kernels look like there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from convt_onnx.forms import Setting
from convt_onnx.graph.attributes import canonical_attributes
from convt_onnx.spec import ConvTransposeSpec

from .cpu_cases import (
    X86,
    assert_right,
    case_of,
    optimised,
    permutations,
    spec,
    transposed_rows,
)
from .drawn import build, compare, lowered
from .lowering import refusals
from .quantising import Quantised
from .quantising import build as build_quantised

ROWS = ["phases-rows", "phases-rows-joined", "phases-rows-col2im"]
FLOAT_WEIGHTS = ["unfold", "phases-blocked", "phases-col2im", *ROWS]
FOR_THE_CPU = [*FLOAT_WEIGHTS, "phases-joined"]


def one_axis_moves(perm):
    order = list(perm)
    return any(order[:i] + order[i + 1 :] == sorted(order[:i] + order[i + 1 :]) for i in perm)


@pytest.mark.parametrize("open_sizes", ["static", "spatial", "all"])
@pytest.mark.parametrize("form", ["phases", "phases-split", "overlap-add"])
@pytest.mark.parametrize(("n", "group"), [(1, 1), (2, 1), (2, 3), (3, 2)])
def test_every_transpose_moves_one_axis(n, group, form, open_sizes):
    case = case_of(spec(n, (3 * group, 2 * group), group), (3, 5, 4)[:n], open_sizes)
    perms = permutations(lowered(case, [form]))
    assert len(perms) == n
    assert all(one_axis_moves(p) for p in perms), perms
    assert_right(case, form)


def strided(n, strides, dtype="float32"):
    geometry = ConvTransposeSpec(
        6, 4, 2, (4, 5, 4)[:n], strides, (1,) * n, (1,) * n, (2,) * n, (0,) * n
    )
    return case_of(geometry, (3, 5, 4)[:n], dtype=dtype)


@pytest.mark.parametrize("form", ["phases", "phases-split"])
@pytest.mark.parametrize(
    ("strides", "rows"),
    [((2, 2), 4), ((3, 2), 6), ((2, 2, 2), 4), ((1, 3, 2), 6), ((2, 1, 2), 2), ((2, 3), 3)],
)
def test_phases_of_two_axes_are_transposed_together(strides, rows, form):
    case = strided(len(strides), strides)
    assert transposed_rows(lowered(case, [form])) == [rows]
    assert_right(case, form)


def test_elements_of_two_bytes_make_no_pairs():
    case = strided(2, (2, 2), "float16")
    assert transposed_rows(lowered(case, ["phases"])) == [2]
    assert_right(case, "phases")


@pytest.mark.skipif(not X86, reason="blocks of 8 or 16 channels are x86's")
@pytest.mark.parametrize(
    ("each", "plain", "blocked"),
    [
        (spec(1, (18, 8)), "phases", "phases-blocked"),
        (spec(2, (18, 8)), "phases", "phases-blocked"),
        (spec(1, (16, 16), 16, 6, 3), "phases", "phases-split"),
        (spec(1, (16, 8)), "unfold", "phases"),
        (spec(1, (16, 16), 16, 6, 3), "phases", "phases-rows"),
        (spec(1, (16, 16), 16, 6, 3), "phases", "phases-rows-joined"),
    ],
    ids=["1-D", "2-D", "depthwise", "one axis", "rows", "joined rows"],
)
def test_the_convolution_is_computed_in_blocks(each, plain, blocked, tmp_path):
    case = case_of(each, (9, 7)[: each.ndim])
    for form, wanted in ((plain, False), (blocked, True)):
        nodes = optimised(lowered(case, [form]), tmp_path)
        kinds = {n.domain for n in nodes if n.op_type in ("Conv", "FusedConv")}
        assert ("com.microsoft.nchwc" in kinds) == wanted, (form, kinds)
    assert_right(case, plain, blocked)


@pytest.mark.parametrize("open_sizes", ["static", "all"])
def test_unfold_leaves_no_overlap(open_sizes):
    each = spec(2, (6, 3), group=3, k=8, s=3)
    case = case_of(each, (3, 5), open_sizes)
    (node,) = (n for n in lowered(case, ["unfold"]).graph.node if n.op_type == "ConvTranspose")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes["kernel_shape"] == attributes["strides"] == [3, 3]
    assert_right(case, "unfold")


@pytest.mark.parametrize(
    ("each", "form", "reason"),
    [
        (spec(2, (16, 8)), "phases-blocked", "CT315"),
        (spec(3, (18, 8)), "phases-blocked", "CT315"),
        (spec(1, (18, 4), 2), "phases-blocked", "CT315"),
        (spec(1, (6, 6)), "phases-blocked", "CT315"),
        (spec(1, (18, 8), s=1), "phases-blocked", "CT302"),
        (spec(1, (18, 8), s=1), "unfold", "CT302"),
        (spec(2, (3, 3), k=100, s=2), "unfold", "CT305"),
        (spec(2, (16, 8)), "phases-joined", "CT317"),
        (spec(2, (30, 15), 15), "phases-joined", "CT317"),
        (spec(1, (32, 16), 16, s=1), "phases-joined", "CT302"),
        (spec(2, (16, 16), 16), "phases-rows", "CT316"),
        (spec(1, (24, 24), 24), "phases-rows", "CT316"),
        (spec(1, (16, 32), 16), "phases-rows", "CT316"),
        (spec(1, (16, 16), 16, k=33, s=33), "phases-rows", "CT316"),
        (spec(1, (16, 16), 16, s=1), "phases-rows-joined", "CT302"),
    ],
)
def test_forms_are_refused_where_they_gain_nothing(each, form, reason):
    case = case_of(each, (120, 120, 3)[: each.ndim])
    found = refusals(build(case, ["probe"]), Setting(17, mlas=True))[form]
    assert found is not None
    assert found.id == reason


@pytest.mark.parametrize("form", FOR_THE_CPU)
def test_forms_for_the_cpu_are_refused_elsewhere(form):
    found = refusals(build(case_of(spec(1, (18, 8)), (9,)), ["probe"]), Setting(17))[form]
    assert found is not None
    assert found.id == "CT313"


@pytest.mark.parametrize("form", FLOAT_WEIGHTS)
def test_quantised_weights_are_refused(form):
    case = Quantised(spec(1, (18, 8)), (9,), axis=None)
    found = refusals(build_quantised(case, ["probe"]), Setting(case.opset, mlas=True))[form]
    assert found is not None
    assert found.id == "CT314"


def test_endless_strides_are_refused_at_once():
    endless = ConvTransposeSpec(3, 3, 1, (2, 2), (1 << 31, 1 << 31), (1, 1), (0, 0), (0, 0), (0, 0))
    proto = build(case_of(endless, (1, 1)), ["y"])
    found = refusals(proto, Setting(17, mlas=True))
    assert found["unfold"].id == found["phases"].id == "CT307"


def test_unfold_writes_every_attribute():
    proto = lowered(case_of(spec(2, (6, 6), group=6), (3, 4)), ["unfold"])
    written = [{a.name for a in n.attribute} for n in proto.graph.node]
    assert set(canonical_attributes(spec(2, (6, 6)))) in written


def test_channels_that_fill_up_have_zero_weights():
    case = case_of(spec(1, (18, 8)), (9,))
    weights = [
        onnx.numpy_helper.to_array(t)
        for t in lowered(case, ["phases-blocked"]).graph.initializer
        if len(t.dims) == 4
    ]
    assert [w.shape for w in weights] == [(16, 20, 1, 2)]
    assert np.all(weights[0][:, 18:] == 0)


def cut_along_the_last_axis(opset):
    each = ConvTransposeSpec(16, 16, 16, (1, 2), (2, 1), (1, 1), (0, 1), (0, 1), (0, 0))
    return case_of(each, (1, 2), "spatial", opset=opset)


@pytest.mark.parametrize("opset", [9, 10, 11])
def test_cut_copies_have_open_sizes_of_their_own(opset):
    proto = onnx.shape_inference.infer_shapes(lowered(cut_along_the_last_axis(opset), ["unfold"]))
    shapes = {v.name: v.type.tensor_type.shape.dim for v in proto.graph.value_info}
    cut = [shapes[n.output[0]] for n in proto.graph.node if n.op_type == "Slice"]
    assert len(cut) == 2
    assert [dims[1].dim_value for dims in cut] == [16, 16]
    assert "L1" not in [dims[3].dim_param for dims in cut]


@pytest.mark.parametrize("opset", [9, 10, 11])
def test_cut_copies_share_no_buffer_with_their_input(opset):
    case, forms = cut_along_the_last_axis(opset), ["phases-split", "unfold"]
    made = lowered(case, forms)
    assert [o.name for o in made.graph.output] == [f"y_{form}" for form in forms]
    compare(case, made, forms, case.sizes, 2)
