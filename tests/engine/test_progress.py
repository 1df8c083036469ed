"""Progress of a build, and its end from the keyboard."""

from __future__ import annotations

import signal
import threading

import pytest

from convt_onnx.engine import Backend, BuildOptions, build_engine
from convt_onnx.engine.progress import make_monitor, watching

from ..graph.building import array, model, write


class Bars:
    """Records what a rich Progress is told."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.open: dict[int, list[int]] = {}

    def add_task(self, description, total):
        self.shown.append(description)
        self.open[len(self.shown)] = [0, total]
        return len(self.shown)

    def update(self, task, completed):
        self.open[task][0] = completed

    def remove_task(self, task):
        del self.open[task]


@pytest.fixture
def source(tmp_path):
    text = "g (float[2,4,5,7] x) => (float[] y) { y = ConvTranspose <strides=[2,2]> (x, w) }"
    return write(model(text, w=array(4, 3, 3, 4)), tmp_path)


OPTIONS = BuildOptions(backend="tensorrt-rtx", verify=False)


def test_phases_become_bars_that_go(rtx, source):
    bars = Bars()
    build_engine(source, options=OPTIONS, monitor=lambda backend: watching(backend, bars))
    assert bars.shown
    assert bars.open == {}


def test_an_interrupt_ends_the_build(rtx, source, tmp_path):
    class Interrupting(Bars):
        def add_task(self, description, total):
            signal.raise_signal(signal.SIGINT)
            return super().add_task(description, total)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        build_engine(
            source, options=OPTIONS, monitor=lambda backend: watching(backend, Interrupting())
        )
    assert signal.getsignal(signal.SIGINT) is before
    assert not (tmp_path / "model.engine").exists()


def test_other_threads_keep_their_signals(rtx, source):
    bars, errors = Bars(), []

    def work():
        try:
            build_engine(source, options=OPTIONS, monitor=lambda backend: watching(backend, bars))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == []
    assert bars.shown


def test_a_phase_of_a_phase_is_indented(rtx):
    bars = Bars()
    monitor = make_monitor(rtx, bars)
    monitor.phase_start("outer", None, 2)
    monitor.phase_start("inner", "outer", 5)
    assert monitor.step_complete("inner", 3)
    assert bars.open == {1: [0, 2], 2: [4, 5]}
    assert bars.shown == ["outer", "  inner"]
    monitor.stop.set()
    assert not monitor.step_complete("inner", 4)


def test_versions_without_monitors_build_without():
    assert make_monitor(Backend("tensorrt", object()), Bars()) is None
