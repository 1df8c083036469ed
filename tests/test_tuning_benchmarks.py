"""The arithmetic of benchmarks/calibrate.py, corpus.py and repeat_tuning.py, on made-up times."""

from __future__ import annotations

import importlib
import json
import random
import sys
from pathlib import Path

import pytest

from convt_onnx.tuning.statistics import Ratio

from .tuning.faking import Clock, entries

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
TRUE = {"calls": 2000.0, "gemm_macs": 0.04, "copied": 0.5}


@pytest.fixture
def load(monkeypatch):
    """Import a benchmark, and not its folder for good."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in (
        "calibrate",
        "corpus",
        "corpus_lines",
        "corpus_table",
        "environment",
        "forms_cpu",
        "peers",
    ):
        sys.modules.pop(name, None)


def rows_of(calibrate, nodes, noise, seed=0):
    rng = random.Random(seed)
    rows = []
    for n in range(nodes):
        for form in ("keep", "phases", "conv"):
            counts = {
                "calls": rng.randint(1, 9),
                "gemm_macs": rng.randint(1000, 900_000),
                "copied": rng.randint(0, 50_000),
            }
            micros = sum(TRUE[k] * c for k, c in counts.items()) / 1e3
            name = json.dumps([{"kernel": n}, 0])
            late = 10 if rng.random() < noise else 1
            rows.append(calibrate.Row(name, 1, form, late * micros, counts))
    return rows


def test_a_fit_finds_what_times_are_made_of(load):
    calibrate = load("calibrate")
    assert calibrate.fit(rows_of(calibrate, 40, noise=0)) == pytest.approx(TRUE, rel=1e-3)
    # One time in twenty is ten times too long.
    assert calibrate.fit(rows_of(calibrate, 200, noise=0.05)) == pytest.approx(TRUE, rel=0.15)


def test_what_is_predicted_was_not_fitted_to(load, monkeypatch):
    calibrate = load("calibrate")
    rows = rows_of(calibrate, 40, noise=0)
    seen = []
    fit = calibrate.fit
    monkeypatch.setattr(calibrate, "fit", lambda mine: seen.append(mine) or fit(mine))
    found = calibrate.out_of_sample(rows, 1.0)
    assert len(found) == 40
    for mine, k in zip(seen, range(calibrate.FOLDS), strict=True):
        assert not {r.node for r in mine} & {r.node for r in rows if calibrate.fold_of(r.node) == k}
    assert calibrate.statement(found)["best"] == 1


def test_the_node_stays_unless_the_gain_is_large_enough(load):
    calibrate = load("calibrate")
    rows = [
        calibrate.Row(json.dumps([1]), 1, "keep", 10.0, {"calls": 11}),
        calibrate.Row(json.dumps([1]), 1, "phases", 8.0, {"calls": 10}),
    ]
    (kept,) = calibrate.picks(rows, {"calls": 1.0}, 1.2)
    assert (kept.form, kept.best, kept.loss) == ("keep", "phases", 1.25)
    (taken,) = calibrate.picks(rows, {"calls": 1.0}, 1.05)
    assert (taken.form, taken.loss, taken.over_keep) == ("phases", 1, 0.8)


def test_all_take_turns_and_nobody_leaves(load):
    corpus = load("corpus")
    samples = corpus.in_turn(entries(Clock(), a=[1.0], b=[9.0]), seconds=0.0)
    assert samples == {"a": [1.0] * corpus.MIN_ROUNDS, "b": [9.0] * corpus.MIN_ROUNDS}


def line(corpus, ratio, *, copied=False, share=0.5):
    ratios = {corpus.OURS: Ratio(ratio, ratio, ratio)}
    return corpus.Line(
        "m", 1, "timed", share=share, copied=copied, ratios=ratios, original_ms=1.0, rounds=9
    )


def test_slower_models_are_told_and_copies_are_not(load):
    corpus = load("corpus")
    lines = [line(corpus, 0.9), line(corpus, 0.9, copied=True), line(corpus, 2.0, share=0.1)]
    assert corpus.slower(lines, 0.97) == lines[:1]
    text = "\n".join(corpus.totals(lines, 0.97))
    assert "geometric mean 1.174 of 3 models, 0.900 of the 2 where" in text
    assert "the original was kept for 1 of 3" in text
    assert "rewritten models alone: geometric mean 1.342 of 2, lowest 0.900" in text
