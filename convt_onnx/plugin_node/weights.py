"""Packing and unpacking of a weight by standard operators.

The steps are those of `plugins.conv_transpose.packing`, with one small Gather over taps between
Reshapes and Transposes, so that no index as large as the weight is stored.
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter
from convt_onnx.plugins.conv_transpose.packing import Packing, tap_table


def pack_by_nodes(em: Emitter, weight: ir.Value, packing: Packing) -> ir.Value:
    """[C_in, C_out/group, *kernel] -> `packing.shape`."""
    g, ci, co = packing.group, packing.in_per_group, packing.out_per_group
    taps = prod(a.kernel for a in packing.axes)
    table = tap_table(packing)
    value = em.reshape(weight, [g, ci, co, taps])
    if (table < 0).any():
        value = em.pad(value, [0, 0, 0, 0], [0, 0, 0, 1])
        table = np.where(table < 0, taps, table)
    value = em.op("Gather", [value, em.constant(table, "taps")], axis=3)
    value = em.reshape(value, [g, ci, co, packing.blocks, _planes(packing), packing.width_phases])
    back = [3, 1, 4, 2, 5] if packing.interleave else [3, 1, 4, 5, 2]
    value = em.transpose(value, [0, *back])
    if packing.flat:
        value = em.reshape(value, [g, 1, packing.blocks * ci, packing.columns])
    else:
        value = em.reshape(value, [g, packing.blocks, ci, packing.columns])
    rows, columns = _unpadded(packing)
    more = [0, 0, packing.rows - rows, packing.padded_columns - columns]
    value = em.pad(value, [0, 0, 0, 0], more)
    return em.transpose(value, [0, 1, 3, 2]) if packing.k_major else value


def unpack_by_nodes(em: Emitter, packed: ir.Value, packing: Packing) -> ir.Value:
    """`packing.shape` -> [C_in, C_out/group, *kernel], without the axes that were lifted."""
    g, ci, co = packing.group, packing.in_per_group, packing.out_per_group
    value = em.transpose(packed, [0, 1, 3, 2]) if packing.k_major else packed
    rows, columns = _unpadded(packing)
    if (rows, columns) != (packing.rows, packing.padded_columns):
        value = em.slice(value, [2, 3], [0, 0], [rows, columns])
    width = packing.width_phases
    inner = [co, width] if packing.interleave else [width, co]
    value = em.reshape(value, [g, packing.blocks, ci, _planes(packing), *inner])
    forth = [2, 4, 1, 3, 5] if packing.interleave else [2, 5, 1, 3, 4]
    value = em.transpose(value, [0, *forth])
    value = em.reshape(value, [g * ci, co, packing.blocks * _planes(packing) * width])
    return em.op("Gather", [value, em.constant(tap_positions(packing), "taps")], axis=2)


def tap_positions(packing: Packing) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where each flat tap stands in `tap_table`."""
    table = tap_table(packing)
    places = np.flatnonzero(table >= 0)
    return places[np.argsort(table[places])].astype(np.int64)


def _planes(packing: Packing) -> int:
    return packing.axes[0].phases * packing.axes[1].phases


def _unpadded(packing: Packing) -> tuple[int, int]:
    rows = packing.in_per_group * (packing.blocks if packing.flat else 1)
    return rows, packing.columns
