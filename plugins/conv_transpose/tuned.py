"""Measured schedules, kept on disk; where none was measured, the heuristic's.

The file holds one section a device and set of versions, so that an update measures anew. A file
that cannot be read is ignored with a warning and replaced at the next measurement.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from convt_onnx._version import __version__
from convt_onnx.machine import cache_folder, installed_version
from convt_onnx.plugins.conv_transpose import heuristics
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import Schedule

Section = dict[str, dict[str, Any]]


@lru_cache(maxsize=4096)
def choose(problem: Problem, device: Device) -> Schedule:
    """The schedule measured for a problem, or the heuristic's choice."""
    entry = _file_content(cache_file()).get(section_key(device), {}).get(problem_key(problem))
    if entry is not None:
        schedule = _read_schedule(entry)
        if schedule is not None:
            return schedule
    return heuristics.choose(problem, device)


def remember(problem: Problem, device: Device, schedule: Schedule, microseconds: float) -> None:
    """Keep a measured schedule on disk and use it from now on."""
    from convt_onnx.model_io.staging import staging

    path = cache_file()
    content = _file_content(path)
    section = content.setdefault(section_key(device), {})
    section[problem_key(problem)] = {"schedule": asdict(schedule), "us": round(microseconds, 2)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with staging() as stage, stage.open(path) as file:
        file.write(json.dumps(content, indent=1).encode())
    choose.cache_clear()


def cache_file() -> Path:
    """Where measured schedules are kept."""
    return cache_folder() / "schedules.json"


def section_key(device: Device) -> str:
    """Device and versions that a measurement holds for."""
    parts = [device.name, f"sm_{device.capability}", f"convt-onnx {__version__}"]
    parts += [f"{name} {installed_version(name) or 'absent'}" for name in ("torch", "triton")]
    return ", ".join(parts)


def problem_key(problem: Problem) -> str:
    """One line that tells problems apart."""
    s = problem.spec
    geometry = (s.kernel, s.strides, s.dilations, s.pads_begin, s.pads_end, s.output_padding)
    return json.dumps(
        [
            problem.dtype + ("/tf32" if problem.tf32 else ""),
            "NHWC" if problem.channels_last_in else "NCHW",
            "NHWC" if problem.channels_last_out else "NCHW",
            [problem.batch, s.in_channels, s.out_channels, s.group],
            problem.sizes,
            geometry,
        ]
    )


def _file_content(path: Path) -> dict[str, Section]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        warnings.warn(f"{path} cannot be read and is ignored: {error}", stacklevel=2)
        return {}
    if not isinstance(content, dict) or not all(isinstance(v, dict) for v in content.values()):
        warnings.warn(f"{path} is not a file of schedules and is ignored", stacklevel=2)
        return {}
    return content


def _read_schedule(entry: Any) -> Schedule | None:
    try:
        fields = dict(entry["schedule"])
        fields["fused"] = tuple(bool(v) for v in fields["fused"])
        fields["aligned"] = tuple(bool(v) for v in fields["aligned"])
        return Schedule(**fields)
    except (KeyError, TypeError, ValueError):
        warnings.warn("a measured schedule cannot be read and is ignored", stacklevel=2)
        return None
