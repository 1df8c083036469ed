"""`slices`, `slices-phases`: three axes as two for every slice, and sums along the first axis.

A transposed convolution over three axes is one over the last two for each input slice and each tap
of the first axis; the weight [C_in, M, K_1, K_2, K_3] is theirs as [C_in, M * K_1, K_2, K_3].
Slices become the batch, and Col2Im adds them up, whole slices at a time:

    x [N, C_in, L_1, *L] -> [N * L_1, C_in, *L] -> [N * L_1, C_out * K_1, *O]
      -> [N, C_out * K_1, L_1 * R] -> Col2Im [N, C_out, O_1, R],  R = product of O

ONNX Runtime's CPU provider adds columns up with an index calculation an element where there are
three axes, and in plain loops for two. Over two axes it also has convolutions in blocks of
channels, which `slices-phases` uses.

Before opset 18 there is no Col2Im. A depthwise ConvTranspose adds the slices up in its place, whose
C_out groups have K_1 input channels, one for each tap, and a weight of ones there and zeros
elsewhere. It takes somewhat longer than Col2Im, but adds the bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.col2im import OPSET, PHASES_COL2IM, place_taps, taps_placeable
from convt_onnx.forms.fused import CONV, PHASES, check_kernels
from convt_onnx.forms.native import KEEP
from convt_onnx.forms.weights import bias_column
from convt_onnx.graph.attributes import canonical_attributes
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand, Operand, RuntimeOperand
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.standard import is_standard

# 16 MiB of ones and zeros: with so many taps the sums have far more arithmetic than the node.
MAX_ONES = 1 << 22


def over_last_axes(
    spec: ConvTransposeSpec, in_channels: int, out_channels: int
) -> ConvTransposeSpec:
    """The geometry without the first axis, with other channels."""
    return ConvTransposeSpec(
        in_channels,
        out_channels,
        spec.group,
        *(
            values[1:]
            for values in (
                spec.kernel,
                spec.strides,
                spec.dilations,
                spec.pads_begin,
                spec.pads_end,
                spec.output_padding,
            )
        ),
    )


def _slice_spec(spec: ConvTransposeSpec) -> ConvTransposeSpec:
    """Of one slice: the taps of the first axis are output channels."""
    return over_last_axes(spec, spec.in_channels, spec.out_channels * spec.kernel[0])


def _slice_node(node: ConvTransposeNode, x: ir.Value, weight: Operand) -> ConvTransposeNode:
    batch = None if node.batch is None or node.sizes[0] is None else node.batch * node.sizes[0]
    return replace(
        node,
        spec=_slice_spec(node.spec),
        x=x,
        weight=weight,
        bias=None,
        batch=batch,
        sizes=node.sizes[1:],
        x_grid=None,
        y_grid=None,
        usual=None,
    )


def over_two_axes(spec: ConvTransposeSpec, opset: int) -> Form:
    """Convolutions over the last two of three axes."""
    if all(s == 1 for s in spec.strides[1:]):
        return CONV
    return PHASES if opset < OPSET else PHASES_COL2IM


def _check(form: str, inner: Form, node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    spec = node.spec
    refusal = check_kernels(form, node, setting)
    if refusal is not None:
        return refusal
    if spec.ndim != 3 or None in node.sizes:
        return Refusal("CT321", f"input sizes {list(node.sizes)}")
    if node.dtype != ir.DataType.FLOAT:
        return Refusal("CT318", f"{node.dtype}")
    if inner is KEEP and any(
        op >= s for op, s in zip(spec.output_padding, spec.strides, strict=True)
    ):
        return Refusal("CT310", f"output_padding = {list(spec.output_padding)}")
    ones = spec.out_channels * spec.kernel[0] ** 2
    if setting.opset < OPSET and ones > MAX_ONES:
        return Refusal("CT307", f"{spec.kernel[0]} taps of {spec.out_channels} channels")
    return taps_placeable(next(spec.axes())) or inner.check(
        _slice_node(node, node.x, node.weight), setting
    )


def _emit(inner: Form, em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec = node.spec
    length, *sizes = [n for n in node.sizes if n is not None]
    x = em.transpose(node.x, [0, 2, 1, 3, 4])
    x = em.reshape(x, [-1, spec.in_channels, *sizes])
    slices = _slice_node(node, x, _slice_weight(em, inner, node.weight, _slice_spec(spec)))
    y = inner.emit(em, slices, setting)
    return _sum(em, y, node, length, setting)


def _slice_weight(em: Emitter, inner: Form, weight: Operand, spec: ConvTransposeSpec) -> Operand:
    """[C_in, M, *K] -> [C_in, M * K_1, K_2, K_3]."""
    shape = spec.weight_shape
    if isinstance(weight, ConstantOperand):
        tensor = ir.Tensor(weight.array().reshape(shape), name=None)
        if inner is not KEEP:  # which repacks the tensor and does not read the value
            return ConstantOperand(weight.value, tensor)
        key = (weight.value, "slices", shape)
        return ConstantOperand(em.shared(key, tensor.numpy, "weight"), tensor)
    return RuntimeOperand(em.reshape(weight.value, shape), shape, overridable=False)


def _sum(
    em: Emitter, y: ir.Value, node: ConvTransposeNode, length: int, setting: Setting
) -> ir.Value:
    """[N * L_1, C_out * K_1, *O] -> [N, C_out, O_1, *O], and the bias."""
    spec = node.spec
    rows = spec.output_sizes([n or 1 for n in node.sizes])
    channels, run = spec.out_channels * spec.kernel[0], prod(rows[1:])
    if node.batch == 1:
        y = em.transpose(y, [1, 0, 2, 3])
    else:
        y = em.transpose(em.reshape(y, [-1, length, channels, run]), [0, 2, 1, 3])
    first = place_taps(next(spec.axes()))
    if (first.size, first.stride, rows[0]) == (1, 1, length):
        y = em.reshape(y, [-1, channels, *rows])
    elif setting.opset < OPSET:
        y = _by_ones(em, em.reshape(y, [-1, channels, length, run]), node)
        return em.reshape(y, [-1, spec.out_channels, *rows])
    else:
        y = em.op(
            "Col2Im",
            [
                em.reshape(y, [-1, channels, length * run]),
                em.ints([rows[0], run], "sizes"),
                em.ints([first.size, 1], "block"),
            ],
            dilations=[first.dilation, 1],
            pads=[first.crop_begin, 0, first.crop_end, 0],
            strides=[first.stride, 1],
        )
        y = em.reshape(y, [-1, spec.out_channels, *rows])
    return y if node.bias is None else em.add(y, bias_column(em, node.bias, spec))


def _ones(groups: int, taps: int) -> npt.NDArray[np.float32]:
    """[groups * taps, 1, taps, 1]: channel t of a group has its one at tap t."""
    ones = np.tile(np.eye(taps, dtype=np.float32), (groups, 1))
    return ones.reshape(-1, 1, taps, 1)


def written_by_slices(node: ConvTransposeNode) -> bool:
    """Whether a node is one that `slices` writes: of the slices, or in place of Col2Im."""
    if node.spec.ndim != 2:
        return False
    if isinstance(node.weight, ConstantOperand) and _holds_ones(node.weight.tensor):
        return True
    reader = only_reader(node.node.outputs[0])
    while reader is not None and is_standard(reader, "Reshape", "Transpose"):
        reader = only_reader(reader.outputs[0])
    if reader is None or not is_standard(reader, "ConvTranspose"):
        return reader is not None and is_standard(reader, "Col2Im")
    weight = reader.inputs[1]
    tensor = None if weight is None else ir.convenience.get_const_tensor(weight)
    return tensor is not None and _holds_ones(tensor)


def only_reader(value: ir.Value) -> ir.Node | None:
    """The node that alone reads a value, None also for an output of the graph."""
    readers = [use.node for use in value.uses()]
    return readers[0] if len(readers) == 1 and not value.is_graph_output() else None


def _holds_ones(tensor: ir.TensorProtocol) -> bool:
    """Whether a weight is what `_ones` makes, of more than one tap."""
    shape = tuple(tensor.shape.numpy())
    if len(shape) != 4 or shape[1::2] != (1, 1) or shape[2] < 2 or shape[0] % shape[2]:
        return False
    return prod(shape) <= MAX_ONES and np.array_equal(
        tensor.numpy(), _ones(shape[0] // shape[2], shape[2])
    )


def _by_ones(em: Emitter, y: ir.Value, node: ConvTransposeNode) -> ir.Value:
    """[N, C_out * K_1, L_1, R] -> [N, C_out, O_1, R] by a ConvTranspose, with the bias."""
    spec = node.spec
    taps = spec.kernel[0]
    weight = em.constant(_ones(spec.out_channels, taps), "ones")
    sums = ConvTransposeSpec(
        spec.out_channels * taps,
        spec.out_channels,
        spec.out_channels,
        (taps, 1),
        (spec.strides[0], 1),
        (spec.dilations[0], 1),
        (spec.pads_begin[0], 0),
        (spec.pads_end[0], 0),
        (spec.output_padding[0], 0),
    )
    bias = [] if node.bias is None else [node.bias.value]
    return em.op("ConvTranspose", [y, weight, *bias], **canonical_attributes(sums))


def _work(inner: Form, spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    slices = _slice_spec(spec)
    done = inner.work(slices, batch * sizes[0], sizes[1:])
    written = batch * sizes[0] * slices.out_channels * prod(slices.output_sizes(sizes[1:]))
    read = batch * spec.in_channels * prod(sizes)
    out = batch * spec.out_channels * prod(spec.output_sizes(sizes))
    return Work(done.macs, done.elements + 2 * read + 4 * written + 4 * out)


SLICES = Form(
    "slices",
    "three axes: ConvTranspose over two for every slice, added up by Col2Im",
    lambda node, setting: _check("slices", KEEP, node, setting),
    lambda em, node, setting: _emit(KEEP, em, node, setting),
    lambda spec, batch, sizes: _work(KEEP, spec, batch, sizes),
)
SLICES_PHASES = Form(
    "slices-phases",
    "three axes: convolutions over two for every slice, added up by Col2Im",
    lambda node, setting: _check(
        "slices-phases", over_two_axes(node.spec, setting.opset), node, setting
    ),
    lambda em, node, setting: _emit(over_two_axes(node.spec, setting.opset), em, node, setting),
    lambda spec, batch, sizes: _work(over_two_axes(spec, OPSET), spec, batch, sizes),
)
