"""Three axes as two for every slice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from hypothesis import HealthCheck, given, settings

from convt_onnx.decide import Choice, decide, setting_for
from convt_onnx.forms import FORMS, Setting
from convt_onnx.forms.slices import written_by_slices
from convt_onnx.graph.node import find_nodes, read_node
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.targets import get_target

from .cpu_cases import assert_right, case_of, cases_of_three_axes, spec
from .drawn import applicable, build, compare, lowered
from .lowering import forced, initializers, refusals

SLICES = ["slices", "slices-phases"]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases_of_three_axes(opsets=[7, 9, 11, 13, 17, 18, 20, 22, 24]))
def test_slices_equal_the_oracle(case):
    assert set(SLICES) <= set(applicable(case))
    compare(case, lowered(case, SLICES), SLICES, case.sizes, 2)


@pytest.mark.parametrize("open_sizes", ["static", "batch"])
@pytest.mark.parametrize(
    ("channels", "group", "stride"), [((6, 4), 2, 2), ((8, 3), 1, 1), ((4, 8), 4, 2)]
)
def test_slices_are_added_up(channels, group, stride, open_sizes):
    case = case_of(spec(3, channels, group, k=3, s=stride), (4, 5, 3), open_sizes, opset=18)
    for form in SLICES:
        assert_right(case, form)


@pytest.mark.parametrize("opset", [1, 8, 17])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_of_slices_before_there_is_col2im(stride, opset):
    case = case_of(spec(3, (6, 4), k=3, s=stride), (4, 5, 3), opset=opset)
    assert kinds(lowered(case, ["slices-phases"])).count("Conv") == 1
    assert_right(case, "slices-phases")


def kinds(proto):
    return [n.op_type for n in proto.graph.node]


def test_the_first_axis_joins_the_batch_and_the_native_node_has_two():
    case = case_of(spec(3, (6, 4), 2, k=3), (4, 5, 3), opset=18, bias=False)
    made = lowered(case, ["slices"])
    (inner,) = (n for n in made.graph.node if n.op_type == "ConvTranspose")
    weight = next(t for t in made.graph.initializer if t.name == inner.input[1])
    assert tuple(weight.dims) == (6, 2 * 3, 3, 3)
    assert kinds(made).count("Col2Im") == 1


def test_a_depthwise_node_adds_up_where_there_is_no_col2im():
    case = case_of(spec(3, (6, 4), 2, k=3), (4, 5, 3), opset=17)
    made = lowered(case, ["slices"])
    _, sums = (n for n in made.graph.node if n.op_type == "ConvTranspose")
    assert kinds(made)[-1] == "Reshape"
    assert len(sums.input) == 3
    weight = initializers(made)[sums.input[1]]
    assert weight.shape == (4 * 3, 1, 3, 1)
    assert weight.sum() == 4 * 3
    assert_right(case, "slices")


def decisions(proto, opset):
    """What the rules say of each ConvTranspose of a model, and the nodes."""
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    target = get_target("ort-cpu")
    setting = setting_for(opset, target, ir.DataType.FLOAT)
    reads = [read_node(f.node, f.path, 8, {}) for f in find_nodes(model)]
    return [decide(r, target, setting, Choice()).reason.id for r in reads], reads, setting


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("opset", [17, 18])
def test_what_it_writes_is_kept_when_a_model_is_rewritten_again(group, opset):
    case = case_of(spec(3, (8, 4), group, k=3), (4, 5, 3), opset=opset)
    assert decisions(build(case, ["ct"]), opset)[0] == ["CT201"]
    reasons, _, _ = decisions(lowered(case, ["slices"]), opset)
    assert reasons == ["CT206"] * (1 + (opset == 17))


def test_a_node_of_other_weights_is_not_taken_for_a_sum():
    case = case_of(spec(3, (8, 4), k=3), (4, 5, 3), opset=17)
    _, (inner, sums), setting = decisions(lowered(case, ["slices"]), 17)
    assert written_by_slices(inner)
    other = ir.Tensor(sums.weight.array() * np.float32(0.5))
    scaled = replace(sums, weight=replace(sums.weight, tensor=other))
    assert not written_by_slices(scaled)
    assert decide(scaled, get_target("ort-cpu"), setting, Choice()).reason.id == "CT201"


@pytest.mark.parametrize("form", SLICES)
@pytest.mark.parametrize("bias", [True, False])
def test_a_batch_of_one(form, bias):
    case = case_of(spec(3, (6, 4), 2, k=3), (4, 5, 3), opset=18, bias=bias)
    proto = build(case, [form])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    made = forced(proto, [form], case)
    assert kinds(made).count("Transpose") == 2
    compare(case, made, [form], case.sizes, 1)


def test_one_slice_a_kernel_needs_no_sum():
    each = ConvTransposeSpec(
        6, 4, 2, (1, 3, 2), (1, 2, 2), (1, 1, 1), (0, 1, 0), (0, 0, 1), (0,) * 3
    )
    case = case_of(each, (4, 5, 3), opset=18)
    assert "Col2Im" not in kinds(lowered(case, ["slices"]))
    assert_right(case, "slices")


def test_an_empty_batch_stays_empty():
    case = case_of(spec(3, (6, 4), 2, k=3), (4, 5, 3), "batch", opset=18)
    for form in SLICES:
        proto = lowered(case, [form])
        session = ort.InferenceSession(
            proto.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        (y,) = session.run(None, {"x": np.zeros((0, 6, 4, 5, 3), np.float32)})
        assert y.shape == (0, 4, *case.spec.output_sizes((4, 5, 3)))


def test_convolutions_over_slices_have_the_zeros_of_two_axes_alone():
    each = spec(3, (16, 8), k=3)
    phases, slices, sliced = (
        FORMS[n].work(each, 1, (6, 7, 8)).macs for n in ("phases", "slices", "slices-phases")
    )
    assert slices < sliced < phases


@pytest.mark.parametrize("form", SLICES)
@pytest.mark.parametrize(
    ("each", "open_sizes", "changed", "reason"),
    [
        (spec(3, (16, 8)), "static", {"dtype": "float16"}, "CT318"),
        (spec(3, (16, 8)), "static", {"dtype": "float64"}, "CT318"),
        (spec(3, (16, 8)), "static", {"mlas": False}, "CT313"),
        (spec(2, (16, 8)), "static", {}, "CT321"),
        (spec(1, (16, 8)), "static", {}, "CT321"),
        (spec(3, (16, 8)), "spatial", {}, "CT321"),
        (spec(3, (16, 8)), "unknown", {}, "CT321"),
        (
            ConvTransposeSpec(
                4, 2, 1, (3,) * 3, (2,) * 3, (3, 1, 1), (0,) * 3, (0,) * 3, (2, 0, 0)
            ),
            "static",
            {},
            "CT310",
        ),
    ],
)
def test_slices_are_refused(form, each, open_sizes, changed, reason):
    case = case_of(each, (5, 6, 3)[: each.ndim], open_sizes, **({"opset": 18} | changed))
    found = refusals(build(case, ["probe"]), Setting(case.opset, mlas=case.mlas))[form]
    assert found is not None
    assert found.id == reason


@pytest.mark.parametrize(
    ("changed", "sizes", "reason"),
    [
        ({"dilations": (1, 3, 1), "output_padding": (0, 2, 0)}, (5, 6, 3), "CT310"),
        ({"kernel": (200_000, 1, 1)}, (2, 2, 2), "CT307"),
    ],
)
def test_the_node_over_slices_and_the_ones_have_limits(changed, sizes, reason):
    each = replace(spec(3, (2, 1), k=3, p=0), pads_end=(0,) * 3, **changed)
    case = case_of(each, sizes, opset=17)
    found = refusals(build(case, ["probe"]), Setting(17, mlas=True))["slices"]
    assert found is not None
    assert found.id == reason


def test_a_long_first_axis_needs_no_ones_where_there_is_col2im():
    each = replace(spec(3, (2, 1), s=1, p=0), kernel=(2_100, 1, 1), pads_end=(0,) * 3)
    assert_right(case_of(each, (2, 2, 2), opset=18), "slices")
