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


def cost_sizes(node: ConvTransposeNode) -> tuple[tuple[int, ...], bool]:
    """Spatial sizes to cost with, and whether any was assumed."""
    default = ASSUMED_SIZE.get(node.spec.ndim, 8)
    sizes = [default if n is None else n for n in node.sizes]
    for i, axis in enumerate(node.spec.axes()):
        if node.sizes[i] is None:
            sizes[i] = max(sizes[i], 2 + max(0, -axis.offset) // axis.stride)
    return tuple(sizes), None in node.sizes


def node_costs(node: ConvTransposeNode) -> Costs:
    """Costs at the sizes that the model fixes; the others are assumed."""
    sizes, assumed = cost_sizes(node)
    batch = 1 if node.batch is None else node.batch
    item = 4 if node.dtype is None else node.dtype.itemsize
    return costs_at(node.spec, batch, sizes, item, assumed=assumed or node.batch is None)


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
