"""A clock, a runtime and times that a test sets: nothing here depends on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle

import onnx

from convt_onnx.tuning.choosing import choose, measured
from convt_onnx.tuning.race import Race
from convt_onnx.verify.session import RunError

from ..graph.building import op_types


def form_of(proto: onnx.ModelProto) -> str:
    """The form that a model of one node is in, as far as the tests need to know."""
    ops = op_types(proto)
    if "Pad" in ops:
        return "other"
    if "ConvTranspose" in ops:
        return "keep"
    return "phases" if ops.count("Conv") == 1 else "other"


@dataclass
class Clock:
    """Seconds that only running makes pass."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeTimed:
    """Takes the seconds it is told, one after the other, from the start again at the end."""

    clock: Clock
    times: Iterator[float]
    log: list[str] = field(default_factory=list)
    name: str = ""
    runs: int = 0

    def seconds(self, runs: int) -> float:
        total = 0.0
        for _ in range(runs):
            total += next(self.times)
        self.clock.now += total
        self.runs += runs
        self.log.append(self.name)
        return total / runs


def loaders(clock: Clock, log: list[str] | None = None, **times: list[float]):
    """Loaders by name of things to time; they go on with their seconds when loaded again."""
    log = [] if log is None else log
    return {n: partial(FakeTimed, clock, cycle(t), log, n) for n, t in times.items()}


def chosen(race: Race) -> str:
    """The form that its times speak for."""
    return choose([measured(race)]).form


@dataclass
class FakeRuntime:
    """Gives each model the seconds that `speed` says; remembers what it loaded."""

    speed: Callable[[onnx.ModelProto], float]
    clock: Clock = field(default_factory=Clock)
    name: str = "fake 1.0"
    device: str = "none"
    threads: int = 0
    loaded: list[onnx.ModelProto] = field(default_factory=list)
    timed: list[FakeTimed] = field(default_factory=list)
    prepared: list[onnx.ModelProto] = field(default_factory=list)
    prepare_seconds: float = 0.0

    def prepare(self, source) -> None:
        self.prepared.append(source.proto)
        self.clock.now += self.prepare_seconds

    def load(self, source, feeds) -> FakeTimed:
        onnx.checker.check_model(source.proto)
        assert {i.name for i in source.proto.graph.input} <= set(feeds)
        seconds = self.speed(source.proto)
        if seconds is None:
            raise RunError("the fake does not load the model", where="told so", help="ask for less")
        self.loaded.append(source.proto)
        self.timed.append(FakeTimed(self.clock, cycle([seconds])))
        return self.timed[-1]


def by_form(times: dict[str, float], *, rest: float = 1.0) -> Callable[[onnx.ModelProto], float]:
    """Seconds by what a model of one node is made of; `rest` for forms that are not named."""

    def speed(proto: onnx.ModelProto) -> float:
        return times.get(form_of(proto), rest)

    return speed
