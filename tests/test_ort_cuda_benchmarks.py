"""What benchmarks/ort_cuda.py and ort_cuda_tuning.py make of times, on made-up ones."""

from __future__ import annotations

import numpy as np
import pytest


def event(op, us):
    return {"dur": us, "args": {"op_name": op}}


def test_the_share_is_that_of_the_fastest_run(load):
    slow = [event("MemcpyFromHost", 9), event("ConvTranspose", 900), event("Relu", 100)]
    fast = [event("MemcpyFromHost", 9), event("ConvTranspose", 30), event("Relu", 90)]
    assert load("ort_cuda").share_of([*slow, *fast, *slow], 3) == pytest.approx(0.25)


def row_of(**rest):
    times = {"original": {"us": 90.0}, "standard": {"us": 100.0}, "plugin": {"us": 30.0}}
    row = {"suite": "models", "row": "m", "dtype": "float32", "batch": 1, "share": 0.4}
    empty = {"graph": {}, "errors": {}, "missing": {}, "same": []}
    return {**row, **empty, "times": times, **rest}


def test_tables_name_what_is_slower_and_what_is_missing(load, capsys):
    rows = [row_of(), row_of(row="n", times={}, errors={"original": "no memory"})]
    load("ort_cuda_report").print_tables({"rows": rows, "left_out": ["deployed x"]})
    said = capsys.readouterr().out
    assert "standard: geometric mean 0.90 of 1, lowest 0.90" in said
    assert "slower: m float32 b1 0.90" in said
    assert "where ConvTranspose takes over 30 %: 3.00 of 1" in said
    assert "! n float32 b1: original: no memory" in said
    assert "! deployed x: left out" in said


def test_a_file_that_stays_as_it_is_is_as_fast(load, capsys):
    report = load("ort_cuda_report")
    row = row_of(same=["standard"], times={"original": {"us": 90.0}})
    assert report.speed_up(row, "standard", "times") == 1
    assert report.speed_up(row, "plugin", "times") is None
    report.print_tables({"rows": [row], "left_out": []})
    assert "| 90.0 | same file | 1.00 | - | - |" in capsys.readouterr().out


def test_an_outlier_is_counted_and_left_out(load, capsys):
    away = row_of(row="istft", times={"original": {"us": 9000.0}, "plugin": {"us": 30.0}})
    load("ort_cuda_report").print_tables({"rows": [row_of(), away], "left_out": []})
    said = capsys.readouterr().out
    assert "plugin: geometric mean 30.00 of 2 (3.00 without istft), lowest 3.00" in said


def test_a_kernel_that_the_rules_do_not_take_is_shown_and_not_counted(load, capsys):
    times = {"original": {"us": 90.0}, "kernel": {"us": 120.0}}
    row = row_of(same=["standard", "plugin"], times=times)
    load("ort_cuda_report").print_tables({"rows": [row], "left_out": []})
    said = capsys.readouterr().out
    assert "| same file | 1.00 | same file | 1.00 | 40% | kernel 120 |" in said
    assert "plugin: geometric mean 1.00 of 1, lowest 1.00" in said


def test_rows_of_a_later_run_take_the_place_of_earlier_ones(load):
    first = {"environment": "a", "rows": [row_of(), row_of(row="n")], "left_out": ["o"]}
    again = {"environment": "a", "rows": [row_of(share=0.9), row_of(dtype="float16")]}
    both = load("ort_cuda").merged([first, {**again, "left_out": []}])
    found = [(r["row"], r["dtype"], r["share"]) for r in both["rows"]]
    assert found == [("m", "float32", 0.9), ("n", "float32", 0.4), ("m", "float16", 0.4)]
    assert (both["environment"], both["left_out"]) == ("a", ["o"])


def result_of(reason="CT602", chosen="phases", ratios=(), **us):
    forms = [{"form": f, "why": "", "time": {"median_us": t}} for f, t in us.items()]
    node = {"path": "up", "x_shapes": [[1]], "dtype": "FLOAT", "chosen": chosen, "forms": forms}
    tuning = {"runtime": "r", "device": "d", "reverted": [], "seconds": 1.0}
    tuning["models"] = [{"ratio": r} for r in ratios]
    decision = {"path": "up", "form": chosen, "reason": {"id": reason}}
    return {
        "tuning": {**tuning, "nodes": [node]},
        "decisions": [decision],
        "verification": {"ok": True},
    }


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"keep": 9.0, "phases": 3.0}, None),
        # Within what two timings differ by.
        ({"keep": 2.9, "phases": 3.0}, None),
        ({"keep": 2.0, "phases": 3.0}, "not the fastest"),
        ({"reason": "CT604", "keep": 9.0, "phases": 3.0}, "was not timed: CT604"),
        # Of several sets of sizes the one that gains least counts.
        ({"ratios": [3.0, 1.004], "keep": 9.0, "phases": 3.0}, "whole model does not gain"),
        ({"ratios": [3.0, 1.02], "keep": 9.0, "phases": 3.0}, None),
        ({"reason": "CT606", "ratios": [1.0], "keep": 9.0, "phases": 3.0}, None),
    ],
)
def test_a_tuned_model_is_judged(load, result, problem):
    row = {"problems": []}
    load("ort_cuda_tuning").judge(row, result_of(**result))
    assert row["nodes"][0]["us"]["phases"] == 3.0
    assert len(row["problems"]) == (problem is not None)
    assert all(problem in p for p in row["problems"])


@pytest.mark.parametrize(("shift", "alike"), [(0, True), (0.2, False)])
def test_outputs_that_providers_disagree_on_are_told_from_wrong_ones(load, shift, alike):
    corpus = load("ort_cuda_corpus")
    wanted = {"y": np.linspace(-3, 5, 35, dtype=np.float32).reshape(5, 7)}
    original = {"y": wanted["y"] + np.float32(0.1)}
    got = {"y": original["y"] + np.float32(shift)}
    tolerance = corpus.Tolerance(relative_atol=2e-4, rtol=2e-4)
    right = corpus.judged(wanted, wanted, original, tolerance)
    assert right == {"ok": True, "worst": 0.0, "problems": []}
    off = corpus.judged(got, wanted, original, tolerance)
    assert (off["ok"], off["as_original"]) == (False, alike)
    assert off["worst"] == pytest.approx((0.1 + shift) / 5, rel=1e-3)
    assert [w.split(":")[0] for w in off["problems"]] == ["y", "to the original on the GPU"]
    found = [{"strays": [], **right}, {"strays": ["Hardmax h on CPU"], **off}]
    said = corpus.summary("standard", found)
    assert "2 models, 1 with a node off the GPU, 1 ran and equal" in said
    assert ("1 more the original's on the GPU" in said) == alike
