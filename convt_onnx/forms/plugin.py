"""`plugin`: one node that a kernel of this project computes, with what stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.forms.base import MAX_PACKED_ELEMENTS, Form, Setting, Work
from convt_onnx.forms.fused import packable
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand, QuantisedOperand, RuntimeOperand
from convt_onnx.plugin_node import DOMAIN, OVERLOAD, PluginRecord
from convt_onnx.plugin_node.body import make_function
from convt_onnx.plugin_node.record import FORM
from convt_onnx.plugin_node.types import DTYPES
from convt_onnx.plugin_node.weights import pack_by_nodes
from convt_onnx.plugins.conv_transpose import ahead
from convt_onnx.plugins.conv_transpose.activations import NONE, Activation, make_activation
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.packing import pack
from convt_onnx.plugins.conv_transpose.router import worth
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

# The function body takes operators of these, and functions came with that version of the format.
MIN_OPSET, MIN_BFLOAT16_OPSET = 11, 13
MIN_IR_VERSION = 4
MAX_AXES = 3


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    if not setting.plugin:
        return Refusal("CT541")
    dtype = _dtype(node)
    if dtype not in DTYPES:
        return Refusal("CT542", "unknown" if dtype is None else dtype.name)
    if node.spec.ndim > MAX_AXES:
        return Refusal("CT543", f"{node.spec.ndim} spatial axes")
    if isinstance(node.weight, QuantisedOperand):
        return Refusal("CT544", f"weight {node.weight.value.name!r}")
    least = MIN_BFLOAT16_OPSET if dtype == ir.DataType.BFLOAT16 else MIN_OPSET
    if setting.opset < least:
        return Refusal("CT545", f"opset {setting.opset}, {least} is needed")
    if setting.ir_version < MIN_IR_VERSION:
        return Refusal("CT546", f"IR version {setting.ir_version}")
    refusal = packable(node, setting)
    if refusal is not None:
        return refusal
    packing = record_of(node).packing
    if packing is not None and prod(packing.shape) >= MAX_PACKED_ELEMENTS:
        return Refusal("CT307", f"{prod(packing.shape)} packed elements")
    return None


def _dtype(node: ConvTransposeNode) -> ir.DataType | None:
    """Of the weight, where the input's is not known, as in a function."""
    if node.dtype is None and isinstance(node.weight, ConstantOperand):
        return node.weight.tensor.dtype
    return node.dtype


def record_of(node: ConvTransposeNode) -> PluginRecord:
    """The attributes of the node's plugin node, with what it absorbs."""
    kind = _dtype(node)
    assert kind is not None
    spec, dtype = node.spec.canonical(), DTYPES[kind]
    sizes = (node.batch, *node.sizes)
    schedule = ahead.base_schedule(KernelSpec(spec, dtype, sizes))
    absorbed = node.absorbed
    return PluginRecord(
        spec=spec,
        dtype=dtype,
        has_bias=node.bias is not None,
        has_residual=absorbed is not None and absorbed.residual is not None,
        activation=_activation(node),
        schedule=schedule,
    )


def no_gain(node: ConvTransposeNode, naming: str) -> Refusal | None:
    """Why the library's own call is to be preferred, in whichever layout it would run.

    ONNX Runtime (`plugin_node.OVERLOAD`) hands tensors over in NCHW alone, and a weight that is
    packed in every run took longer there than the kernel saved (StyleGAN2, batch 1).
    """
    record = record_of(node)
    if naming == OVERLOAD and record.packing and isinstance(node.weight, RuntimeOperand):
        return Refusal("CT547", "the weight would be packed in every run")
    answers = []
    for last in (False,) if naming == OVERLOAD else (False, True):
        kernel = record.kernel(
            (node.batch, *node.sizes), channels_last_in=last, channels_last_out=last
        )
        answers.append(worth(kernel.problem, ahead.DEVICE))
    return None if any(answers) else Refusal("CT547", answers[0].reason)


def _activation(node: ConvTransposeNode) -> Activation:
    if node.absorbed is None or node.absorbed.activation is None:
        return NONE
    kind, parameters = node.absorbed.activation, node.absorbed.parameters
    return make_activation(kind, *(() if kind == "prelu" else parameters))


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    record = record_of(node)
    function = make_function(record, setting.plugin, setting.opset)
    inputs = [node.x, _weight(em, node, record)]
    if node.bias is not None:
        inputs.append(node.bias.value)
    absorbed = node.absorbed
    if absorbed is not None and absorbed.activation == "prelu":
        inputs.append(em.constant(_slopes(node, absorbed.parameters), "slope"))
    if absorbed is not None and absorbed.residual is not None:
        inputs.append(absorbed.residual)
    return em.call(function, inputs, {**record.attributes(), "plugin_namespace": DOMAIN})


def _weight(em: Emitter, node: ConvTransposeNode, record: PluginRecord) -> ir.Value:
    packing, weight = record.packing, node.weight
    if packing is None:
        return weight.value
    if isinstance(weight, ConstantOperand):
        return em.shared((weight.value, packing), lambda: pack(weight.array(), packing), "packed")
    return pack_by_nodes(em, weight.value, packing)


def _slopes(node: ConvTransposeNode, parameters: Sequence[float]) -> npt.NDArray[np.generic]:
    kind = _dtype(node)
    assert kind is not None
    slopes = np.empty(node.spec.out_channels, kind.numpy())
    slopes[:] = parameters
    return slopes


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    """Exact taps; x, the weight and y once."""
    elements = spec.in_channels * prod(sizes) + spec.out_channels * prod(spec.output_sizes(sizes))
    return Work(spec.macs_exact(batch, sizes), batch * elements + prod(spec.weight_shape))


PLUGIN = Form(
    FORM,
    "one kernel launch, with the activation and the residual behind the node",
    _check,
    _emit,
    _work,
    absorbs=True,
)
