"""Random geometries, sizes and tensors, for the benchmarks and for the kernels' tests."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from convt_onnx.errors import GeometryError
from convt_onnx.spec import ConvTransposeSpec


@dataclass(frozen=True, slots=True)
class Ranges:
    """What geometry is drawn from; likely values more than once.

    Attributes:
        axes: Number of spatial axes.
        kernel, stride: The most for one, two and three axes.
        dilations, groups: Of an axis, of the node.
        channels: Of a group, in and out.
    """

    axes: tuple[int, ...] = (1, 1, 2, 2, 2, 3)
    kernel: tuple[int, int, int] = (17, 6, 4)
    stride: tuple[int, int, int] = (9, 5, 3)
    dilations: tuple[int, ...] = (1, 1, 1, 2, 3, 4)
    groups: tuple[int, ...] = (1, 1, 1, 2, 3, 8)
    channels: tuple[tuple[int, ...], tuple[int, ...]] = (
        (1, 2, 3, 4, 8, 12, 16, 24, 32, 40, 64),
    ) * 2


LARGE = Ranges()
# Channels of which 16 bytes lie together, on two axes: what walks take.
WHOLE_WORDS = Ranges(axes=(2,), channels=((8, 16, 24, 32, 40, 64),) * 2)
# The same on one axis too, for walks over NCHW lines, and channels of walks along one axis alone.
FEW_PHASES = replace(WHOLE_WORDS, axes=(1, 2))
MANY_CHANNELS = replace(WHOLE_WORDS, axes=(1,), channels=((72, 80, 96, 112, 128),) * 2)
RANGES = (LARGE, LARGE, LARGE, WHOLE_WORDS)


def draw_spec(rng: random.Random, ranges: Ranges = LARGE) -> ConvTransposeSpec:
    """Geometry with any stride, dilation (gcd > 1 included), crop, output_padding and grouping."""
    n = rng.choice(ranges.axes)
    kernel = tuple(rng.randint(1, ranges.kernel[n - 1]) for _ in range(n))
    strides = tuple(rng.randint(1, ranges.stride[n - 1]) for _ in range(n))
    dilations = tuple(rng.choice(ranges.dilations) for _ in range(n))
    crops = [
        tuple(rng.randint(0, (k - 1) * d) for k, d in zip(kernel, dilations, strict=True))
        for _ in range(2)
    ]
    extra = tuple(rng.randint(0, max(s, d)) for s, d in zip(strides, dilations, strict=True))
    group = rng.choice(ranges.groups)
    inner, outer = map(rng.choice, ranges.channels)
    return ConvTransposeSpec(
        group * inner, group * outer, group, kernel, strides, dilations, *crops, extra
    )


def draw_whole_lines(rng: random.Random) -> ConvTransposeSpec:
    """Geometry whose output is as wide as the input times the stride: few-channel groups, or
    many channels with few phases of the width."""
    if rng.random() < 0.4:
        return draw_few_phases(rng, rng.choice((FEW_PHASES, FEW_PHASES, MANY_CHANNELS)))
    spec = draw_spec(rng)
    group, inner = rng.choice((1, 3, 8)), rng.choice((1, 1, 2, 4))
    kernel = (*(min(k, 4) for k in spec.kernel[:-1]), rng.randint(1, 8))
    channels = (group * inner, group * rng.choice((1, 1, 2)))
    spec = replace(spec, in_channels=channels[0], out_channels=channels[1], group=group)
    return as_wide(rng, replace(spec, kernel=kernel))


def draw_few_phases(rng: random.Random, ranges: Ranges = FEW_PHASES) -> ConvTransposeSpec:
    """Geometry of NCHW lines that a walk goes over: whole, few phases, many channels."""
    spec = draw_spec(rng, ranges)
    outer = spec.group * rng.choice((16, 32, 64))
    strides = (*spec.strides[:-1], rng.choice((2, 3)))
    return as_wide(rng, replace(spec, out_channels=outer, strides=strides))


def as_wide(rng: random.Random, spec: ConvTransposeSpec) -> ConvTransposeSpec:
    """The same with crops and output_padding by which widths are multiplied by the stride."""
    crop = (spec.kernel[-1] - 1) * spec.dilations[-1] + 1 - spec.strides[-1]
    begin = rng.randint(0, max(0, crop))
    most = [(k - 1) * d for k, d in zip(spec.kernel, spec.dilations, strict=True)]
    fronts = [min(p, m) for p, m in zip(spec.pads_begin, most, strict=True)]
    backs = [min(p, m) for p, m in zip(spec.pads_end, most, strict=True)]
    return replace(
        spec,
        pads_begin=(*fronts[:-1], begin),
        pads_end=(*backs[:-1], max(0, crop) - begin),
        output_padding=(*spec.output_padding[:-1], max(0, -crop)),
    )


def draw_sizes(rng: random.Random, spec: ConvTransposeSpec, word: int) -> tuple[int, ...]:
    """Spatial sizes whose output is not empty; the width is a multiple of `word`."""
    most = {1: 200, 2: 20, 3: 8}[spec.ndim]

    def draw(failed: int) -> tuple[int, ...]:
        largest = most + 2 * failed
        *front, width = (rng.choice((1, rng.randint(1, largest))) for _ in range(spec.ndim))
        # Odd sizes, and a width of whole words or not: few alignments to compile for.
        return (*(n | 1 for n in front), (width | 1) * word)

    return sizes_with_output(spec, draw)


def sizes_with_output(
    spec: ConvTransposeSpec, draw: Callable[[int], tuple[int, ...]]
) -> tuple[int, ...]:
    """The first sizes whose output is not empty; `draw` is told how many failed so far."""
    for failed in itertools.count():
        sizes = draw(failed)
        try:
            spec.output_sizes(sizes)
        except GeometryError:
            continue
        return sizes
    raise AssertionError


def draw_layout(rng: random.Random) -> str:
    """NCHW, channels-last or, rarely, NCHW with gaps between elements."""
    return rng.choice(("nchw", "nchw", "nhwc", "nhwc", "gaps"))


def draw_tensor(shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> torch.Tensor:
    """Random values in a layout of `draw_layout`."""
    if layout == "gaps":
        return torch.randn(*shape[:-1], shape[-1] * 2, device="cuda").to(dtype)[..., ::2]
    x = torch.randn(shape, device="cuda").to(dtype)
    return x if layout == "nchw" else x.movedim(1, -1).contiguous().movedim(-1, 1)
