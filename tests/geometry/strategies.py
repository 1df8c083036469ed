"""Hypothesis strategies for axes, specs and raw nodes, and the arrays that go with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from convt_onnx.padding import AUTO_PADS, Attributes
from convt_onnx.spec import Axis, ConvTransposeSpec

BATCH = 2


@dataclass(frozen=True)
class Case:
    """A spec with input sizes that give a non-empty output, and a seed for its values."""

    spec: ConvTransposeSpec
    sizes: tuple[int, ...]
    seed: int

    def arrays(self, dtype=np.float64):
        """Input, weight and bias; no two values alike."""
        spec = self.spec
        return values(self.seed, (BATCH, spec.in_channels, *self.sizes), spec, dtype)


@dataclass(frozen=True)
class Node:
    """A ConvTranspose node as a file may hold it, legal or not."""

    attributes: Attributes
    weight_shape: tuple[int, ...]
    sizes: tuple[int, ...]
    seed: int = 0

    def arrays(self):
        """Input, weight and bias in float32."""
        rng = np.random.default_rng(self.seed)
        shapes = (
            (BATCH, self.weight_shape[0], *self.sizes),
            self.weight_shape,
            (self.weight_shape[1] * max(self.attributes.group, 1),),
        )
        return tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)


def values(seed, x_shape, spec, dtype):
    rng = np.random.default_rng(seed)
    shapes = (x_shape, spec.weight_shape, (spec.out_channels,))
    return tuple(rng.standard_normal(s).astype(dtype) for s in shapes)


def smallest_length(axis):
    """Fewest input rows that give an output row."""
    return max(1, 1 + -((axis.offset - 1) // axis.stride))


seeds = st.integers(0, 2**32 - 1)


@st.composite
def axes(draw, crops=12):
    """Kernels below the stride, gcd(s, d) > 1, crops of either sign and beyond the kernel."""
    return Axis(
        kernel=draw(st.integers(1, 6)),
        stride=draw(st.integers(1, 6)),
        dilation=draw(st.sampled_from((1, 1, 2, 3, 4, 6))),
        begin=draw(st.integers(-crops, crops)),
        end=draw(st.integers(-crops, crops)),
    )


@st.composite
def channels(draw):
    """(C_in, C_out, group), with the two group sizes drawn apart; depthwise now and then."""
    group = draw(st.sampled_from((1, 1, 2, 3)))
    return group * draw(st.integers(1, 3)), group * draw(st.integers(1, 3)), group


@st.composite
def cases(draw, ndim=None, crops=4, longest=3, legal=False):
    """Any spec the constructor takes, or only what ONNX Runtime runs.

    The rest are negative crops, and output_padding of a stride and more.
    """
    n = ndim or draw(st.integers(1, 3))
    c_in, c_out, group = draw(channels())

    def column(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(n))

    strides = column(1, 4 if n < 3 else 3)
    padding = column(0, 3)
    if legal:
        padding = tuple(min(p, s - 1) for p, s in zip(padding, strides, strict=True))
    spec = ConvTransposeSpec(
        in_channels=c_in,
        out_channels=c_out,
        group=group,
        kernel=column(1, 4 if n < 3 else 3),
        strides=strides,
        dilations=column(1, 3),
        pads_begin=column(0 if legal else -crops, crops),
        pads_end=column(0 if legal else -crops, crops),
        output_padding=padding,
    )
    sizes = tuple(smallest_length(a) + draw(st.integers(0, longest)) for a in spec.axes())
    return Case(spec, sizes, draw(seeds))


@st.composite
def nodes(draw):
    """Raw attributes, with the crop given in each way that ONNX has; ONNX Runtime may refuse."""
    n = draw(st.integers(1, 3))
    c_in, c_out, group = draw(channels())

    def column(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(n))

    sizes, kernel, strides, dilations = column(1, 4), column(1, 4), column(1, 4), column(1, 3)
    padding = column(0, 3) if draw(st.booleans()) else None
    if padding and draw(st.booleans()):
        padding = tuple(min(p, s - 1) for p, s in zip(padding, strides, strict=True))
    way = draw(st.sampled_from(("pads", "auto_pad", "output_shape")))
    pads = output_shape = None
    auto_pad = draw(st.sampled_from(AUTO_PADS)) if way != "pads" else "NOTSET"
    if way == "pads":
        pads = column(0, 3) + column(0, 3)
    if way == "output_shape":
        output_shape = tuple(
            (m - 1) * s + (k - 1) * d + 1 + draw(st.integers(-5, 4))
            for m, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)
        )
    attributes = Attributes(
        kernel_shape=kernel if draw(st.booleans()) else None,
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=padding,
        output_shape=output_shape,
        auto_pad=auto_pad,
        group=group,
    )
    return Node(attributes, (c_in, c_out // group, *kernel), sizes, draw(seeds))


@st.composite
def broken_nodes(draw):
    """Attributes of any length and sign, mostly senseless."""
    n = draw(st.integers(1, 2))

    def some(low, high):
        lengths = st.sampled_from((n, n, n, 2 * n, n + 2, 0, 1, 3))
        values = st.lists(st.integers(low, high), min_size=(k := draw(lengths)), max_size=k)
        return tuple(draw(values)) if draw(st.booleans()) else None

    attributes = Attributes(
        kernel_shape=some(1, 3),
        strides=some(-1, 3),
        dilations=some(-1, 3),
        pads=some(-2, 9),
        output_padding=some(-1, 4),
        output_shape=some(-2, 9),
        auto_pad=draw(st.sampled_from((*AUTO_PADS, "NOTSET", "NOTSET", "", "SAME"))),
        group=draw(st.sampled_from((1, 1, 1, 2, 0, -1))),
    )
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(n))
    sizes = tuple(draw(st.integers(0, 3)) for _ in range(n))
    return Node(attributes, (draw(st.integers(1, 4)), 2, *kernel), sizes, draw(seeds))
