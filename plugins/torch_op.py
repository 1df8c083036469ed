"""The kernels as a torch operator, with torch.nn.functional's signatures.

    from convt_onnx.plugins.torch_op import conv_transpose2d
    y = conv_transpose2d(x, weight, bias, stride=2, padding=1, activation="relu")

On a CUDA device, without gradients and where `router.worth` says so, one Triton launch does all;
everywhere else ATen does. Wrong arguments raise what torch.nn.functional raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from convt_onnx.plugins.conv_transpose import op, router
from convt_onnx.plugins.conv_transpose.activations import Activation, make_activation
from convt_onnx.plugins.conv_transpose.arguments import (
    Geometry,
    IntOrInts,
    each,
    spec_of,
    valid,
)
from convt_onnx.plugins.conv_transpose.problem import DTYPE_BYTES
from convt_onnx.spec import ConvTransposeSpec

AsNode = Callable[[tuple[Tensor | None, ...], tuple[Any, ...], Activation], Tensor]
# One entry while an exporter traces; a list, since torch.compile does not read context variables.
_AS_NODE: list[AsNode] = []
_LIBRARY = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def _run(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    slope: torch.Tensor | None,
    residual: torch.Tensor | None,
    stride: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    activation: str,
    alpha: float,
    beta: float,
) -> torch.Tensor:
    spec = spec_of(weight, stride, pads_begin, pads_end, output_padding, dilation, groups)
    chosen = Activation(activation, alpha, beta)
    operands = (x, weight, bias, spec)
    if x.is_cuda and _worth(x, spec):
        return op.conv_transpose(*operands, activation=chosen, slope=slope, residual=residual)
    y = op.reference(*operands, activation=chosen, slope=slope, residual=residual)
    wanted = _empty_result(x, tuple(y.shape))
    return y if y.stride() == wanted.stride() else wanted.copy_(y)


def _fake(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    slope: Tensor | None,
    residual: Tensor | None,
    stride: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    activation: str,
    alpha: float,
    beta: float,
) -> Tensor:
    numbers = (stride, pads_begin, pads_end, output_padding, dilation, groups)
    return _empty_result(x, result_shape(x, weight, *numbers))


def result_shape(
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> tuple[int, ...]:
    """Shape of the result; sizes may be symbols."""
    sizes = [
        (x.shape[2 + i] - 1) * stride[i]
        + (weight.shape[2 + i] - 1) * dilation[i]
        + 1
        + output_padding[i]
        - pads_begin[i]
        - pads_end[i]
        for i in range(len(stride))
    ]
    return (x.shape[0], weight.shape[1] * groups, *sizes)


_operator = torch.library.custom_op("convt_onnx::conv_transpose", _run, mutates_args=())
_operator.register_fake(_fake)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: int = 1,
    dilation: IntOrInts = 1,
    *,
    padding_end: IntOrInts | None = None,
    activation: str | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    slope: Tensor | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """torch.nn.functional.conv_transpose1d, see `conv_transpose2d`."""
    geometry = (stride, padding, output_padding, groups, dilation, padding_end)
    chosen = make_activation(activation, alpha, beta)
    return _call(1, input, weight, bias, geometry, chosen, slope, residual)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: int = 1,
    dilation: IntOrInts = 1,
    *,
    padding_end: IntOrInts | None = None,
    activation: str | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    slope: Tensor | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """torch.nn.functional.conv_transpose2d with a fused epilogue.

    The result is activation(conv_transpose(input, weight) + bias + residual).

    Args:
        input: [N, C_in, H, W] or [C_in, H, W].
        weight: [C_in, C_out/groups, *kernel].
        bias: [C_out].
        stride: One value or one an axis; so the others.
        padding: Rows cropped at the front, and at the end unless `padding_end` says otherwise.
        output_padding: Rows added at the end.
        groups: Groups of channels.
        dilation: Distance of two taps.
        padding_end: Rows cropped at the end.
        activation: A name of `conv_transpose.activations.ACTIVATIONS`.
        alpha: Slope of leaky_relu, scale of elu, lower end of clip.
        beta: Upper end of clip.
        slope: [C_out] or [1], for prelu.
        residual: Of the result's shape.
    """
    geometry = (stride, padding, output_padding, groups, dilation, padding_end)
    chosen = make_activation(activation, alpha, beta)
    return _call(2, input, weight, bias, geometry, chosen, slope, residual)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: int = 1,
    dilation: IntOrInts = 1,
    *,
    padding_end: IntOrInts | None = None,
    activation: str | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    slope: Tensor | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """torch.nn.functional.conv_transpose3d, see `conv_transpose2d`."""
    geometry = (stride, padding, output_padding, groups, dilation, padding_end)
    chosen = make_activation(activation, alpha, beta)
    return _call(3, input, weight, bias, geometry, chosen, slope, residual)


@contextmanager
def replaced(model: nn.Module) -> Iterator[nn.Module]:
    """Every nn.ConvTranspose1d/2d/3d of `model` calls the functions above while inside."""
    kinds = {
        nn.ConvTranspose1d: conv_transpose1d,
        nn.ConvTranspose2d: conv_transpose2d,
        nn.ConvTranspose3d: conv_transpose3d,
    }
    changed = []
    try:
        for module in model.modules():
            if type(module) in kinds and "forward" not in module.__dict__:
                module.forward = partial(_module_forward, module, kinds[type(module)])
                changed.append(module)
        yield model
    finally:
        for module in changed:
            del module.forward


@contextmanager
def exported_as(node: AsNode) -> Iterator[None]:
    """Inside, each call is what `node(operands, numbers, activation)` returns: for exporters.

    `operands` are x, weight, bias, slope and residual; `numbers` stride, crops at the front and at
    the end, output padding, dilation and groups.
    """
    _AS_NODE.append(node)
    try:
        yield
    finally:
        _AS_NODE.pop()


def _call(
    ndim: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    geometry: Geometry,
    activation: Activation,
    slope: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    stride, padding, extra, groups, dilation, padding_end = geometry
    if not valid(ndim, x, weight, bias, geometry):  # let torch say what is wrong
        return _LIBRARY[ndim - 1](x, weight, bias, stride, padding, extra, groups, dilation)
    if x.dim() == ndim + 1:
        wide = None if residual is None else residual.unsqueeze(0)
        y = _call(ndim, x.unsqueeze(0), weight, bias, geometry, activation, slope, wide)
        return y.squeeze(0)
    if torch.is_autocast_enabled(x.device.type):
        kind = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(kind), weight.to(kind)
        bias = None if bias is None else bias.to(kind)
        residual = None if residual is None else residual.to(kind)
    begin = each(padding, ndim)
    end = begin if padding_end is None else each(padding_end, ndim)
    numbers = (each(stride, ndim), begin, end, each(extra, ndim), each(dilation, ndim), groups)
    operands = (x, weight, bias, slope, residual)
    if _AS_NODE:
        return _AS_NODE[-1](operands, numbers, activation)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in operands):
        spec = spec_of(weight, *numbers)
        return op.reference(
            x, weight, bias, spec, activation=activation, slope=slope, residual=residual
        )
    return _operator(*operands, *numbers, activation.kind, activation.alpha, activation.beta)


def _worth(x: Tensor, spec: ConvTransposeSpec) -> bool:
    if str(x.dtype).removeprefix("torch.") not in DTYPE_BYTES:
        return False
    return bool(router.worth(op.make_problem(x, spec), op.device_of(x)))


def _empty_result(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """An empty result in the layout of x, which both the kernels and the fallback keep."""
    if not op.is_channels_last(x):
        return x.new_empty(shape)
    return x.new_empty((shape[0], *shape[2:], shape[1])).movedim(-1, 1)


def _module_forward(
    module: nn.Module,
    function: Callable[..., Tensor],
    x: Tensor,
    output_size: list[int] | None = None,
) -> Tensor:
    m = module
    assert isinstance(m, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d))
    extra = m.output_padding
    if output_size is not None:
        sizes = (m.stride, m.padding, m.kernel_size, len(m.kernel_size), m.dilation)
        extra = m._output_padding(x, output_size, *sizes)
    return function(x, m.weight, m.bias, m.stride, m.padding, extra, m.groups, m.dilation)
