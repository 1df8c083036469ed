"""What one call of a node costs: FLOPs and bytes, from its geometry alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from convt_onnx.forms import FORMS
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.spec import ConvTransposeSpec

ASSUMED_SIZE = {1: 200, 2: 40, 3: 16}


@dataclass(frozen=True, slots=True)
class Costs:
    """For one call at `sizes`. FLOPs are two a multiply-add; bytes count x, weight and y once.

    `flops_exact` leaves out cropped rows, `flops_native` is what a GEMM with col2im does.
    """

    batch: int
    sizes: tuple[int, ...]
    assumed: bool
    flops_exact: int
    flops_native: int
    bytes: int


def cost_shape(node: ConvTransposeNode) -> tuple[tuple[int, ...], bool]:
    """Shape of x to cost with, and whether any size was assumed.

    A size is the model's, else what the user's inputs or likely ones make of it, else assumed.
    """
    known = [node.batch, *node.sizes]
    likely = node.usual_assumed and None in known
    if node.usual is not None:
        usual = (node.usual[0], *node.usual[2:])
        known = [u if n is None else n for n, u in zip(known, usual, strict=True)]
    default = ASSUMED_SIZE.get(node.spec.ndim, 8)
    least = [2 + max(0, -axis.offset) // axis.stride for axis in node.spec.axes()]
    batch, *sizes = (
        fallback if n is None else n
        for n, fallback in zip(known, (1, *(max(default, m) for m in least)), strict=True)
    )
    return (batch, node.spec.in_channels, *sizes), likely or None in known


def node_costs(node: ConvTransposeNode) -> Costs:
    """Costs at the sizes that the model or the user fixes; the others are assumed."""
    (batch, _, *sizes), assumed = cost_shape(node)
    item = 4 if node.dtype is None else node.dtype.itemsize
    return costs_at(node.spec, batch, sizes, item, assumed=assumed)


def costs_at(
    spec: ConvTransposeSpec,
    batch: int,
    sizes: Sequence[int],
    item_bytes: float,
    *,
    assumed: bool = False,
) -> Costs:
    """Costs of one call for a batch of `sizes`, with elements of `item_bytes`."""
    elements = (
        batch * spec.in_channels * prod(sizes)
        + prod(spec.weight_shape)
        + batch * spec.out_channels * prod(spec.output_sizes(sizes))
    )
    return Costs(
        batch=batch,
        sizes=tuple(sizes),
        assumed=assumed,
        flops_exact=2 * spec.macs_exact(batch, sizes),
        flops_native=2 * FORMS["keep"].work(spec, batch, sizes).macs,
        bytes=int(item_bytes * elements),
    )


def item_bytes(dtype: str | None) -> float:
    """Bytes of one element of a type as ONNX names it; those of a float where it is unknown."""
    return 4 if dtype is None else ir.DataType[dtype].itemsize
