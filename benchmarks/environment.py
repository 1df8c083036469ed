"""What a number was measured with."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from collections.abc import Sequence

from convt_onnx.machine import cores, processor

PACKAGES = ("onnxruntime", "onnx", "onnx-ir", "numpy")


def environment(packages: Sequence[str] = PACKAGES) -> str:
    """Processor, cores, versions and date in one line."""
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in packages)
    python = platform.python_version()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return f"{processor()}, {cores()} cores, Python {python}, {versions}, {today}"
