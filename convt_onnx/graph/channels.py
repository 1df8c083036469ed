"""Constants that hold one value for each channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


def per_channel(
    array: npt.NDArray[Any], start: int, rank: int, channels: int, axis: int = 1
) -> Vector | None:
    """One value a channel, where the array broadcasts along one axis alone and adds no axis.

    Args:
        array: The constant.
        start: Which axis of the other tensor its first axis is aligned with; may be negative.
        rank: Number of axes of the other tensor.
        channels: Size of its channel axis. Nothing is assumed of the others.
        axis: The channel axis.
    """
    behind = rank - start - array.ndim
    if start < 0 or behind < 0:
        return None
    sizes = [*[1] * start, *array.shape, *[1] * behind]
    own = sizes.pop(axis)
    if own not in (1, channels) or any(n != 1 for n in sizes):
        return None
    return np.broadcast_to(array.astype(np.float64).ravel(), (channels,)).copy()
