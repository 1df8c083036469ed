"""Stable reason ids: why a node became what it is, why a form or a pass does not apply.

Ids are never reused. CT1xx: nodes left alone, CT2xx: decisions, CT3xx: forms, CT4xx: passes,
CT50x-CT53x: TensorRT, CT54x-CT56x: the plugin, CT57x: providers, CT6xx: measurements.
"""

from __future__ import annotations

from difflib import get_close_matches

from convt_onnx.errors import UsageError
from convt_onnx.reasons import (
    crops,
    decisions,
    epilogue,
    forms,
    neighbours,
    nodes,
    pads,
    placement,
    plugin,
    quantised,
    tensorrt,
    tuning,
)
from convt_onnx.reasons.base import Reason, Refusal
from convt_onnx.suggest import did_you_mean

__all__ = ["REASONS", "Reason", "Refusal", "get_reason"]

FAMILIES = (
    nodes,
    decisions,
    forms,
    crops,
    pads,
    neighbours,
    epilogue,
    quantised,
    placement,
    tensorrt,
    tuning,
    plugin,
)

# How alike two ids are that differ in one of their digits, or miss one.
NEAR = 0.75

REASONS: dict[str, Reason] = {reason.id: reason for family in FAMILIES for reason in family.REASONS}


def get_reason(id: str) -> Reason:
    """The reason of that id, in any case.

    Raises:
        UsageError: There is none.
    """
    reason = REASONS.get(id.upper())
    if reason is None:
        near = get_close_matches(id.upper(), REASONS, n=2, cutoff=NEAR)
        raise UsageError(
            f"no reason {id!r}",
            help=did_you_mean(id.upper(), near) if near else "convt-onnx explain lists them all",
        )
    return reason
