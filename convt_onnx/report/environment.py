"""What a report says about the machine and the software."""

from __future__ import annotations

from convt_onnx._version import __version__
from convt_onnx.doctor import diagnose
from convt_onnx.machine import cores, processor
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
