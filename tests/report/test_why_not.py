"""What the page says of forms that were weighed and lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convt_onnx.reasons import Refusal
from convt_onnx.report.units import time_text
from convt_onnx.report.why_not import why_not

from .made_up import untimed
from .showing import shown


def node(reason, form, **expected):
    candidates = [candidate(name, us) for name, us in expected.items()]
    return {"form": form, "reason": {"id": reason}, "candidates": candidates}


def candidate(form, expected_us=None, **others):
    return {"form": form, "time": None, "untimed": "", "expected_us": expected_us} | others


def weighed(tree, number):
    """The cells of each form of a node, by form."""
    table = next(
        t for t in tree.all("table") if t.one("caption").text == f"Forms weighed for node {number}"
    )
    return {
        row.one("code").text: {c.attributes["data-label"]: c.text for c in row.all("td")}
        for row in table.one("tbody").all("tr")
        if row.all("code")
    }


@pytest.mark.parametrize(("form", "us", "text"), [
    ("keep", 9.0, "not expected to be faster than phases"),
    ("gemm", 7.0, "not expected to be faster than phases"),
    ("unfold", None, "no time of it is known"),
    ("phases", 5.0, ""),
])  # fmt: skip
def test_by_expectation(form, us, text):
    decided = node("CT204", "phases", keep=9.0, gemm=7.0, unfold=None, phases=5.0)
    assert why_not(candidate(form, us), decided) == text


@pytest.mark.parametrize("form", ["keep", None])
def test_a_little_faster_by_expectation_is_not_enough(form):
    decided = node("CT201", form, keep=9.0, phases=8.9)
    assert why_not(candidate("keep", 9.0), decided) == ""
    told = why_not(candidate("phases", 8.9), decided)
    assert told == "not expected to be faster than keep by enough"


def test_by_times():
    decided = node("CT602", "phases")
    timed = {"time": {"median_us": 2.0}}
    assert why_not(candidate("keep", **timed), decided) == "not faster than phases"
    assert why_not(candidate("gemm", **timed), decided) == "not faster than phases beyond doubt"
    assert why_not(candidate("bands", untimed="too large"), decided) == "too large"
    assert why_not(candidate("phases", **timed), decided) == ""
    kept = node("CT601", None)
    assert why_not(candidate("gemm", **timed), kept) == "not faster than keep beyond doubt"
    assert why_not(candidate("keep", **timed), kept) == ""


def test_the_original_that_lost_is_told(result):
    up, *others = result.decisions
    up = replace(up, reason=Refusal("CT602"))
    _, tree = shown(replace(result, decisions=(up, *others)))
    cells = weighed(tree, 1)
    keep = cells["keep"]
    assert (keep["time"], keep["why not"]) == ("1.00 ms", "not faster than phases")
    assert cells["phases"]["why not"] == ""


def test_expected_times_are_shown_where_nothing_was_timed(tmp_path):
    result = untimed(tmp_path)
    _, tree = shown(result)
    for number, decision in enumerate(result.decisions, 1):
        cells = weighed(tree, number)
        for c in decision.candidates:
            if c.work is None:
                assert cells[c.form]["time"] == ""
                continue
            assert cells[c.form]["time"] == f"{time_text(c.expected_us)} expected"
            lost = c.form != (decision.form or "keep")
            assert cells[c.form]["why not"].startswith("not expected to be") == lost
