"""How far two tensors are apart, and how far they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# A runtime's sigmoid or tanh is exact to some units in the last place of 1, not of its result.
FLOOR = 5e-7
# An output that is nowhere larger than this passes whatever happens before it.
PROVES_LITTLE = 1e-4


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
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    if (
        not np.array_equal(a[~finite], b[~finite], equal_nan=True)
        or not np.isfinite(a[finite]).all()
    ):
        return Comparison(name, False, np.inf, np.inf, 0.0, np.inf, (), 1.0, "NaN or infinity")
    scale = float(np.abs(b[finite]).max(initial=0.0))
    difference = np.zeros_like(b)
    difference[finite] = np.abs(a[finite] - b[finite])
    allowed = tolerance.absolute(scale) + tolerance.rtol * np.abs(np.where(finite, b, 0.0))
    ratio = difference / np.maximum(allowed, TINY)
    index = np.unravel_index(int(ratio.argmax()), ratio.shape)
    beyond = float((ratio > 1).mean())
    worst = float(difference.max())
    return Comparison(
        name=name,
        ok=beyond <= tolerance.share,
        max_abs=worst,
        max_rel=worst / scale if scale else 0.0,
        scale=scale,
        excess=float(ratio.max()),
        index=tuple(int(i) for i in index),
        beyond=beyond,
        allowed=float(allowed[index]),
    )
