"""Where Q/DQ pairs stand around the convolution, and where they do not."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from convt_onnx.decide import Choice
from convt_onnx.passes.base import Context
from convt_onnx.passes.lower import Lower
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.targets import get_target

from ..graph.building import op_types
from .lowering import initializers
from .quantising import (
    Quantised,
    assert_right,
    build,
    feed,
    lowered,
    make_parts,
    oracle,
    run,
)


def spec(strides=(2, 2)):
    return ConvTransposeSpec(4, 6, 2, (4, 3), strides, (1, 1), (1, 0), (1, 0), (0, 0))


def readers_of_convolutions(proto):
    made = {n.output[0] for n in proto.graph.node if n.op_type == "Conv"}
    return {n.op_type for n in proto.graph.node if made & set(n.input)}


@pytest.mark.parametrize("output", ["quantised", "relu"])
@pytest.mark.parametrize("form", ["phases", "phases-window", "phases-split"])
def test_the_convolution_is_followed_by_q(form, output):
    case = Quantised(spec(), (5, 4), output=output)
    proto = lowered(case, [form])
    assert readers_of_convolutions(proto) == {"QuantizeLinear"}
    assert f"y_{form}_f" in {o for n in proto.graph.node for o in n.output}
    before, after = build(case, [form]).graph, proto.graph
    assert [o.name for o in before.output] == [o.name for o in after.output]
    assert after.node[-1].output == before.node[-1].output


def test_zero_insertion_quantises_its_input_again():
    case = Quantised(spec(), (5, 4))
    proto = lowered(case, ["zero-insertion"])
    (conv,) = (n for n in proto.graph.node if n.op_type == "Conv")
    makers = {n.output[0]: n for n in proto.graph.node}
    assert makers[conv.input[0]].op_type == "DequantizeLinear"


def changed(proto, form="phases"):
    model = ir.from_proto(proto)
    Lower(Context(get_target("ort-cpu"), {}, Choice({"all": form})))(model)
    return ir.to_proto(model)


def quantizers(proto):
    return op_types(proto).count("QuantizeLinear")


def _as_output(proto):
    name = "y_phases_f"
    info = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * 4)
    proto.graph.output.append(info)


def _read_elsewhere(proto):
    proto.graph.node.append(onnx.helper.make_node("Neg", ["y_phases_f"], ["other"]))


def _second(proto, *parameters):
    node = onnx.helper.make_node("QuantizeLinear", ["y_phases_f", *parameters], ["second"])
    proto.graph.node.append(node)


def _two_grids(proto):
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "other_s"))
    _second(proto, "other_s", "y_z")


def _replaced(proto, name, array):
    for tensor in proto.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(array, name))


def _per_channel(proto):
    channels = spec().out_channels
    _replaced(proto, "y_s", np.full(channels, 0.1, np.float32))
    _replaced(proto, "y_z", np.zeros(channels, np.uint8))


def _run_time_scale(proto):
    info = onnx.helper.make_tensor_value_info("y_s", onnx.TensorProto.FLOAT, [])
    proto.graph.input.append(info)


def _float_reader_only(proto):
    for node in proto.graph.node:
        if "y_phases_f" in node.input or "y_phases" in node.output:
            node.op_type = "Identity"
            del node.input[1:]


@pytest.mark.parametrize(
    "spoil",
    [
        _as_output,
        _read_elsewhere,
        _two_grids,
        _per_channel,
        _run_time_scale,
        _float_reader_only,
    ],
)
def test_no_pair_where_the_output_is_not_quantised_in_one_way(spoil):
    proto = build(Quantised(spec(), (5, 4)), ["phases"])
    spoil(proto)
    after = changed(proto)
    assert "ConvTranspose" not in op_types(after)
    assert quantizers(after) == quantizers(proto)


def test_no_pair_for_a_scale_an_input_channel():
    proto = build(Quantised(spec(), (5, 4), axis=0), ["phases"])
    assert quantizers(changed(proto)) == quantizers(proto)


def test_no_pair_where_nothing_moves():
    case = Quantised(spec(strides=(1, 1)), (5, 4))
    assert quantizers(lowered(case, ["conv"])) == 2


def test_no_pair_in_overlap_add():
    proto = lowered(Quantised(spec(), (5, 4)), ["overlap-add"])
    assert quantizers(proto) == 2
    assert "Conv" in op_types(proto)


def test_two_readers_with_one_grid():
    proto = build(Quantised(spec(), (5, 4)), ["phases"])
    proto.graph.initializer.append(
        numpy_helper.from_array(initializers(proto)["y_s"].copy(), "same_s")
    )
    _second(proto, "same_s", "y_z")
    assert quantizers(changed(proto)) == quantizers(proto) + 1


def test_parameters_that_a_constant_node_makes_further_down():
    case = Quantised(spec(), (5, 4))
    proto = build(case, ["phases"])
    parts, feeds = make_parts(case), {"x": feed(case)}
    at = next(i for i, n in enumerate(proto.graph.node) if n.input[:1] == ["y_phases_f"])
    for name in ("y_s", "y_z"):
        (tensor,) = (t for t in proto.graph.initializer if t.name == name)
        constant = onnx.helper.make_node("Constant", [], [name], value=tensor)
        proto.graph.node.insert(at, constant)
        proto.graph.initializer.remove(tensor)
    after = changed(proto)
    assert quantizers(after) == quantizers(proto) + 1
    got = run(after, feeds)["y_phases"].astype(np.float64)
    assert_right(case, parts, got, oracle(case, parts, feeds), "phases")


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("form", ["phases", "phases-split", "zero-insertion"])
def test_a_second_run_changes_nothing(form, axis):
    after = lowered(Quantised(spec(), (5, 4), axis=axis), [form])
    assert changed(after, form) == ir.to_proto(ir.from_proto(after))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_in_a_branch_whose_weights_stand_outside(axis):
    case = Quantised(spec(), (5, 4), axis=axis)
    parts, feeds = make_parts(case), {"x": feed(case)}
    proto = build(case, ["phases"])
    graph, helper = proto.graph, onnx.helper
    outside = [n for n in graph.node if n.output[0] in ("x_q", "x_d", "w", "b")]
    branches = {}
    for name in ("then_branch", "else_branch"):
        inside = [n for n in graph.node if n not in outside]
        copies = []
        for node in inside:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = f"{node.name}/{name}" if node.name else ""
            copy.input[:] = [f"{i}/{name}" if i.startswith("y_phases") else i for i in node.input]
            copy.output[:] = [f"{o}/{name}" for o in node.output]
            copies.append(copy)
        rank = [None] * 4
        out = helper.make_tensor_value_info(f"y_phases/{name}", onnx.TensorProto.FLOAT, rank)
        branches[name] = helper.make_graph(copies, name, [], [out])
    del graph.node[:]
    graph.node.extend(outside)
    graph.node.append(helper.make_node("If", ["c"], ["y_phases"], **branches))
    graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    after = changed(proto)
    onnx.checker.check_model(after)
    bodies = [a.g for n in after.graph.node for a in n.attribute if a.HasField("g")]
    for body in bodies:
        kinds = [n.op_type for n in body.node]
        assert "ConvTranspose" not in kinds
        assert kinds.count("QuantizeLinear") == (1 if axis == 0 else 2)
    wanted = oracle(case, parts, feeds)
    for flag in (True, False):
        got = run(after, feeds | {"c": np.array(flag)})["y_phases"].astype(np.float64)
        assert_right(case, parts, got, wanted, "phases")
