"""The numbers that a kernel takes, by the names of its parameters, as formulas of the sizes."""

from __future__ import annotations

from math import prod

from convt_onnx.plugins.conv_transpose.formula import Formula
from convt_onnx.plugins.conv_transpose.geometry import AxisPlan, lifted_axes
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.schedule import Schedule, axis_plans, program_count
from convt_onnx.spec import Axis

Three = tuple[Formula, Formula, Formula]


def quantities(kernel: KernelSpec, schedule: Schedule) -> dict[str, Formula]:
    """Value of every number a kernel may take.

    in_*, out_*: spatial sizes of x and y; q_*: rows q of an axis (see `geometry`); rows: all of
    them, batch included; x_*, y_*: element strides of [N, C, D, H, W].
    """
    batch, ins = input_sizes(kernel)
    outs = output_sizes(kernel)
    plans = axis_plans(kernel.problem, schedule)
    axes = lifted_axes(kernel.spec)
    depth, height, width = (_rows(n, a, p) for n, a, p in zip(ins, axes, plans, strict=True))
    found = {"rows": batch * depth * height * width}
    spatial = {"in": ins, "out": outs, "q": (depth, height, width)}
    for prefix, three in spatial.items():
        found |= {f"{prefix}_{name}": v for name, v in zip("dhw", three, strict=True)}
    x = strides(ins, kernel.spec.in_channels, kernel.channels_last_in)
    y = strides(outs, kernel.spec.out_channels, kernel.channels_last_out)
    for prefix, values in (("x", x), ("y", y)):
        found |= {f"{prefix}_{name}": v for name, v in zip("ncdhw", values, strict=True)}
    return found


def input_sizes(kernel: KernelSpec) -> tuple[Formula, Three]:
    """Batch, and depth, height and width of x."""
    batch, *spatial = kernel.sizes
    lifted: list[int | None] = [*(1,) * (3 - len(spatial)), *spatial]
    depth, height, width = (_size(*pair) for pair in zip("dhw", lifted, strict=True))
    return _size("n", batch), (depth, height, width)


def output_sizes(kernel: KernelSpec) -> Three:
    """Depth, height and width of y."""
    axes = zip(input_sizes(kernel)[1], lifted_axes(kernel.spec), strict=True)
    depth, height, width = (n * a.stride + (a.offset - a.stride) for n, a in axes)
    return depth, height, width


def grid(kernel: KernelSpec, schedule: Schedule) -> Formula:
    """Programs of one launch."""
    rows = quantities(kernel, schedule)["rows"]
    problem = kernel.problem
    plans = axis_plans(problem, schedule)
    count = problem.batch * prod(p.rows(o) for p, o in zip(plans, problem.out_sizes, strict=True))
    tile = schedule.block_m
    per_tile = program_count(problem, schedule) // -(-count // tile)
    return (rows + (tile - 1)) // tile * per_tile


def strides(sizes: Three, channels: int, channels_last: bool) -> tuple[Formula, ...]:
    """Element strides of a contiguous [N, C, D, H, W]."""
    depth, height, width = sizes
    one = Formula.number(1)
    if channels_last:
        line = width * channels
        return depth * height * line, one, height * line, line, Formula.number(channels)
    plane = height * width
    return depth * plane * channels, depth * plane, plane, width, one


def _size(name: str, value: int | None) -> Formula:
    return Formula.size(name) if value is None else Formula.number(value)


def _rows(size: Formula, axis: Axis, plan: AxisPlan) -> Formula:
    """ceil((output length + crop) / stride): the length is stride * size and a constant."""
    return size - (axis.stride - axis.offset - plan.crop) // axis.stride
