"""What ONNX Runtime's CPU provider does for a Transpose, counted.

Where one axis moves past others, it depends on the elements that stay together behind them:

* four bytes: a matrix transposition for each index of the axes in front, each spread over threads,
  in squares of 4 x 4, an element at a time in what is left of rows and columns;
* eight bytes, a pair of floats: moved as one element;
* others: copied as a run.

Every other order computes an index for each run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

# Rows and columns of a square.
SQUARE = 4


def transpose_counts(shape: Sequence[int], perm: Sequence[int], itemsize: int) -> Counter[str]:
    """Counts of a Transpose of `shape`, elements of `itemsize` bytes."""
    # Axes of one row are where they are.
    axes = [a for a in perm if shape[a] > 1]
    order = [sorted(axes).index(a) for a in axes]
    sizes = [shape[a] for a in sorted(axes)]
    elements, run = prod(shape), 1
    while order and order[-1] == len(order) - 1:
        run *= sizes[order.pop()]
    if order and not _one_axis_moves(order):
        return Counter(transposed=elements, transposed_runs=elements // run)
    if order and run * itemsize == 4:
        return _matrices(order, sizes)
    if order and run * itemsize == 8:
        return Counter(moved_pairs=elements)
    return Counter(moved=elements, moved_runs=elements // run)


def _one_axis_moves(order: Sequence[int]) -> bool:
    """Whether the other axes stay in order."""
    return any(
        [a for a in order if a != moved] == [a for a in range(len(order)) if a != moved]
        for moved in order
    )


def _matrices(order: Sequence[int], sizes: Sequence[int]) -> Counter[str]:
    """The axis that moves is the matrix' rows where it goes last, its columns where it was last."""
    first = next(i for i, axis in enumerate(order) if axis != i)
    split = len(order) - 1 if order[first] == len(order) - 1 else first + 1
    rows, columns = prod(sizes[first:split]), prod(sizes[split : len(order)])
    times = prod(sizes[:first])
    squares = (rows - rows % SQUARE) * (columns - columns % SQUARE)
    return Counter(
        matrix_squares=times * squares,
        matrix_rest=times * (rows * columns - squares),
        matrices=times,
    )
