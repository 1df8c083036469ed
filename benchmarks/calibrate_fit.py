"""The cost model of `ort-cpu` fitted to times, and how well it picks what it has not seen."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from corpus_lines import geometric_mean
from scipy.optimize import nnls

from convt_onnx.prediction.table import Switch

FOLDS = 5
# What a form must be expected to gain: that with which most picks are good.
SWITCHES = tuple(
    Switch(gain, saving)
    for gain, saving in product((1.0, 1.05, 1.1, 1.2, 1.3), (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0))
)
FIT_ROUNDS = 12
LARGE_ERROR = 0.3
# Within this of the best is as good as it.
GOOD = 1.15


@dataclass(frozen=True, slots=True)
class Row:
    """One form of one node: what it takes, and what the cost model sees of it."""

    node: str
    threads: int
    form: str
    micros: float
    features: dict[str, float]


Expected = list[tuple[Row, float]]


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """Nanoseconds a count, none negative, that make the squared errors of log times small.

    The squares of (predicted - time) / sqrt(predicted * time) are those of log errors to second
    order; the prediction in the divisor is the last round's. Errors beyond LARGE_ERROR count less
    than by their square, for a machine that does something else now and then.
    """
    names = sorted({name for r in rows for name in r.features})
    matrix = np.array([[r.features.get(n, 0.0) for n in names] for r in rows])
    times = np.array([1e3 * r.micros for r in rows])
    solved, divisor = np.zeros(len(names)), times
    for _ in range(FIT_ROUNDS):
        solved = nnls(matrix / divisor[:, None], times / divisor)[0]
        guess = np.maximum(matrix @ solved, 0.05 * times)
        error = np.abs(np.log(guess / times))
        divisor = np.sqrt(guess * times * np.maximum(1.0, error / LARGE_ERROR))
    return {n: float(x) for n, x in zip(names, solved, strict=True) if x > 0}


def predicted(table: dict[str, float], row: Row) -> float:
    """Microseconds."""
    return sum(table.get(n, 0.0) * count for n, count in row.features.items()) / 1e3


@dataclass(frozen=True, slots=True)
class Pick:
    """What the cost model takes for a node: its time over the best's, and over the node's own."""

    node: str
    form: str
    best: str
    loss: float
    over_keep: float


def picks(expected: Expected, switch: Switch) -> list[Pick]:
    """One for each node, by the expected microseconds of its forms."""
    nodes: dict[str, dict[str, tuple[Row, float]]] = {}
    for row, micros in expected:
        nodes.setdefault(row.node, {})[row.form] = (row, micros)
    result = []
    for node, forms in nodes.items():
        first = next(iter(forms))
        form = min(forms, key=lambda f: forms[f][1])
        if first == "keep" and not switch.pays(forms["keep"][1], forms[form][1]):
            form = "keep"
        times = {f: row.micros for f, (row, _) in forms.items()}
        best = min(times, key=lambda f: times[f])
        result.append(Pick(node, form, best, times[form] / times[best], times[form] / times[first]))
    return result


def fold_of(node: str) -> int:
    """The same geometry at another size is in the same fold."""
    return zlib.crc32(json.dumps(json.loads(node)[0]).encode()) % FOLDS


def out_of_sample(rows: Sequence[Row]) -> Expected:
    """Each fold as a fit to the others expects it."""
    result = []
    for k in sorted({fold_of(r.node) for r in rows}):
        table = fit([r for r in rows if fold_of(r.node) != k])
        result += [(r, predicted(table, r)) for r in rows if fold_of(r.node) == k]
    return result


def best_switch(rows: Sequence[Row]) -> Switch:
    """With which most picks are good, and of those that with which the nodes take least."""
    expected = out_of_sample(rows)

    def quality(switch: Switch) -> tuple[float, float]:
        found = picks(expected, switch)
        return share(found, GOOD), -geometric_mean([p.over_keep for p in found])

    return max(SWITCHES, key=quality)


def unseen(rows: Sequence[Row]) -> list[Pick]:
    """Picks for each fold, of which neither the fit nor the choice of the switch knows anything."""
    result = []
    for k in sorted({fold_of(r.node) for r in rows}):
        others = [r for r in rows if fold_of(r.node) != k]
        table, switch = fit(others), best_switch(others)
        mine = [(r, predicted(table, r)) for r in rows if fold_of(r.node) == k]
        result += picks(mine, switch)
    return result


def share(found: Sequence[Pick], limit: float) -> float:
    """Of nodes whose form takes at most `limit` times as long as the best."""
    return sum(p.loss <= limit for p in found) / len(found)


def statement(found: Sequence[Pick]) -> dict[str, float]:
    """How good picks are, as numbers."""
    gains = [p.over_keep for p in found]
    return {
        "nodes": len(found),
        "best": round(share(found, 1.0), 3),
        "within_10_percent": round(share(found, 1.10), 3),
        "within_15_percent": round(share(found, GOOD), 3),
        "slower_than_the_node_by_over_5_percent": sum(g > 1.05 for g in gains),
        "geometric_mean_of_time_over_the_node": round(geometric_mean(gains), 3),
        "the_same_with_the_best_forms": round(
            geometric_mean([p.over_keep / p.loss for p in found]), 3
        ),
    }
