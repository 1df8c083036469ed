"""Which form to expect to be fastest on targets of which no time is known."""

from __future__ import annotations

from convt_onnx.forms import Work
from convt_onnx.targets import Target


def score(work: Work, target: Target) -> float:
    """Relative time of a form on a target: arithmetic plus traffic."""
    return work.macs + target.macs_per_element * work.elements
