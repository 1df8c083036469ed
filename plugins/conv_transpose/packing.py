"""The weight as the kernels read it: P[group, shift, C_in, phase, C_out], padded to tiles.

`shift` runs over the weight blocks of the three axes, `phase` over the phases that one program
computes (see `geometry`). With `interleave` the width's phases are the innermost columns, padded
to a power of two, so that a transposed tile holds whole output lines. With `k_major` the channels
in are the innermost axis, which is what TF32 matrix instructions read. With `flat` all
(shift, C_in) rows are packed without gaps and only their end is padded: right for few channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from convt_onnx.plugins.conv_transpose.geometry import AxisPlan

Index = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packing:
    """Layout of one packed weight; `tile_k` and `tile_n` are the multiples to pad to.

    A group here holds `merge` groups of the weight on its diagonal, and zeros beside them.
    """

    axes: tuple[AxisPlan, AxisPlan, AxisPlan]
    group: int
    in_per_group: int
    out_per_group: int
    tile_k: int
    tile_n: int
    flat: bool = False
    interleave: bool = False
    k_major: bool = False
    merge: int = 1

    @property
    def blocks(self) -> int:
        """Weight blocks of a group."""
        return prod(a.blocks for a in self.axes)

    @property
    def width_phases(self) -> int:
        """Columns that the width's phases take."""
        phases = self.axes[2].phases
        return 1 << (phases - 1).bit_length() if self.interleave else phases

    @property
    def columns(self) -> int:
        """(phase, C_out) columns before padding."""
        return self.axes[0].phases * self.axes[1].phases * self.width_phases * self.out_per_group

    @property
    def rows(self) -> int:
        """Padded rows of a block, or of a whole group where `flat`."""
        count = self.in_per_group * (self.blocks if self.flat else 1)
        return -(-count // self.tile_k) * self.tile_k

    @property
    def padded_columns(self) -> int:
        """Columns padded to tiles."""
        return -(-self.columns // self.tile_n) * self.tile_n

    @property
    def shape(self) -> tuple[int, ...]:
        """[group, blocks (1 where flat), rows, columns], the last two swapped where `k_major`."""
        tail = (self.rows, self.padded_columns)
        return (
            self.group,
            1 if self.flat else self.blocks,
            *(tail[::-1] if self.k_major else tail),
        )


@lru_cache(maxsize=64)
def gather_index(packing: Packing) -> Index:
    """Index into the flattened weight [C_in, C_out/group, *kernel] of each packed element.

    Padding and taps that a phase lacks are -1.
    """
    taps = tap_index(packing)
    g, ci, co = packing.group, packing.in_per_group, packing.out_per_group
    merge = packing.merge
    area = prod(a.kernel for a in packing.axes)
    own = (g * merge, ci // merge, co // merge)
    channel = np.arange(prod(own), dtype=np.int64).reshape(own) * area
    # [g, blocks d, h, w, C_in, phases d, h, w, C_out]
    index = channel[:, None, None, None, :, None, None, None, :] + taps[None, ..., None]
    index = np.where(taps[None, ..., None] < 0, -1, index)
    index = _on_diagonal(index, merge)
    if packing.interleave:
        index = index.swapaxes(-1, -2)
    return _padded(index.reshape(g, packing.blocks, ci, packing.columns), packing)


def tap_table(packing: Packing) -> Index:
    """Flat tap of each (weight block, phase), or -1: [blocks * phases], row-major d, h, w."""
    return np.ascontiguousarray(tap_index(packing).reshape(-1))


def pack(weight: npt.NDArray[np.generic], packing: Packing) -> npt.NDArray[np.generic]:
    """Weight [C_in, C_out/group, *kernel] as `packing.shape`, in NumPy."""
    flat = np.concatenate([weight.reshape(-1), np.zeros(1, weight.dtype)])
    packed: npt.NDArray[np.generic] = flat[gather_index(packing)]
    return packed


def unpack(packed: npt.NDArray[np.generic], packing: Packing) -> npt.NDArray[np.generic]:
    """The weight of a packed one: [C_in, C_out/group, *the kernel of the three axes]."""
    index = gather_index(packing).reshape(-1)
    kernel = tuple(a.kernel for a in packing.axes)
    channels = packing.group * packing.in_per_group, packing.out_per_group // packing.merge
    weight = np.empty(prod((*channels, *kernel)), packed.dtype)
    weight[index[index >= 0]] = packed.reshape(-1)[index >= 0]
    return weight.reshape(*channels, *kernel)


def tap_index(packing: Packing) -> Index:
    """Flat tap of [blocks d, h, w, 1, phases d, h, w], the width's phases padded; -1: none."""
    total = np.zeros((1,) * 7, np.int64)
    missing = np.zeros((1,) * 7, bool)
    for position, axis in enumerate(packing.axes):
        taps = _axis_taps(axis, packing.width_phases if position == 2 else axis.phases)
        shape = [1] * 7
        shape[position], shape[4 + position] = taps.shape
        missing = missing | (taps.reshape(shape) < 0)
        total = total * axis.kernel + taps.reshape(shape)
    return np.where(missing, -1, total)


def _axis_taps(axis: AxisPlan, phases: int) -> Index:
    """Tap of each (block, phase) of one axis, or -1; phases beyond the stride have none."""
    if not axis.fused:
        return np.arange(axis.kernel, dtype=np.int64)[:, None]
    taps = np.full((axis.blocks, phases), -1, np.int64)
    for block in range(axis.blocks):
        taps[block, : axis.phases] = [axis.tap(block, phase) for phase in range(axis.phases)]
    return taps


def _on_diagonal(index: Index, merge: int) -> Index:
    """[g, blocks, C_in, phases, C_out] of `merge` groups in one; -1 between different groups."""
    if merge == 1:
        return index
    groups, *blocks, ci, pd, ph, pw, co = index.shape
    shape = (groups // merge, *blocks, merge, ci, pd, ph, pw, merge, co)
    merged = np.full(shape, -1, np.int64)
    for i in range(merge):
        merged[:, :, :, :, i, :, :, :, :, i] = index[i::merge]
    return merged.reshape(groups // merge, *blocks, merge * ci, pd, ph, pw, merge * co)


def _padded(index: Index, packing: Packing) -> Index:
    if packing.flat:
        index = index.reshape(packing.group, 1, -1, packing.columns)
    rows = packing.rows - index.shape[2]
    columns = packing.padded_columns - packing.columns
    index = np.pad(index, ((0, 0), (0, 0), (0, rows), (0, columns)), constant_values=-1)
    return np.ascontiguousarray(index.swapaxes(2, 3)) if packing.k_major else index
