"""`separable`: a depthwise kernel that is a column times a row, as two matrix products.

Frozen bilinear upsampling (FCN, DLA, CenterNet) has the kernel K[i, j] = u[i] * v[j]. A transposed
convolution along one axis is a product with a band of its taps, and so

    y[n, c] = A x[n, c] B,  A [O_1, L_1], B [L_2, O_2]
    A[o, i] = u[k] where o = i * s_1 + k * d_1 - crop, else zero; B alike, transposed

A MatMul broadcasts over images and channels: nothing is moved, and the crop is left out of the
bands. They hold L_1 + L_2 taps an output where phases have (K_1 / s_1) * (K_2 / s_2), mostly zeros,
but ONNX Runtime's CPU provider runs GEMMs at the speed of the core, and the node's columns and the
interleaving of phases at that of the caches.

Where channels have several kernels each has bands of its own. Zeros of a band are multiplied like
taps, so that an input that is not finite makes NaN of all its channel, not of its window alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.forms.bands import band_taps
from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.fused import check_kernels
from convt_onnx.forms.weights import bias_column
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand, QuantisedOperand
from convt_onnx.reasons import Refusal
from convt_onnx.spec import Axis, ConvTransposeSpec

Floats = npt.NDArray[np.float64]

# 4 MiB of float32: images so large have far more zeros than taps.
MAX_BANDS = 1 << 20
# Of the largest tap of a channel, and of all its taps together; what float32 rounds a product to.
TOLERANCE = float(np.finfo(np.float32).eps)


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    spec = node.spec
    refusal = check_kernels("separable", node, setting)
    if refusal is not None:
        return refusal
    sizes = [n for n in node.sizes if n is not None]
    depthwise = spec.in_channels == spec.out_channels == spec.group
    known = spec.ndim == len(sizes) == 2 and min(sizes) > 0
    if not known or not depthwise or node.dtype != ir.DataType.FLOAT:
        detail = f"group = {spec.group}, input sizes {list(node.sizes)} of {node.dtype}"
        return Refusal("CT323", detail)
    if not isinstance(node.weight, ConstantOperand):
        return Refusal("CT314", f"weight {node.weight.value.name}")
    if isinstance(node.bias, QuantisedOperand):
        return Refusal("CT314", f"bias {node.bias.value.name}")
    if node.bias is not None and setting.opset < 7:
        return Refusal("CT306", f"a broadcasting Add needs opset 7, the model has {setting.opset}")
    if spec.group * _taps(spec, sizes) > MAX_BANDS or prod(spec.weight_shape) > MAX_BANDS:
        return Refusal("CT307", f"bands for {list(sizes)} and {spec.group} channels")
    if _factors(node.weight) is None:
        return Refusal("CT324", f"weight {node.weight.value.name}")
    return None


def _taps(spec: ConvTransposeSpec, sizes: Sequence[int]) -> int:
    """Elements of both bands."""
    return sum(n * a.output_length(n) for n, a in zip(sizes, spec.axes(), strict=True))


def _factors(weight: ConstantOperand) -> tuple[Floats, Floats] | None:
    """[C, K_1] and [C, K_2] whose products are the kernels, None where there are none.

    The column and the row of the largest tap: where the kernel is a product, they are multiples of
    its factors. The rows, which x meets first, keep the size of the taps: what comes between the
    products is then a part of the output's sums and overflows where those do.

    A kernel of many taps below the tolerance could be none of them by its factors, which inputs of
    one sign would add up; so the errors of a channel are also measured together.
    """
    kernels = weight.array().astype(np.float64)[:, 0]
    channels = np.arange(len(kernels))
    largest = np.abs(kernels).reshape(len(kernels), -1).argmax(axis=1)
    i, j = np.unravel_index(largest, kernels.shape[1:])
    pivot = kernels[channels, i, j]
    if not np.isfinite(kernels).all():
        return None
    column = kernels[channels, :, j] / np.where(pivot == 0, 1, pivot)[:, None]
    row = kernels[channels, i]
    error = np.abs(kernels - column[:, :, None] * row[:, None])
    within = [
        measure(error, axis=(1, 2)) <= TOLERANCE * measure(np.abs(kernels), axis=(1, 2))
        for measure in (np.max, np.sum)
    ]
    return (column, row) if np.all(within) else None


def _band(axis: Axis, length: int, taps: Floats) -> Floats:
    """[C, K] -> [C, O, L]; [O, L] where all channels have the same taps."""
    taps = taps[:1] if (taps == taps[0]).all() else taps
    tap = band_taps(axis, length).T
    band = np.where(tap < 0, 0, taps[:, tap])
    return band[0] if len(band) == 1 else band


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    weight, axes = node.weight, list(node.spec.axes())
    sizes = [n for n in node.sizes if n is not None]
    factors = _factors(weight) if isinstance(weight, ConstantOperand) else None
    assert factors is not None
    bands = [_band(*each) for each in zip(axes, sizes, factors, strict=True)]
    keys = [
        (weight.value, "band", n, *each) for n, each in enumerate(zip(axes, sizes, strict=True))
    ]
    rows = em.shared(keys[0], lambda: bands[0].astype(np.float32), "rows")
    columns = em.shared(keys[1], lambda: bands[1].swapaxes(-1, -2).astype(np.float32), "columns")
    y = em.op("MatMul", [rows, em.op("MatMul", [node.x, columns])])
    return y if node.bias is None else em.add(y, bias_column(em, node.bias, node.spec))


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    length, width = sizes
    rows, columns = spec.output_sizes(sizes)
    images = batch * spec.out_channels
    macs = images * columns * length * (width + rows)
    elements = images * (length * width + 2 * length * columns + rows * columns)
    return Work(macs, elements + _taps(spec, sizes))


SEPARABLE = Form(
    "separable",
    "a depthwise kernel that is a column times a row (bilinear), as two matrix products",
    _check,
    _emit,
    _work,
)
