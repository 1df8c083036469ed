from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from convt_onnx.cli import main

from ..graph.building import array, model, op_types, write
from ..tuning.faking import Clock, FakeRuntime

TEXT = """g (float[N,3,L] x) => (float[A,B,C] y) {
  [up] h = ConvTranspose <strides=[2], auto_pad="SAME_UPPER"> (x, w)
  [down] y = ConvTranspose (h, v) }"""


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
def source(tmp_path) -> Path:
    """A model with two nodes, of open sizes."""
    return write(model(TEXT, w=array(3, 4, 5), v=array(4, 2, 3)), tmp_path)


@pytest.fixture
def no_onnxruntime(monkeypatch):
    """As if onnxruntime were not installed."""
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)


@pytest.fixture
def fake_runtime(monkeypatch):
    """A runtime whose models take the seconds of the first of their operators that is named."""

    def install(seconds: dict[str, float], rest: float) -> None:
        def speed(proto):
            return next((seconds[o] for o in op_types(proto) if o in seconds), rest)

        def make(target, threads):
            return FakeRuntime(speed, clock, threads=threads) if target.provider else None

        clock = Clock()
        monkeypatch.setattr("convt_onnx.tuning.start.runtime_for", make)
        monkeypatch.setattr("convt_onnx.tuning.nodes.perf_counter", clock)

    return install
