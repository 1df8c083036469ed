"""The host function of the kernels, and the same operation in plain torch beside it."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from convt_onnx.errors import UsageError
from convt_onnx.plugins.conv_transpose import launch, tuned
from convt_onnx.plugins.conv_transpose.activations import NONE, Activation, apply_reference
from convt_onnx.plugins.conv_transpose.problem import DTYPE_BYTES, Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import UNPACKED, Schedule, packing_of
from convt_onnx.plugins.conv_transpose.weights import packed_weight
from convt_onnx.spec import ConvTransposeSpec

if TYPE_CHECKING:
    import torch


def conv_transpose(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    spec: ConvTransposeSpec,
    *,
    activation: Activation = NONE,
    slope: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    channels_last: bool | None = None,
    tf32: bool | None = None,
    schedule: Schedule | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """activation(conv_transpose(x, weight) + bias + residual) in one launch.

    Args:
        x: [N, C_in, *sizes], float16, bfloat16 or float32, any strides.
        weight: [C_in, C_out/group, *kernel], packed on first use and kept while it lives.
        bias: [C_out] or None.
        spec: Geometry, one to three spatial axes.
        activation: Applied to the float32 sum.
        slope: [C_out] or [1], for "prelu".
        residual: Of the result's shape.
        channels_last: Layout of the result; None: the layout of x.
        tf32: float32 products as TF32; None: as torch.backends.cudnn.allow_tf32 says.
        schedule: None: what `autotune` measured, else `heuristics.choose`.
        out: Tensor to write, of the result's shape and layout.

    Returns:
        [N, C_out, *output sizes], of x's dtype.

    Raises:
        UsageError: A dtype or a shape does not fit.
        GeometryError: The output would be empty.
    """
    problem = make_problem(x, spec, channels_last=channels_last, tf32=tf32)
    _check_operands(problem, x, weight, bias, slope, residual, activation)
    y = empty_result(x, problem) if out is None else out
    if y.numel() == 0:
        return y
    chosen = schedule or tuned.choose(problem, device_of(x))
    run = problem.merged(chosen.merge)
    call = launch.Call(run, chosen, activation)
    read = _as_read(weight, run, chosen)
    launch.launch(call, x, read, bias, _slopes(slope, spec), _same_layout(residual, y), y)
    return y


def _as_read(weight: torch.Tensor, run: Problem, schedule: Schedule) -> torch.Tensor:
    """The weight as the schedule's kernel reads it."""
    if schedule.kind in UNPACKED:
        return weight.contiguous()
    round_to_tf32 = run.dtype == "float32" and run.tf32
    return packed_weight(weight, packing_of(run, schedule), round_to_tf32)


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    spec: ConvTransposeSpec,
    *,
    activation: Activation = NONE,
    slope: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """The same operation by ATen; differentiable."""
    y = _sums(x, weight, spec)
    if bias is not None:
        y = y + bias.to(y.dtype).reshape(-1, *(1,) * spec.ndim)
    if residual is not None:
        y = y + residual
    return apply_reference(y, activation, slope)


