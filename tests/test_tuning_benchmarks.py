"""The arithmetic of benchmarks/calibrate.py, corpus.py and repeat_tuning.py, on made-up times."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import pytest

from convt_onnx.tuning.statistics import Ratio

from .tuning.faking import Clock, loaders

TRUE = {"calls": 2000.0, "gemm_macs": 0.04, "copied": 0.5}


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
    calibrate = load("calibrate_fit")
    assert calibrate.fit(rows_of(calibrate, 40, noise=0)) == pytest.approx(TRUE, rel=1e-3)
    # One time in twenty is ten times too long.
    assert calibrate.fit(rows_of(calibrate, 200, noise=0.05)) == pytest.approx(TRUE, rel=0.15)


def test_what_is_predicted_was_not_fitted_to(load, monkeypatch):
    calibrate = load("calibrate_fit")
    rows = rows_of(calibrate, 40, noise=0)
    seen = []
    fit = calibrate.fit
    monkeypatch.setattr(calibrate, "fit", lambda mine: seen.append(mine) or fit(mine))
    found = calibrate.unseen(rows)
    assert len(found) == 40
    # One fit to all other folds, and one without each of them to choose the switch.
    assert len(seen) == calibrate.FOLDS**2
    for i, mine in enumerate(seen):
        fold = i // calibrate.FOLDS
        assert fold not in {calibrate.fold_of(r.node) for r in mine}
    assert calibrate.statement(found)["best"] == 1


@pytest.mark.parametrize(
    ("gain", "saving", "form", "loss"),
    [(1.2, 0, "keep", 1.25), (1.05, 0, "phases", 1), (1, 1.5, "keep", 1.25), (1, 0.5, "phases", 1)],
)
def test_the_node_stays_unless_the_gain_is_large_enough(load, gain, saving, form, loss):
    calibrate = load("calibrate_fit")
    node = json.dumps([1])
    expected = [
        (calibrate.Row(node, 1, "keep", 10.0, {}), 11.0),
        (calibrate.Row(node, 1, "phases", 8.0, {}), 10.0),
    ]
    (pick,) = calibrate.picks(expected, calibrate.Switch(gain, saving))
    assert (pick.form, pick.best, pick.loss) == (form, "phases", loss)
    assert pick.over_keep == (1 if form == "keep" else 0.8)


def test_the_switch_keeps_small_nodes_where_forms_lose(load):
    """Of nodes below 10 us a form is expected to save 2 us, and takes twice as long."""
    calibrate = load("calibrate_fit")
    rows = rows_of(calibrate, 40, noise=0)
    for n in range(100, 140):
        node = json.dumps([{"kernel": n}, 0])
        counts = {"calls": 5, "copied": 100 * n}
        micros = sum(TRUE[k] * c for k, c in counts.items()) / 1e3
        rows.append(calibrate.Row(node, 1, "keep", micros, counts))
        rows.append(calibrate.Row(node, 1, "conv", 2 * micros, {"calls": 4, "copied": 100 * n}))
    switch = calibrate.best_switch(rows)
    assert switch.saving_us > 2
    assert calibrate.statement(calibrate.unseen(rows))["within_15_percent"] > 0.9


def test_all_take_turns_and_nobody_leaves(load):
    corpus = load("corpus")
    samples = corpus.in_turn(loaders(Clock(), a=[1.0], b=[9.0]), seconds=0.0)
    assert samples == {"a": [1.0] * corpus.MIN_ROUNDS, "b": [9.0] * corpus.MIN_ROUNDS}


@pytest.mark.parametrize(("ours", "more"), [([0.98, 1.1], True), ([0.9], False), ([1.1], False)])
def test_an_open_question_is_timed_for_longer(load, ours, more):
    corpus = load("corpus")
    times = {corpus.ORIGINAL: [1.0], corpus.OURS: ours, "onnxsim": [1.0]}
    entries = loaders(Clock(), **times)
    samples = corpus.in_turn(entries, seconds=0.0)
    corpus.go_on(samples, entries, corpus.Effort(1.0, 0.0, Path(), 0.97))
    rounds = corpus.MIN_ROUNDS * (1 + more)
    assert len(samples[corpus.ORIGINAL]) == len(samples[corpus.OURS]) == rounds
    assert len(samples["onnxsim"]) == corpus.MIN_ROUNDS


def line(corpus, ratio, *, copied=False, shares=(0.5, 0.5), ms=1.0):
    ratios = {corpus.OURS: Ratio(ratio, ratio, ratio)}
    share, run_share = shares
    return corpus.Line(
        "m", 1, "timed", share, run_share, copied=copied, ratios=ratios, original_ms=ms, rounds=9
    )


def test_slower_models_are_told_and_copies_are_not(load):
    corpus = load("corpus")
    lines = [
        line(corpus, 0.9),
        line(corpus, 0.9, copied=True),
        line(corpus, 2.0, shares=(0.1, 0.1)),
    ]
    assert corpus.slower(lines, 0.97) == lines[:1]
    text = "\n".join(corpus.totals(lines, 0.97))
    assert "geometric mean 1.174 of 3 models, 0.900 of 2 where" in text
    assert "the original was kept for 1 of 3" in text
    assert "copies of the original: 0.900 to 0.900 times" in text
    assert "rewritten models alone: geometric mean 1.342 of 2, lowest 0.900" in text


def test_means_are_of_the_models_that_each_share_takes_in(load):
    corpus = load("corpus")
    lines = [
        line(corpus, 2.0, shares=(0.9, 0.8)),
        line(corpus, 0.5, shares=(1.0, 0.4), ms=0.01),
        line(corpus, 1.5, shares=(1.0, 0.2), ms=0.006),
        line(corpus, 1.0, shares=(0.2, 0.3)),
    ]
    (text,) = [t for t in corpus.totals(lines, 0.0) if corpus.OURS in t]
    kernels, run, large = "of the kernel time", "of the run", "of these that take over 0.05 ms"
    assert f"1.145 of 3 where ConvTranspose takes over 30 % {kernels}" in text
    assert f"1.000 of 2 where it takes over 30 % {run}, 2.000 of 1 {large}" in text
    assert "lowest of all 0.500" in text


def test_a_model_whose_share_is_unknown_is_in_no_mean_over_a_share_and_told(load):
    corpus = load("corpus")
    lines = [line(corpus, 2.0), line(corpus, 0.5, shares=(0.9, None))]
    assert " 90,   ? %" in corpus.text(lines[1])
    said = "\n".join(corpus.totals(lines, 0.0))
    assert "1.000 of 2 where ConvTranspose takes over 30 % of the kernel time" in said
    assert "2.000 of 1 where it takes over 30 % of the run, 2.000 of 1 of these" in said
    assert "1 threads: the share of the run is unknown for 1 of 2 models" in said
    assert "unknown" not in "\n".join(corpus.totals(lines[:1], 0.0))


def test_the_share_of_a_node_is_its_kernels_without_the_first_run(load, tmp_path):
    corpus, rows = load("corpus"), load("forms_cpu_rows")
    path = tmp_path / "m.onnx"
    onnx.save(rows.model_of(rows.ROWS[2], followed=True), path)
    x = np.ones((1, 21, 32, 32), np.float32)
    share = corpus.kernel_share(path, {"x": x}, 1, tmp_path)
    (profile,) = tmp_path.glob("profile*")
    events = json.loads(profile.read_text())
    kernels = [e for e in events if e["name"].endswith("_kernel_time")]
    mine = [e["dur"] for e in kernels if e["name"] == "ct_kernel_time"]
    assert len(mine) == 1 + corpus.PROFILED_RUNS
    every = [e["dur"] for e in sorted(kernels, key=lambda e: e["ts"])]
    each = len(every) // len(mine)
    runs = [every[i : i + each] for i in range(0, len(every), each)]
    shares = [m / sum(run) for m, run in zip(mine, runs, strict=True)]
    assert share == pytest.approx(median(shares[1:]))
    assert 0.3 < share < 1
