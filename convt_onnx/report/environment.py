"""What a report says about the machine and the software."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from convt_onnx._version import __version__
from convt_onnx.doctor import diagnose
from convt_onnx.report.contents import Fact


def environment() -> tuple[Fact, ...]:
    """Hardware, then software with its versions; what is not installed is left out."""
    found = diagnose()
    return (
        Fact("processor", f"{processor()}, {cores()} cores for this process"),
        Fact("platform", found.platform),
        Fact("convt-onnx", __version__),
        Fact("Python", found.python),
        *(Fact(p.name, p.version) for p in found.packages if p.version is not None),
    )


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
