"""The two halves of a reason: what is always true of it, and one case."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason with the detail of one case."""

    id: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """What `convt-onnx explain ID` tells."""

    id: str
    title: str
    text: str
