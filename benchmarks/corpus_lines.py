"""Lines of benchmarks/corpus.py: one model each, as text, and what they add up to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from convt_onnx.tuning.statistics import Ratio

ORIGINAL, OURS = "original", "convt-onnx"
OTHERS = ("onnxslim", "onnxsim", "ort-extended")
# Above this share of the time ConvTranspose is what a model is about.
MATTERS = 0.30
# A run of a model that does next to nothing takes about 0.006 ms, in which nothing can be gained.
LARGE_MS = 0.05


@dataclass(frozen=True, slots=True)
class Line:
    """One model with one number of threads.

    Attributes:
        outcome: "timed", or why not.
        share: Of ConvTranspose in the kernel time of the original.
        run_share: Of a run of the original, what goes away when ConvTranspose's results are given
            instead of computed; None where that is unknown (corpus_share.py).
        forms: What the nodes became, and how many of them.
        copied: Whether the original was kept.
        original_ms: Median time of a run.
        ratios: original / variant by variant, with its bounds.
        rounds: How often each ran.
        tune_seconds: What tuning took.
    """

    model: str
    threads: int
    outcome: str
    share: float = 0.0
    run_share: float | None = None
    forms: str = ""
    copied: bool = False
    original_ms: float = 0.0
    ratios: Mapping[str, Ratio] | None = None
    rounds: int = 0
    tune_seconds: float = 0.0


def statistics_of(names: Iterator[str]) -> str:
    """How many of each."""
    counts: dict[str, int] = {}
    for n in names:
        counts[n] = counts.get(n, 0) + 1
    return ", ".join(f"{count} {n}" for n, count in counts.items())


def text(x: Line) -> str:
    """One row."""
    head = f"{x.model[-56:]:56} {x.threads}"
    if x.ratios is None:
        return f"{head} {x.outcome[:80]}"
    ratios = "  ".join(f"{n} {r.median:5.2f}" for n, r in x.ratios.items())
    kept = " (kept)" if x.copied else ""
    run = "  ?" if x.run_share is None else f"{100 * x.run_share:3.0f}"
    shares = f"{100 * x.share:3.0f}, {run} %"
    return (
        f"{head} {x.original_ms:9.3f} ms {shares}  {ratios}  "
        f"{x.rounds:3} rounds, tuned {x.tune_seconds:4.1f} s  {x.forms}{kept}"
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers; 1 for none."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 1.0


def totals(lines: Sequence[Line], least: float) -> Iterator[str]:
    """Per number of threads: ours and others, all models and those that are about ConvTranspose."""
    timed = [x for x in lines if x.ratios is not None]
    for threads in sorted({x.threads for x in timed}):
        mine = [x for x in timed if x.threads == threads]
        for name in (OURS, *OTHERS):
            if _ratios(mine, name):
                yield f"{threads} threads, {name}: {_means(mine, name)}"
        unknown = sum(x.run_share is None for x in mine)
        if unknown:
            yield (
                f"{threads} threads: the share of the run is unknown for {unknown} of {len(mine)} "
                "models, which the means over a share of it leave out"
            )
        changed = _ratios([x for x in mine if not x.copied], OURS)
        if changed:
            yield (
                f"{threads} threads, rewritten models alone: geometric mean "
                f"{geometric_mean(changed):.3f} of {len(changed)}, lowest {min(changed):.3f}"
            )
        copies = _ratios([x for x in mine if x.copied], OURS)
        yield f"{threads} threads: the original was kept for {len(copies)} of {len(mine)} models"
        if copies:
            yield (
                f"{threads} threads, copies of the original: {min(copies):.3f} to "
                f"{max(copies):.3f} times as fast as it"
            )
    for x in slower(timed, least):
        yield f"slower: {text(x)}"


def _means(lines: Sequence[Line], name: str) -> str:
    """Of all lines, and of those where ConvTranspose matters by either share, large ones too."""
    heavy = [x for x in lines if x.share > MATTERS]
    heavy_run = [x for x in lines if (x.run_share or 0.0) > MATTERS]
    percent = f"over {100 * MATTERS:.0f} %"
    groups = {
        "models": lines,
        f"where ConvTranspose takes {percent} of the kernel time": heavy,
        f"where it takes {percent} of the run": heavy_run,
        f"of these that take over {LARGE_MS} ms": [
            x for x in heavy_run if x.original_ms > LARGE_MS
        ],
    }
    means = (
        f"{geometric_mean(_ratios(group, name)):.3f} of {len(_ratios(group, name))} {what}"
        for what, group in groups.items()
    )
    return f"geometric mean {', '.join(means)}; lowest of all {min(_ratios(lines, name)):.3f}"


def _ratios(lines: Sequence[Line], name: str) -> list[float]:
    return [x.ratios[name].median for x in lines if x.ratios and name in x.ratios]


def slower(lines: Sequence[Line], least: float) -> list[Line]:
    """Where the optimised model is slower than the original; a copy is the original."""
    changed = [x for x in lines if x.ratios is not None and not x.copied]
    return [x for x in changed if x.ratios and x.ratios[OURS].median < least]
