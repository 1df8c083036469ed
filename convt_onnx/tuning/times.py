"""What was timed, as plain data; times are wall microseconds of one run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Interleaved runs of one thing.

    Attributes:
        median_us, low_us, high_us: Median and quartiles.
        runs: How many runs the median is of.
    """

    median_us: float
    low_us: float
    high_us: float
    runs: int


@dataclass(frozen=True, slots=True)
class FormTiming:
    """One form of one node; `time` is None where it was not timed, and `why` says why."""

    form: str
    time: Timing | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeTiming:
    """The forms of one node, timed against each other.

    Attributes:
        path: Unique name of the node.
        x_shapes: Input sizes that were timed; the choice weighs all of them.
        dtype: Element type as ONNX names it.
        forms: One for each form and the node as it was (`original`).
        chosen: The form taken.
        cached: Whether the times come from an earlier run.
    """

    path: str
    x_shapes: tuple[tuple[int, ...], ...]
    dtype: str
    forms: tuple[FormTiming, ...]
    chosen: str
    cached: bool


@dataclass(frozen=True, slots=True)
class ModelTiming:
    """The whole model before and after, on one set of input sizes; `ratio` is before/after."""

    inputs: str
    before: Timing
    after: Timing
    ratio: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """Everything that was measured for one model.

    Attributes:
        runtime: Runtime with its version and provider.
        device: Processor or GPU.
        threads: Threads that a session may use.
        seconds: Wall time that measuring took.
        nodes: One for each node that was timed.
        models: The whole model, one for each set of input sizes.
        reverted: Paths of nodes put back since the whole model was slower with them.
    """

    runtime: str
    device: str
    threads: int
    seconds: float
    nodes: tuple[NodeTiming, ...]
    models: tuple[ModelTiming, ...]
    reverted: tuple[str, ...] = ()
