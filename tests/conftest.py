from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

from convt_onnx import OptimizeOptions, OptimizeResult, optimize
from convt_onnx.cli import main

from .benchmark import BENCHMARKS
from .graph.building import op_types, write
from .shared_models import SHARED
from .verify.judging import assert_same

# Triton decides when it is first imported, which any test that exports with torch may do.
os.environ.setdefault("TRITON_INTERPRET", "1")
# pytest-xdist says how wide a terminal is; a pipe has no width.
os.environ.pop("COLUMNS", None)


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    def check_failed(self, code: int, *words: str) -> Done:
        """Assert an error: its exit code, its words, a help line, and nothing on stdout."""
        assert self.code == code, self.err
        assert self.out == ""
        lines = self.err.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("error: "))
        assert lines[-1].startswith("help:  ") and len(lines[-1]) > len("help:  ")
        assert len(lines) - first <= 3
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err
        return self


@dataclass(frozen=True)
class Optimized:
    """A model before and after `optimize`, and what it said."""

    before: onnx.ModelProto
    after: onnx.ModelProto
    result: OptimizeResult

    @property
    def forms(self) -> dict[str, str | None]:
        """The form of each node."""
        return {d.path: d.form for d in self.result.decisions}

    @property
    def reasons(self) -> dict[str, str]:
        """The reason id of each node."""
        return {d.path: d.reason.id for d in self.result.decisions}

    @property
    def ops(self) -> list[str]:
        """Operator types of the rewritten model."""
        return op_types(self.after)

    def check(self, feeds=None, **options) -> None:
        """ONNX Runtime and the oracle agree with the rewritten model."""
        assert_same(self.before, self.after, feeds, **options)


def assert_untouched(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """What a rewrite may not change."""
    for name in ("ir_version", "producer_name", "producer_version", "domain", "model_version"):
        assert getattr(after, name) == getattr(before, name), name
    for name in ("doc_string", "opset_import", "metadata_props"):
        assert getattr(after, name) == getattr(before, name), name
    for name in ("name", "doc_string", "input", "output", "metadata_props"):
        assert getattr(after.graph, name) == getattr(before.graph, name), name


def is_well_formed(proto: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


@pytest.fixture(autouse=True)
def nothing_is_timed(monkeypatch):
    """Forms are chosen by expected cost, the same on every machine; tests/tuning times fakes."""
    monkeypatch.setattr("convt_onnx.tuning.start.runtime_for", lambda target, threads: None)


@pytest.fixture
def convt(capsys):
    """Run the command line in this process."""

    def run(*arguments) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(a) for a in arguments])
        code = caught.value.code
        out, err = capsys.readouterr()
        return Done(int(code or 0), out, err)

    return run


@pytest.fixture
def optimized(tmp_path):
    """Optimise and verify a model; the result must be well formed and stay as it is next time."""
    numbers = itertools.count()

    def call(proto, target="portable", **options):
        source = write(proto, tmp_path, f"{next(numbers)}.onnx")
        result = optimize(source, options=OptimizeOptions(target=target, **options))
        after = onnx.load(result.output)
        assert_untouched(proto, after)
        assert is_well_formed(after) or not is_well_formed(proto)
        assert result.verification is None or result.verification.ok
        if set(options.get("forms", ())) <= {"all"}:
            again = optimize(result.output, options=OptimizeOptions(target=target, **options))
            assert not again.modified
            assert again.output.read_bytes() == result.output.read_bytes()
        return Optimized(proto, after, result)

    return call


@pytest.fixture
def corpus() -> Path:
    """The shared models that may not be copied into the project."""
    if not SHARED.is_dir():
        pytest.skip("the shared corpus is not here")
    return SHARED


@pytest.fixture
def load(monkeypatch):
    """Import a benchmark, and neither its folder nor its modules for good."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
