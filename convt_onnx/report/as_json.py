"""Results as plain data. `SCHEMA_VERSION` changes when a field goes or changes its meaning."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convt_onnx._version import __version__
from convt_onnx.errors import ConvtError
from convt_onnx.reasons import REASONS, Refusal

SCHEMA_VERSION = 2

# What the json module reads back.
Document = dict[str, Any]


def document(kind: str, **content: Any) -> Document:
    """A JSON document: schema version, tool version, kind, then the content as plain data."""
    head = {"schema_version": SCHEMA_VERSION, "convt_onnx": __version__, "kind": kind}
    return head | {name: plain(value) for name, value in content.items()}


def plain(value: Any) -> Any:
    """Dataclasses, paths, tuples and mappings as what the json module takes."""
    if isinstance(value, Refusal):
        return {"id": value.id, "title": REASONS[value.id].title, "detail": value.detail}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def error_document(error: ConvtError) -> Document:
    """An error as a document of kind "error"."""
    return document(
        "error",
        what=error.what,
        where=error.where,
        help=error.help,
        exit_code=int(error.exit_code),
    )
