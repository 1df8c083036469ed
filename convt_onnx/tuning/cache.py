"""Times of earlier runs: one small JSON file for each question, put in place in one step.

Several processes may write at once: a file is written aside under a name of its own and renamed,
and whoever comes last wins. A file that is not what it should be is as good as none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from convt_onnx.machine import cache_folder
from convt_onnx.model_io.staging import staging
from convt_onnx.tuning.choosing import Measured
from convt_onnx.tuning.statistics import Ratio
from convt_onnx.tuning.times import Timing

SCHEMA_VERSION = 1
# Bytes; no file of ours is longer.
MAX_SIZE = 1 << 20


def default_folder() -> Path:
    """In the user's cache."""
    return cache_folder() / "timings"


@dataclass(slots=True)
class TimingCache:
    """A folder of times.

    Attributes:
        folder: May not exist yet.
        create: Whether it may be made where it does not exist; else no times are kept then.
        warnings: What could not be read or written, one line each.
    """

    folder: Path
    create: bool = True
    warnings: list[str] = field(default_factory=list)

    def get(self, key: Mapping[str, Any]) -> list[dict[str, Measured]] | None:
        """Times by form, one mapping for each size; None where they are not known."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                data = file.read(MAX_SIZE + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot read timings from {path}: {error.strerror or error}")
            return None
        try:
            document = json.loads(data)
            if document["schema_version"] != SCHEMA_VERSION or document["key"] != _plain(key):
                return None
            return [{f: _measured(m) for f, m in heat.items()} for heat in document["heats"]]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._warn(f"{path} holds no timings and is ignored; what is timed now replaces it")
            return None

    def put(self, key: Mapping[str, Any], heats: Sequence[Mapping[str, Measured]]) -> None:
        """Keep times; where that fails there is a warning."""
        if not self.create and not self.folder.is_dir():
            return
        document = {
            "schema_version": SCHEMA_VERSION,
            "key": _plain(key),
            "heats": [{f: asdict(m) for f, m in heat.items()} for heat in heats],
        }
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with staging() as stage, stage.open(path) as file:
                file.write(json.dumps(document, indent=1).encode())
        except OSError as error:
            self._warn(f"cannot keep timings in {self.folder}: {error.strerror or error}")

    def _path(self, key: Mapping[str, Any]) -> Path:
        text = json.dumps(_plain(key), sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def _plain(key: Mapping[str, Any]) -> Any:
    """As it comes back from JSON: tuples become lists."""
    return json.loads(json.dumps(key))


def _measured(value: Mapping[str, Any]) -> Measured:
    time, speedup = value["time"], value["speedup"]
    return Measured(
        None if time is None else _timing(time),
        None if speedup is None else _ratio(speedup),
        str(value["why"]),
    )


def _timing(value: Mapping[str, Any]) -> Timing:
    middle, low, high = (float(value[n]) for n in ("median_us", "low_us", "high_us"))
    if not 0 < low <= middle <= high:
        raise ValueError(value)
    return Timing(middle, low, high, int(value["runs"]))


def _ratio(value: Mapping[str, Any]) -> Ratio:
    low, middle, high = (float(value[n]) for n in ("low", "median", "high"))
    if not 0 <= low <= middle <= high or middle == 0:
        raise ValueError(value)
    return Ratio(middle, low, high)
