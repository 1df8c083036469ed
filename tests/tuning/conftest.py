from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx
import pytest

from convt_onnx import OptimizeOptions, OptimizeResult, optimize
from convt_onnx.tuning.options import TuneOptions

from ..graph.building import write
from .faking import Clock, FakeRuntime


@dataclass
class Tuned:
    """Optimises models with a runtime that takes the seconds it is told."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    runtimes: list[FakeRuntime] = field(default_factory=list)

    def __call__(
        self, proto: onnx.ModelProto, speed, *, tune=None, prepare_seconds=0.0, **options
    ) -> OptimizeResult:
        runtime = FakeRuntime(speed, Clock(), prepare_seconds=prepare_seconds)
        self.runtimes.append(runtime)
        self.monkeypatch.setattr(
            "convt_onnx.tuning.start.runtime_for",
            lambda target, threads: replace(runtime, threads=threads) if target.provider else None,
        )
        self.monkeypatch.setattr("convt_onnx.tuning.nodes.perf_counter", runtime.clock)
        tune = tune or TuneOptions(seconds=1e9)
        tune = tune if tune.cache else replace(tune, cache=self.folder / "cache")
        source = write(proto, self.folder)
        return optimize(
            source, options=OptimizeOptions(tune=tune, force=True, verify=False, **options)
        )

    @property
    def loaded(self) -> list[onnx.ModelProto]:
        """What the last runtime loaded."""
        return self.runtimes[-1].loaded


@pytest.fixture
def tuned(tmp_path, monkeypatch) -> Tuned:
    return Tuned(tmp_path, monkeypatch)