def _sums(x: torch.Tensor, weight: torch.Tensor, spec: ConvTransposeSpec) -> torch.Tensor:
    """conv_transpose(x, weight) by ATen.

    ATen crops both ends alike and refuses output_padding beyond stride and dilation, so the
    natural size is computed where the spec goes further, and cut or extended with zeros.
    """
    import torch
    import torch.nn.functional as F

    axes = tuple(spec.axes())
    lengths = spec.output_sizes(tuple(x.shape[2:]))
    common = tuple(max(0, min(a.begin, a.end)) for a in axes)
    y = torch.ops.aten.convolution(
        x,
        weight,
        None,
        spec.strides,
        common,
        spec.dilations,
        True,
        [0] * spec.ndim,
        spec.group,
    )
    pads: list[int] = []
    for axis, cut, length in reversed(list(zip(axes, common, lengths, strict=True))):
        size = y.shape[2 + len(axes) - 1 - len(pads) // 2]
        front = cut - axis.begin
        pads += [front, length - size - front]
    return F.pad(y, pads) if any(pads) else y


def make_problem(
    x: torch.Tensor,
    spec: ConvTransposeSpec,
    *,
    channels_last: bool | None = None,
    tf32: bool | None = None,
) -> Problem:
    """What the schedule depends on, read off the tensors."""
    import torch

    if spec.ndim not in (1, 2, 3):
        raise UsageError(
            "the kernels take one to three spatial axes",
            where=f"{spec.ndim} axes",
            help="fold axes of kernel 1 and stride 1 into the batch",
        )
    dtype = str(x.dtype).removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise UsageError(
            "the kernels do not compute in this type",
            where=f"x is {dtype}",
            help="use " + ", ".join(DTYPE_BYTES),
        )
    last = is_channels_last(x)
    out_last = last if channels_last is None else channels_last
    if tf32 is None:
        tf32 = bool(torch.backends.cudnn.allow_tf32)
    return Problem(
        spec.canonical(),
        x.shape[0],
        tuple(x.shape[2:]),
        dtype,
        channels_last_in=last,
        # With one channel both layouts are the same, and phases are neighbours in memory.
        channels_last_out=out_last or spec.out_channels == 1,
        tf32=tf32 and dtype == "float32",
    )


def is_channels_last(x: torch.Tensor) -> bool:
    """Whether the channel axis is the one with stride 1."""
    return bool(x.shape[1] > 1 and x.stride(1) == 1 and prod(x.shape[2:]) > 1)


def device_of(x: torch.Tensor) -> Device:
    """The device of a tensor; a default one on the CPU (Triton's interpreter)."""
    return _cuda_device(x.device.index or 0) if x.is_cuda else Device()


@lru_cache(maxsize=16)
def _cuda_device(index: int) -> Device:
    import torch

    p: Any = torch.cuda.get_device_properties(index)
    shared = getattr(p, "shared_memory_per_block_optin", 99 * 1024)
    return Device(p.name, p.major * 10 + p.minor, p.multi_processor_count, shared)


def empty_result(x: torch.Tensor, problem: Problem) -> torch.Tensor:
    """An empty y in the layout that the problem asks for."""
    spec = problem.spec
    sizes = spec.output_sizes(problem.sizes)
    if not problem.channels_last_out:
        return x.new_empty((problem.batch, spec.out_channels, *sizes))
    y = x.new_empty((problem.batch, *sizes, spec.out_channels))
    return y.movedim(-1, 1)


def _same_layout(residual: torch.Tensor | None, y: torch.Tensor) -> torch.Tensor | None:
    """The residual with y's strides and an alignment that vector loads can rely on."""
    if residual is None or (residual.stride() == y.stride() and residual.data_ptr() % 16 == 0):
        return residual
    import torch

    return torch.empty_strided(y.shape, y.stride(), dtype=y.dtype, device=y.device).copy_(residual)


def _slopes(slope: torch.Tensor | None, spec: ConvTransposeSpec) -> torch.Tensor | None:
    return None if slope is None else slope.expand(spec.out_channels).contiguous()


def _check_operands(
    problem: Problem,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    slope: torch.Tensor | None,
    residual: torch.Tensor | None,
    activation: Activation,
) -> None:
    spec = problem.spec
    sizes = (problem.batch, spec.out_channels, *spec.output_sizes(problem.sizes))
    wanted: list[tuple[str, torch.Tensor | None, tuple[tuple[int, ...], ...]]] = [
        ("x", x, ((problem.batch, spec.in_channels, *problem.sizes),)),
        ("weight", weight, (spec.weight_shape,)),
        ("bias", bias, ((spec.out_channels,),)),
        ("slope", slope, ((spec.out_channels,), (1,))),
        ("residual", residual, (sizes,)),
    ]
    for name, tensor, shapes in wanted:
        if tensor is not None and tuple(tensor.shape) not in shapes:
            raise UsageError(
                f"{name} has the wrong shape",
                where=f"{list(tensor.shape)}, expected {list(shapes[0])}",
                help="x is [N, C_in, *sizes], the weight [C_in, C_out/group, *kernel]",
            )
    for name, tensor in (("weight", weight), ("residual", residual)):
        if tensor is not None and tensor.dtype != x.dtype:
            raise UsageError(
                f"{name} must have the type of x",
                where=f"{tensor.dtype}, {x.dtype}",
                help=f"{name}.to(x.dtype)",
            )
    if (activation.kind == "prelu") != (slope is not None):
        raise UsageError(
            "slope and the activation prelu go together",
            where=f"activation {activation.kind}, slope {'absent' if slope is None else 'given'}",
            help="give both, or neither",
        )
