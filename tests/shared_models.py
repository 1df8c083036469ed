"""The shared models, which may not be copied into the project; none where they are absent."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parent.parent.parent / "shared"
SLOW = ("candy_style_transfer",)
INVALID = ("064_", "077_")
MODELS = [
    pytest.param(path, marks=[pytest.mark.long] if path.stem in SLOW else [])
    for folder in ("cases", "corpus")
    for path in sorted((SHARED / folder).rglob("*.onnx"))
]


def inputs_beside(path):
    names = (path.with_suffix(".npz"), path.with_name("inputs.npz"), path.with_name("data_0.npz"))
    return next((p for p in names if p.is_file()), None)


def label(value):
    return value if isinstance(value, str) else str(value.relative_to(SHARED))
