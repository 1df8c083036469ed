"""Export of torch models to ONNX with the kernels as plugin nodes.

    from convt_onnx.plugins.torch_onnx import export
    export(model, (x,), target="ort-cuda").save("model.onnx")

Every nn.ConvTranspose and every call of `torch_op` becomes one node of the domain convt_onnx, with
a function of standard operators behind it, so that any runtime runs the file.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch
from torch import Tensor, nn

from convt_onnx.errors import MissingPartError, UsageError
from convt_onnx.graph.emitter import Emitter, NamePool
from convt_onnx.plugin_node import DOMAIN, HASHED, OVERLOAD, PluginRecord
from convt_onnx.plugin_node.body import make_function
from convt_onnx.plugin_node.record import FUNCTION_IR_VERSION, OVERLOAD_IR_VERSION, read_record
from convt_onnx.plugin_node.types import DTYPES
from convt_onnx.plugin_node.weights import pack_by_nodes
from convt_onnx.plugins import torch_op
from convt_onnx.plugins.conv_transpose import ahead
from convt_onnx.plugins.conv_transpose.activations import Activation
from convt_onnx.plugins.conv_transpose.arguments import spec_of
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.packing import Packing, pack

NAMINGS = {"tensorrt": HASHED, "ort-cuda": OVERLOAD}
IR_VERSIONS = {HASHED: FUNCTION_IR_VERSION, OVERLOAD: OVERLOAD_IR_VERSION}
# Torch writes the node under this name; its final name depends on the target.
_CALL = "ConvTransposeCall"


def export(
    model: nn.Module, args: tuple[Any, ...], *, target: str = "ort-cuda", **options: Any
) -> torch.onnx.ONNXProgram:
    """`torch.onnx.export(model, args, dynamo=True, **options)` with plugin nodes.

    Args:
        model: In eval mode; it is as before afterwards.
        args: Example inputs.
        target: "ort-cuda" or "tensorrt": whose plugin will run the nodes.
        options: Of torch.onnx.export, such as dynamic_shapes; not `f`: save the result.

    Raises:
        UsageError: No such target, or a type that the kernels do not compute in.
        MissingPartError: Torch is older than 2.8 or onnxscript is missing.
    """
    if target not in NAMINGS:
        raise UsageError(
            "no plugin runs on this target", where=target, help="use " + ", ".join(NAMINGS)
        )
    if not hasattr(torch.onnx, "ops"):
        raise MissingPartError(
            "this torch cannot export nodes of its own", where=torch.__version__, help="2.8 can"
        )
    with torch.no_grad(), torch_op.replaced(model), torch_op.exported_as(_node):
        program = torch.onnx.export(model, args, dynamo=True, **options)
    assert program is not None  # None is what the exporter without dynamo returns
    finish(program.model, NAMINGS[target])
    return program


def finish(model: ir.Model, naming: str) -> None:
    """Give the nodes of `_node` their names, packed weights and functions."""
    names, opset = NamePool(model), model.opset_imports[""]
    packed: dict[tuple[ir.Value, Packing], ir.Value] = {}
    for node in list(model.graph.all_nodes()):
        if (node.domain, node.op_type) != (DOMAIN, _CALL):
            continue
        values = {name: a.value for name, a in node.attributes.items()}
        assert node.inputs[0] is not None
        record = read_record(values, DTYPES[node.inputs[0].dtype or ir.DataType.UNDEFINED])
        function = make_function(record, naming, opset)
        model.functions[function.identifier()] = function
        _, node.op_type, node.overload = function.identifier()
        node.attributes.add(ir.AttrString("plugin_namespace", DOMAIN))
        _pack(model, node, record, names, packed)
    model.ir_version = max(model.ir_version, IR_VERSIONS[naming])


def _node(
    operands: tuple[Tensor | None, ...], numbers: tuple[Any, ...], activation: Activation
) -> Tensor:
    """One call as a node; see `torch_op.exported_as`."""
    x, weight, bias, slope, residual = operands
    assert x is not None
    assert weight is not None
    spec = spec_of(weight, *numbers).canonical()
    dtype = str(x.dtype).removeprefix("torch.")
    if dtype not in DTYPES.values():
        raise UsageError(
            "the kernels do not compute in this type",
            where=dtype,
            help="use " + ", ".join(DTYPES.values()),
        )
    schedule = ahead.base_schedule(KernelSpec(spec, dtype, (None,) * (x.dim() - 1)))
    record = PluginRecord(spec, dtype, bias is not None, residual is not None, activation, schedule)
    slopes = None if slope is None else slope.expand(spec.out_channels)
    inputs = [t for t in (x, weight, bias, slopes, residual) if t is not None]
    shape = torch_op.result_shape(x, weight, *numbers)
    return torch.onnx.ops.symbolic(
        f"{DOMAIN}::{_CALL}", inputs, record.attributes(), dtype=x.dtype, shape=shape, version=1
    )


def _pack(
    model: ir.Model,
    node: ir.Node,
    record: PluginRecord,
    names: NamePool,
    packed: dict[tuple[ir.Value, Packing], ir.Value],
) -> None:
    """Replace the weight of a node by the packed one; nodes that share it share that too."""
    weight, packing = node.inputs[1], record.packing
    assert weight is not None
    if packing is None:
        return
    if (weight, packing) not in packed:
        packed[weight, packing] = _packed(model, node, weight, packing, names)
    node.replace_input_with(1, packed[weight, packing])
    if not weight.uses() and weight.is_initializer():
        model.graph.initializers.pop(str(weight.name))


def _packed(
    model: ir.Model, node: ir.Node, weight: ir.Value, packing: Packing, names: NamePool
) -> ir.Value:
    if weight.is_initializer() and weight.const_value is not None:
        array = pack(weight.const_value.numpy(), packing)
        value = ir.Value(name=names.fresh(f"{weight.name}_packed"))
        value.const_value = ir.Tensor(array, name=value.name)
        value.type = ir.TensorType(value.const_value.dtype)
        value.shape = ir.Shape(array.shape)
        model.graph.register_initializer(value)
        return value
    assert node.graph is not None
    em = Emitter(
        model.graph,
        opset=model.opset_imports[""],
        inline_constants=True,
        names=names,
        prefix=f"{node.name}/pack",
        cache={},
    )
    value = pack_by_nodes(em, weight, packing)
    node.graph.insert_before(node, em.nodes)
    return value
