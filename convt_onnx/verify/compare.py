"""How far two tensors are apart, and how far they may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# A runtime's sigmoid or tanh is exact to some units in the last place of 1, not of its result.
FLOOR = 5e-7
# An output that is nowhere larger than this passes whatever happens before it.
PROVES_LITTLE = 1e-4
# Elements that are in float64 at once: of a large output five whole copies would be.
CHUNK = 1 << 20
# Ends the name of an output that was compared in the model's own type besides.
OWN_TYPE = "(own type)"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|a - b| <= atol + rtol * |b| for all but a `share` of the elements.

    Where `atol` is None it is `relative_atol` times the tensor's largest magnitude, but at least
    FLOOR.
    """

    atol: float | None = None
    rtol: float = 1e-4
    relative_atol: float = 1e-4
    share: float = 0.0

    def absolute(self, scale: float) -> float:
        """The absolute part for a tensor of that scale."""
        return max(self.relative_atol * scale, FLOOR) if self.atol is None else self.atol


# In place of an allowance of zero: no quotient overflows.
TINY = 1e-200
# float16 rounds to 1e-3 in every layer, and each side rounds in its own places.
HALF = Tolerance(relative_atol=0.02, rtol=0.02, share=0.001)
# A model that quantises inside rounds a last-bit difference up to a whole step, 1/127 of the scale,
# and the layers behind pass it on: end to end only the size of the results can be compared. What
# proves such a rewrite is the check of each node against the oracle.
QUANTISED = Tolerance(relative_atol=1 / 16, share=0.001)


# Steps of a narrow float that a rewritten model may be apart from the original: every weight that
# something is folded into is rounded once more. Five such layers were seen one step apart, three
# with weight_norm in front of a steep tanh twelve.
FOLDED_STEPS = 16


def folded_in(step: float) -> Tolerance:
    """For weights and biases that are rounded to floats of that relative `step` when folded."""
    share = FOLDED_STEPS * step
    return Tolerance(rtol=max(1e-4, share), relative_atol=max(1e-4, share))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pair of tensors. `index` is where the difference is largest, `excess` is the largest
    |a - b| / (atol + rtol * |b|): at most 1 where all is well, and `allowed` the denominator there,
    0 where nothing could be compared. `scale` is the reference's largest
    magnitude, NaN where it holds no numbers.
    """

    name: str
    ok: bool
    max_abs: float
    max_rel: float
    scale: float
    excess: float
    index: tuple[int, ...]
    beyond: float
    note: str = ""
    allowed: float = 0.0


@dataclass(slots=True)
class _Worst:
    """Of the pieces so far: `at` is the place in row-major order, `beyond` counts elements."""

    max_abs: float = 0.0
    excess: float = -1.0
    at: int = 0
    allowed: float = 0.0
    beyond: int = 0


def compare(
    name: str, got: npt.NDArray[Any] | None, wanted: npt.NDArray[Any] | None, tolerance: Tolerance
) -> Comparison:
    """Compare a result with its reference; NaN and infinity must be in the same places."""
    if got is None or wanted is None:
        note = "missing" if got is None else "not in the original"
        return Comparison(name, False, np.inf, np.inf, 0.0, np.inf, (), 1.0, note)
    if got.shape != wanted.shape:
        note = f"shape {list(got.shape)}, expected {list(wanted.shape)}"
        return Comparison(name, False, np.inf, np.inf, 0.0, np.inf, (), 1.0, note)
    if not np.issubdtype(wanted.dtype, np.number) or wanted.size == 0:
        same = bool(np.array_equal(got, wanted))
        note = "" if same else "differs"
        return Comparison(name, same, 0.0, 0.0, np.nan, 0.0, (), 0.0, note)
    got, wanted = np.ascontiguousarray(got), np.ascontiguousarray(wanted)
    scale = _scale(got, wanted)
    if scale is None:
        return Comparison(name, False, np.inf, np.inf, 0.0, np.inf, (), 1.0, "NaN or infinity")
    worst = _worst(got, wanted, tolerance, scale)
    beyond = worst.beyond / wanted.size
    index = np.unravel_index(worst.at, wanted.shape)
    return Comparison(
        name=name,
        ok=beyond <= tolerance.share,
        max_abs=worst.max_abs,
        max_rel=worst.max_abs / scale if scale else 0.0,
        scale=scale,
        excess=worst.excess,
        index=tuple(int(i) for i in index),
        beyond=beyond,
        allowed=worst.allowed,
    )


def _chunks(got: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> Iterator[tuple[int, Array, Array]]:
    """Both in float64, piece by piece in row-major order, and where each piece starts."""
    a, b = got.reshape(-1), wanted.reshape(-1)
    for start in range(0, b.size, CHUNK):
        piece = slice(start, start + CHUNK)
        yield start, a[piece].astype(np.float64), b[piece].astype(np.float64)


def _scale(got: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> float | None:
    """The reference's largest magnitude; None where what is not finite differs."""
    scale = 0.0
    for _, a, b in _chunks(got, wanted):
        finite = np.isfinite(b)
        same = np.array_equal(a[~finite], b[~finite], equal_nan=True)
        if not same or not np.isfinite(a[finite]).all():
            return None
        scale = max(scale, float(np.abs(b[finite]).max(initial=0.0)))
    return scale


def _worst(
    got: npt.NDArray[Any], wanted: npt.NDArray[Any], tolerance: Tolerance, scale: float
) -> _Worst:
    """The first of the largest excesses, over all pieces."""
    worst = _Worst()
    for start, a, b in _chunks(got, wanted):
        finite = np.isfinite(b)
        difference = np.zeros_like(b)
        difference[finite] = np.abs(a[finite] - b[finite])
        allowed = tolerance.absolute(scale) + tolerance.rtol * np.abs(np.where(finite, b, 0.0))
        ratio = difference / np.maximum(allowed, TINY)
        i = int(ratio.argmax())
        if ratio[i] > worst.excess:
            worst.excess, worst.at, worst.allowed = float(ratio[i]), start + i, float(allowed[i])
        worst.max_abs = max(worst.max_abs, float(difference.max()))
        worst.beyond += int((ratio > 1).sum())
    return worst
