"""`bands`, `bands-phases`: rows of the first of three axes as channels, its taps as a band.

A transposed convolution over three axes is one over the last two whose channels are the channels
and rows of the first axis. Both stand side by side in memory, so that nothing is moved:

    x [N, C_in, L_1, *L] -> [N, C_in * L_1, *L] -> [N, C_out * O_1, *O] -> [N, C_out, O_1, *O]

Row o of the output has tap k of row i where o = i * s + k * d - crop, else zero:

    weight [C_in, M, K_1, *K] -> [C_in, L_1, M, O_1, *K] -> [C_in * L_1, M * O_1, *K]

That is O_1 / K_1 times the arithmetic, and the sums along the first axis are the GEMM's; an input
that is not finite makes NaN of all rows of that axis. Pays for
short axes and few channels, where ONNX Runtime's CPU provider spends its time on columns, which it
adds up with an index calculation an element over three axes and in plain loops over two.

A weight known at run time becomes the band by a Gather of its taps and of a row of zeros. A product
with ones and zeros would be as fast, but not with several threads, to which ONNX Runtime gives one
matrix of a batch each, however small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.col2im import OPSET
from convt_onnx.forms.fused import check_kernels
from convt_onnx.forms.native import KEEP
from convt_onnx.forms.slices import only_reader, over_last_axes, over_two_axes
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand, Operand, QuantisedOperand, RuntimeOperand
from convt_onnx.reasons import Refusal
from convt_onnx.spec import Axis, ConvTransposeSpec
from convt_onnx.standard import is_standard

# 4 MiB of float32, mostly zeros: from there on the arithmetic takes longer than any columns.
MAX_BAND = 1 << 20


def _rows(spec: ConvTransposeSpec, length: int) -> int:
    """Of the output along the first axis."""
    return next(spec.axes()).output_length(length)


def _band_spec(spec: ConvTransposeSpec, length: int) -> ConvTransposeSpec:
    """Over the last two axes, with `length` rows of the first as channels."""
    rows = _rows(spec, length)
    return over_last_axes(spec, spec.in_channels * length, spec.out_channels * rows)


def _known_sizes(node: ConvTransposeNode) -> tuple[int, ...] | None:
    """Of three axes, None where one is open or there are not three."""
    sizes = tuple(n for n in node.sizes if n is not None)
    return sizes if len(sizes) == node.spec.ndim == 3 and min(sizes) > 0 else None


def _band_node(
    node: ConvTransposeNode, length: int, x: ir.Value, weight: Operand, bias: Operand | None
) -> ConvTransposeNode:
    return replace(
        node,
        spec=_band_spec(node.spec, length),
        x=x,
        weight=weight,
        bias=bias,
        sizes=node.sizes[1:],
        x_grid=None,
        y_grid=None,
        usual=None,
    )


def _check(form: str, native: bool, node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    spec, sizes = node.spec, _known_sizes(node)
    refusal = check_kernels(form, node, setting)
    if refusal is not None:
        return refusal
    if sizes is None or node.dtype != ir.DataType.FLOAT or _rows(spec, sizes[0]) < 1:
        return Refusal("CT322", f"input sizes {list(node.sizes)} of {node.dtype}")
    if isinstance(node.bias, QuantisedOperand):
        return Refusal("CT314", f"bias {node.bias.value.name}")
    band = _band_spec(spec, sizes[0])
    if prod(band.weight_shape) > MAX_BAND:
        return Refusal("CT307", f"a band of {list(band.weight_shape)}")
    limits = zip(spec.output_padding[1:], spec.strides[1:], strict=True)
    if native and any(op >= s for op, s in limits):
        return Refusal("CT310", f"output_padding = {list(spec.output_padding)}")
    if isinstance(node.weight, RuntimeOperand):
        if not native:
            return Refusal("CT314", f"weight {node.weight.value.name}")
        if setting.opset < 4:
            return Refusal("CT306", f"Concat needs opset 4, the model has {setting.opset}")
    inner = _inner(native, spec, setting.opset)
    return inner.check(_band_node(node, sizes[0], node.x, node.weight, node.bias), setting)


def _inner(native: bool, spec: ConvTransposeSpec, opset: int) -> Form:
    return KEEP if native else over_two_axes(spec, opset)


def _emit(native: bool, em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec, sizes = node.spec, _known_sizes(node)
    assert sizes is not None
    x = em.reshape(node.x, [-1, spec.in_channels * sizes[0], *sizes[1:]])
    weight = _band(em, node.weight, spec, sizes[0], native=native)
    bias = _spread_bias(em, node.bias, _rows(spec, sizes[0]))
    banded = _band_node(node, sizes[0], x, weight, bias)
    y = _inner(native, spec, setting.opset).emit(em, banded, setting)
    return em.reshape(y, [-1, spec.out_channels, *spec.output_sizes(sizes)])


def band_taps(axis: Axis, length: int) -> npt.NDArray[np.int64]:
    """[L_1, O_1]: the tap that a row of the input has at a row of the output, -1 for none."""
    i, o = np.ogrid[:length, : axis.output_length(length)]
    tap, rest = np.divmod(o + axis.begin - i * axis.stride, axis.dilation)
    return np.where((rest == 0) & (tap >= 0) & (tap < axis.kernel), tap, -1)


def _band(
    em: Emitter, weight: Operand, spec: ConvTransposeSpec, length: int, *, native: bool
) -> Operand:
    """[C_in, M, *K] -> [C_in * L_1, M * O_1, K_2, K_3]."""
    axis, shape = next(spec.axes()), _band_spec(spec, length).weight_shape
    taps = band_taps(axis, length)
    if not isinstance(weight, ConstantOperand):
        band = _band_at_run_time(em, weight.value, spec, taps)
        return RuntimeOperand(band, shape, overridable=False)
    tensor = ir.Tensor(_band_array(weight.array(), taps).reshape(shape), name=None)
    if native:
        key = (weight.value, "band", axis, length)
        return ConstantOperand(em.shared(key, tensor.numpy, "weight"), tensor)
    # Convolutions repack the tensor; packed weights are shared by the value, so this has one.
    return ConstantOperand(ir.Value(const_value=tensor), tensor)


def _band_array(
    weight: npt.NDArray[np.generic], taps: npt.NDArray[np.int64]
) -> npt.NDArray[np.generic]:
    """[C_in, M, K_1, *K] -> [C_in, L_1, M, O_1, *K]."""
    zeros = np.zeros_like(weight[:, :, :1])
    return np.concatenate([weight, zeros], axis=2)[:, :, taps].swapaxes(1, 2)


def _band_at_run_time(
    em: Emitter, weight: ir.Value, spec: ConvTransposeSpec, taps: npt.NDArray[np.int64]
) -> ir.Value:
    """[C_in, M, *K] -> [C_in * L_1, M * O_1, K_2, K_3]."""
    ci, m, k, *rest = spec.weight_shape
    length, rows = taps.shape
    zeros = em.constant(np.zeros((1, *rest), np.float32), "zeros")
    joined = em.op("Concat", [em.reshape(weight, [-1, *rest]), zeros], axis=0)
    firsts = k * np.arange(ci * m).reshape(ci, 1, m, 1)
    source = np.where(taps[:, None] < 0, ci * m * k, firsts + taps[:, None])
    indices = em.constant(source.reshape(ci * length, m * rows), "taps")
    return em.op("Gather", [joined, indices], axis=0)


def written_by_bands(node: ConvTransposeNode) -> bool:
    """Whether a node over two axes is the one that `bands` writes between two Reshapes."""
    before, behind = node.x.producer(), only_reader(node.node.outputs[0])
    if node.spec.ndim != 2 or before is None or behind is None:
        return False
    shape, rows = _reshaped(behind), _reshaped(before)
    if len(rows) != 4 or len(shape) != 5:
        return False
    return rows[0] == shape[0] == -1 and shape[1] * shape[2] == node.spec.out_channels


def _reshaped(node: ir.Node) -> tuple[int, ...]:
    """The constant shape that a Reshape gives, empty for what is none."""
    if not is_standard(node, "Reshape"):
        return ()
    if len(node.inputs) < 2:
        return tuple(node.attributes.get_ints("shape", ()))
    shape = node.inputs[1]
    tensor = None if shape is None else ir.convenience.get_const_tensor(shape)
    return () if tensor is None else tuple(tensor.numpy().reshape(-1).tolist())


def _spread_bias(em: Emitter, bias: Operand | None, rows: int) -> Operand | None:
    """[C_out] -> [C_out * O_1]."""
    if isinstance(bias, ConstantOperand):
        spread = np.repeat(bias.array(), rows)
        value = em.shared((bias.value, "band", rows), lambda: spread, "bias")
        return ConstantOperand(value, ir.Tensor(spread, name=None))
    if isinstance(bias, RuntimeOperand):
        source = np.repeat(np.arange(bias.shape[0]), rows)
        value = em.op("Gather", [bias.value, em.constant(source, "channels")], axis=0)
        return RuntimeOperand(value, source.shape, overridable=False)
    return None


def _work(native: bool, spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    band = _band_spec(spec, sizes[0])
    done = _inner(native, spec, OPSET).work(band, batch, sizes[1:])
    read = batch * spec.in_channels * prod(sizes)
    written = batch * band.out_channels * prod(band.output_sizes(sizes[1:]))
    return Work(done.macs, done.elements + 2 * read + 2 * written)


def _form(name: str, operators: str, *, native: bool) -> Form:
    return Form(
        name,
        f"three axes: {operators} over two, rows of the first as channels",
        lambda node, setting: _check(name, native, node, setting),
        lambda em, node, setting: _emit(native, em, node, setting),
        lambda spec, batch, sizes: _work(native, spec, batch, sizes),
    )


BANDS = _form("bands", "ConvTranspose", native=True)
BANDS_PHASES = _form("bands-phases", "convolutions", native=False)
