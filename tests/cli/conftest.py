from __future__ import annotations

from pathlib import Path

import pytest

from ..graph.building import array, model, op_types, write
from ..tuning.faking import Clock, FakeRuntime

TEXT = """g (float[N,3,L] x) => (float[A,B,C] y) {
  [up] h = ConvTranspose <strides=[2], auto_pad="SAME_UPPER"> (x, w)
  [down] y = ConvTranspose (h, v) }"""


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
