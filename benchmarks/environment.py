"""What a number was measured with."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path

PACKAGES = ("onnxruntime", "onnx", "onnx-ir", "numpy")


def environment(packages: Sequence[str] = PACKAGES) -> str:
    """Processor, cores, versions and date in one line."""
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in packages)
    python = platform.python_version()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return f"{_processor()}, {os.cpu_count()} cores, Python {python}, {versions}, {today}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for text in info.read_text().splitlines():
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    return platform.processor() or platform.machine()
