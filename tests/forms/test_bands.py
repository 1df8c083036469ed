"""Rows of the first of three axes as channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from hypothesis import HealthCheck, assume, given, settings

from convt_onnx.decide import Choice, decide, setting_for
from convt_onnx.forms import FORMS, Setting
from convt_onnx.graph.node import find_nodes, read_node
from convt_onnx.passes.base import Context
from convt_onnx.passes.lower import Lower
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.targets import get_target

from .cpu_cases import assert_right, case_of, cases_of_three_axes, spec
from .drawn import applicable, build, compare, lowered
from .lowering import initializers, refusals

BANDS = ["bands", "bands-phases"]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases_of_three_axes(opsets=[1, 5, 7, 9, 11, 13, 17, 18, 20, 22, 24]))
def test_bands_equal_the_oracle(case):
    names = [n for n in BANDS if n in applicable(case)]
    assert names == BANDS[: 1 if case.run_time_weight else 2] or case.opset < 4
    assume(names)
    compare(case, lowered(case, names), names, case.sizes, 2)


@pytest.mark.parametrize("open_sizes", ["static", "batch"])
@pytest.mark.parametrize(
    ("channels", "group", "stride"), [((6, 4), 2, 2), ((8, 3), 1, 1), ((4, 8), 4, 2)]
)
def test_rows_of_the_first_axis_become_channels(channels, group, stride, open_sizes):
    case = case_of(spec(3, channels, group, k=3, s=stride), (4, 5, 3), open_sizes, opset=18)
    for form in BANDS:
        assert_right(case, form)


def kinds(proto):
    return [n.op_type for n in proto.graph.node]


def test_the_native_node_has_a_band_of_taps_and_nothing_is_moved():
    case = case_of(spec(3, (6, 4), 2, k=3), (4, 5, 3))
    made = lowered(case, ["bands"])
    assert kinds(made) == ["Reshape", "ConvTranspose", "Reshape"]
    weight = initializers(made)[made.graph.node[1].input[1]]
    rows = case.spec.output_sizes(case.sizes)[0]
    assert weight.shape == (6 * 4, 2 * rows, 3, 3)
    band = weight.reshape(6, 4, 2, rows, 3, 3)
    w = case.arrays(case.sizes, 2)["w"]
    # Row 2 of the input has tap k at row 2 * 2 + k - 1 of the output.
    np.testing.assert_array_equal(band[:, 2, :, 3:6], w)
    assert not band[:, 2, :, :3].any()
    assert not band[:, 2, :, 6:].any()


def test_convolutions_where_the_last_two_axes_have_stride_1():
    each = ConvTransposeSpec(
        4, 6, 2, (3, 2, 4), (2, 1, 1), (3, 1, 1), (4, 0, 1), (3, 1, 2), (0,) * 3
    )
    case = case_of(each, (4, 5, 7))
    assert kinds(lowered(case, ["bands-phases"])) == ["Reshape", "Conv", "Reshape"]
    assert_right(case, "bands-phases")


def test_a_weight_known_at_run_time_is_gathered_from_its_taps_and_zeros():
    case = case_of(spec(3, (6, 4), 2, k=3), (3, 5, 4), run_time_weight=True, opset=14)
    made = lowered(case, ["bands"])
    spread = ["Reshape", "Concat", "Gather"]
    assert kinds(made) == ["Reshape", *spread, "Gather", "ConvTranspose", "Reshape"]
    assert_right(case, "bands")


def test_nodes_of_one_weight_share_the_band():
    case = case_of(spec(3, (6, 4), 2, k=3), (4, 5, 3))
    proto = build(case, ["bands", "again"])
    model = ir.from_proto(proto)
    target = get_target("ort-cpu")
    Lower(Context(target, {}, Choice({"all": "bands"})))(model)
    weights = {n.inputs[1].name for n in model.graph if n.op_type == "ConvTranspose"}
    assert len(weights) == 1


def test_nodes_of_one_weight_and_other_crops_do_not_share_a_convolution():
    first = ConvTransposeSpec(4, 6, 1, (3,) * 3, (1,) * 3, (1,) * 3, (1, 1, 1), (0, 1, 1), (0,) * 3)
    case = case_of(first, (4, 5, 3), bias=False)
    proto = build(case, ["bands-phases", "again"])
    pads = next(a for a in proto.graph.node[1].attribute if a.name == "pads")
    pads.ints[0], pads.ints[3] = 0, 1
    model = ir.from_proto(proto)
    Lower(Context(get_target("ort-cpu"), {}, Choice({"all": "bands-phases"})))(model)
    session = ort.InferenceSession(
        ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    arrays = case.arrays(case.sizes, 2)
    one, other = session.run(None, {"x": arrays["x"]})
    moved = replace(first, pads_begin=(0, 1, 1), pads_end=(1, 1, 1))
    for y, each in ((one, first), (other, moved)):
        np.testing.assert_allclose(
            y, conv_transpose(arrays["x"], arrays["w"], None, each), atol=1e-4
        )


def reasons(proto, opset):
    """What the rules say of each ConvTranspose of a model."""
    ir_version = proto.ir_version
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    target = get_target("ort-cpu")
    setting = setting_for(opset, target, ir.DataType.FLOAT)
    reads = [read_node(f.node, f.path, ir_version, {}) for f in find_nodes(model)]
    return [decide(r, target, setting, Choice()).reason.id for r in reads]


@pytest.mark.parametrize(("opset", "run_time_weight"), [(4, False), (17, False), (17, True)])
def test_what_it_writes_is_kept_when_a_model_is_rewritten_again(opset, run_time_weight):
    case = case_of(spec(3, (8, 4), 4, k=3), (4, 5, 3), opset=opset, run_time_weight=run_time_weight)
    assert reasons(build(case, ["ct"]), opset) == ["CT104" if run_time_weight else "CT201"]
    assert reasons(lowered(case, ["bands"]), opset) == ["CT206"]


def between_reshapes(x_shape, rows, shape):
    """A node [4, 6, 3, 3] over two axes between two Reshapes."""
    helper, f32 = onnx.helper, onnx.TensorProto.FLOAT
    weight = np.ones((4, 6, 3, 3), np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Reshape", ["x", "rows"], ["x2"]),
            helper.make_node("ConvTranspose", ["x2", "w"], ["y2"]),
            helper.make_node("Reshape", ["y2", "shape"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", f32, x_shape)],
        [helper.make_tensor_value_info("y", f32, None)],
        [
            onnx.numpy_helper.from_array(np.array(a), n)
            for n, a in (("rows", rows), ("w", weight), ("shape", shape))
        ],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


@pytest.mark.parametrize(
    ("x_shape", "rows", "shape", "reason"),
    [
        ([1, 2, 2, 5, 5], [-1, 4, 5, 5], [-1, 3, 2, 7, 7], "CT206"),
        # Frames of a video.
        ([2, 3, 4, 5, 5], [-1, 4, 5, 5], [2, 3, 6, 7, 7], "CT201"),
        ([2, 3, 4, 5, 5], [-1, 4, 5, 5], [-1, 3, 6, 7, 7], "CT201"),
        ([2, 4, 25], [-1, 4, 5, 5], [-1, 6, 49], "CT201"),
    ],
)
def test_other_nodes_between_reshapes_are_not_taken_for_bands(x_shape, rows, shape, reason):
    assert reasons(between_reshapes(x_shape, rows, shape), 17) == [reason]


def test_an_empty_batch_stays_empty():
    case = case_of(spec(3, (6, 4), 2, k=3), (4, 5, 3), "batch", opset=18)
    for form in BANDS:
        proto = lowered(case, [form])
        session = ort.InferenceSession(
            proto.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        (y,) = session.run(None, {"x": np.zeros((0, 6, 4, 5, 3), np.float32)})
        assert y.shape == (0, 4, *case.spec.output_sizes((4, 5, 3)))


def test_the_band_has_more_arithmetic_and_fewer_columns():
    each = spec(3, (4, 4), k=3)
    native, bands = (FORMS[n].work(each, 1, (4, 4, 4)) for n in ("keep", "bands"))
    assert native.macs < bands.macs < 3 * native.macs
    assert bands.elements < native.elements


@pytest.mark.parametrize("form", BANDS)
@pytest.mark.parametrize(
    ("each", "sizes", "open_sizes", "changed", "reason"),
    [
        (spec(3, (16, 8)), (5, 6, 3), "static", {"dtype": "float16"}, "CT322"),
        (spec(3, (16, 8)), (5, 6, 3), "static", {"dtype": "float64"}, "CT322"),
        (spec(3, (16, 8)), (5, 6, 3), "static", {"mlas": False}, "CT313"),
        (spec(2, (16, 8)), (5, 6), "static", {}, "CT322"),
        (spec(1, (16, 8)), (5,), "static", {}, "CT322"),
        (spec(3, (16, 8)), (5, 6, 3), "spatial", {}, "CT322"),
        (spec(3, (16, 8)), (5, 6, 3), "unknown", {}, "CT322"),
        (spec(3, (16, 16)), (40, 2, 2), "static", {}, "CT307"),
    ],
)
def test_bands_are_refused(form, each, sizes, open_sizes, changed, reason):
    case = case_of(each, sizes, open_sizes, **changed)
    assert refused(case, form) == reason


def refused(case, form):
    found = refusals(build(case, ["probe"]), Setting(case.opset, mlas=case.mlas))[form]
    return None if found is None else found.id


@pytest.mark.parametrize(
    ("form", "sizes", "opset", "reason"),
    [
        ("bands", (3, 4, 4), 4, None),
        ("bands", (3, 4, 4), 1, "CT306"),
        ("bands", (100, 4, 4), 17, "CT307"),
        ("bands-phases", (3, 4, 4), 17, "CT314"),
    ],
)
def test_a_weight_known_at_run_time_has_limits(form, sizes, opset, reason):
    each = spec(3, (4, 4), k=3)
    assert refused(case_of(each, sizes, opset=opset, run_time_weight=True), form) == reason


def test_a_weight_that_is_not_finite_stays_where_it_is():
    """A product with zeros would make NaN of the other channel."""
    case = case_of(spec(3, (2, 2), k=2, p=0), (2, 2, 2), run_time_weight=True, bias=False)
    session = ort.InferenceSession(
        lowered(case, ["bands"]).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    arrays = case.arrays(case.sizes, 2)
    arrays["w"][0, 0, 0, 0, 0] = np.inf
    (y,) = session.run(None, {n: arrays[n] for n in ("x", "w")})
    assert np.isfinite(y[:, 1]).all()


@pytest.mark.parametrize(("padding", "reason"), [((2, 0, 0), None), ((0, 0, 2), "CT310")])
def test_output_padding_beyond_the_stride_is_left_to_the_band(padding, reason):
    each = ConvTransposeSpec(4, 2, 1, (3,) * 3, (2,) * 3, (3, 1, 3), (0,) * 3, (0,) * 3, padding)
    case = case_of(each, (3, 4, 4))
    assert refused(case, "bands") == reason
    assert_right(case, "bands-phases", *["bands"] * (reason is None))
