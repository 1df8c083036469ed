"""Why a form that applies to a node was not taken, in a few words."""

from __future__ import annotations

from convt_onnx.report.as_json import Document
from convt_onnx.report.contents import ORIGINAL

# Decisions by times, and those by what is expected where nothing was timed.
BY_TIMES = frozenset({"CT601", "CT602"})
BY_EXPECTATION = frozenset({"CT201", "CT204", "CT604", "CT605"})


def why_not(candidate: Document, node: Document) -> str:
    """Why it lost; empty for the form taken, and where the node's own reason tells it."""
    taken = node["form"] or ORIGINAL
    reason = node["reason"]["id"]
    if candidate["untimed"]:
        return str(candidate["untimed"])
    if candidate["form"] == taken:
        return ""
    if candidate["time"] and reason in BY_TIMES:
        # What is taken instead of the original was faster beyond doubt.
        doubt = "" if candidate["form"] == ORIGINAL else " beyond doubt"
        return f"not faster than {taken}{doubt}"
    return _by_expectation(candidate, node, taken) if reason in BY_EXPECTATION else ""


def _by_expectation(candidate: Document, node: Document, taken: str) -> str:
    expected = candidate["expected_us"]
    if expected is None:
        return "no time of it is known"
    to_beat = next((c["expected_us"] for c in node["candidates"] if c["form"] == taken), None)
    enough = " by enough" if to_beat is not None and expected < to_beat else ""
    return f"not expected to be faster than {taken}{enough}"
