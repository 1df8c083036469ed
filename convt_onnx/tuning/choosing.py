"""Which form to take, given the times at one or several sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convt_onnx.tuning.race import MARGIN, Race
from convt_onnx.tuning.statistics import ENOUGH, Ratio, timing
from convt_onnx.tuning.times import Timing


@dataclass(frozen=True, slots=True)
class Measured:
    """One form at one size: its time, how many times faster than the first form, why no more."""

    time: Timing | None
    speedup: Ratio | None
    why: str = ""

    @property
    def rounds(self) -> int:
        """How often it was timed."""
        return 0 if self.time is None else self.time.runs


Heat = Mapping[str, Measured]


def measured(race: Race) -> dict[str, Measured]:
    """What a race says of each entry."""
    result = {}
    for name, samples in race.samples.items():
        why = race.dropped.get(name, "")
        if samples:
            result[name] = Measured(timing(samples), race.ratio(race.first, name), why)
        else:
            result[name] = Measured(None, None, why)
    return result


def undecided(heat: Heat) -> bool:
    """Whether the time ran out while some form could still have won."""
    first, *rivals = heat.values()
    return first.rounds < ENOUGH and any(not m.why for m in rivals)


@dataclass(frozen=True, slots=True)
class Pick:
    """The form, and which of the sizes decided."""

    form: str
    deciding: int


def choose(
    heats: Sequence[Heat], weights: Sequence[float] | None = None, *, margin: float = MARGIN
) -> Pick:
    """The form that is best over all sizes, the first one where none beats it beyond doubt.

    Without weights a form counts by the size where it gains least; with weights by the weighted
    sum of its times.

    Args:
        heats: Times by form at each size; the first form is the node as it is, where it can run.
        weights: How often each size occurs.
        margin: By what share a form must be faster than those before it.
    """
    first = next(iter(heats[0]))
    forms = [f for f in heats[0] if all(_speedup(h, f) is not None for h in heats)]
    best, best_cost = first, 1.0
    for form in forms:
        cost = _cost(heats, form, weights, pessimistic=False)
        proven = first != "keep" or _cost(heats, form, weights, pessimistic=True) < 1
        if form != first and cost * (1 + margin) < best_cost and proven:
            best, best_cost = form, cost
    costs = [_relative(h, best, pessimistic=False) for h in heats]
    return Pick(best, costs.index(max(costs)) if weights is None else _heaviest(heats, weights))


def _cost(
    heats: Sequence[Heat], form: str, weights: Sequence[float] | None, *, pessimistic: bool
) -> float:
    """Time of a form as a share of the first form's."""
    shares = [_relative(h, form, pessimistic=pessimistic) for h in heats]
    if weights is None:
        return max(shares)
    loads = _loads(heats, weights)
    return sum(x * y for x, y in zip(shares, loads, strict=True)) / sum(loads)


def _loads(heats: Sequence[Heat], weights: Sequence[float]) -> list[float]:
    """Weighted time of the first form at each size."""
    times = [next(iter(h.values())).time for h in heats]
    return [w * (0.0 if t is None else t.median_us) for w, t in zip(weights, times, strict=True)]


def _heaviest(heats: Sequence[Heat], weights: Sequence[float]) -> int:
    loads = _loads(heats, weights)
    return loads.index(max(loads))


def _relative(heat: Heat, form: str, *, pessimistic: bool) -> float:
    speedup = _speedup(heat, form)
    if speedup is None:
        return float("inf")
    value = speedup.low if pessimistic else speedup.median
    return 1 / value if value > 0 else float("inf")


def _speedup(heat: Heat, form: str) -> Ratio | None:
    found = heat.get(form)
    return None if found is None else found.speedup
