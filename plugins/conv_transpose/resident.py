"""Columns and shared memory of schedules that keep the weight in shared memory: pure functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from convt_onnx.plugins.conv_transpose.packing import Packing, tap_index

# Narrower tiles have no matrix instruction.
MIN_WIDTH = 16


@dataclass(frozen=True, slots=True)
class Parts:
    """Columns of one program: width and first column of each part, and the blocks that it has.

    Bit i of `blocks` says whether any phase of the part has a tap in weight block i, or in one of
    `joined` neighbouring ones.
    """

    widths: tuple[int, ...]
    firsts: tuple[int, ...]
    blocks: tuple[int, ...]
    joined: int = 1

    @property
    def constants(self) -> tuple[tuple[int, ...], ...]:
        """What the device code knows at compile time."""
        return self.widths, self.firsts, self.blocks

    def join(self, count: int) -> Parts:
        """The same columns with `count` neighbouring blocks as one."""
        steps = range(0, max(b.bit_length() for b in self.blocks), count)
        some = (1 << count) - 1
        blocks = (sum(1 << i // count for i in steps if b >> i & some) for b in self.blocks)
        return Parts(self.widths, self.firsts, tuple(blocks), count)


def part_widths(columns: int, block_n: int, column_tiles: int) -> tuple[int, ...]:
    """Parts of block_n columns, and a last one with a smaller power of two of them."""
    own = -(-columns // column_tiles)
    full, rest = divmod(own, block_n)
    last = (max(MIN_WIDTH, 1 << (rest - 1).bit_length()),) if rest else ()
    return (block_n,) * full + last


def parts_of(packing: Packing, block_n: int, column_tiles: int) -> Parts:
    """The parts of a packing whose tile_n is the sum of their widths."""
    widths = part_widths(packing.columns, block_n, column_tiles)
    firsts = tuple(sum(widths[:i]) for i in range(len(widths)))
    phases = _phase_of_column(packing)
    has = tap_index(packing).reshape(packing.blocks, -1) >= 0
    used = np.zeros((packing.blocks, packing.padded_columns), bool)
    used[:, : packing.columns] = has[:, phases]
    tiles = used.reshape(packing.blocks, -1, sum(widths))
    blocks = tuple(
        sum(1 << i for i in range(packing.blocks) if tiles[i, :, first : first + width].any())
        for width, first in zip(widths, firsts, strict=True)
    )
    return Parts(widths, firsts, blocks)


def weight_elements(packing: Packing, parts: Parts) -> int:
    """Elements of the weight that a program keeps."""
    blocks = sum(w * b.bit_count() for w, b in zip(parts.widths, parts.blocks, strict=True))
    return blocks * parts.joined * packing.rows


def _phase_of_column(packing: Packing) -> npt.NDArray[np.int64]:
    """Index of a column's phase among the phases of the packing, the width's padded."""
    n = np.arange(packing.columns)
    if not packing.interleave:
        return n // packing.out_per_group
    inner = packing.width_phases
    return n // (packing.out_per_group * inner) * inner + n % inner
