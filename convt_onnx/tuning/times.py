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
    """One form of one node.

    Attributes:
        form: Its name; `keep` is the node as it was.
        time: At the sizes that decide; None where it was not timed.
        why: Why it was not timed, or not to the end.
        times: One for each of the node's sizes.
    """

    form: str
    time: Timing | None
    why: str = ""
    times: tuple[Timing | None, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTiming:
    """The forms of one node, timed against each other.

    Attributes:
        path: Unique name of the node.
        x_shapes: Input sizes that were timed; the choice weighs all of them.
        dtype: Element type as ONNX names it.
        forms: One for each form that the target can run, `keep` first where it is among them.
        chosen: The form taken.
        cached: Whether the times come from an earlier run.
        deciding: Which of the sizes `FormTiming.time` is of: those where the chosen form gains
            least, unless sizes have weights.
    """

    path: str
    x_shapes: tuple[tuple[int, ...], ...]
    dtype: str
    forms: tuple[FormTiming, ...]
    chosen: str
    cached: bool
    deciding: int = 0

    def time_of(self, form: str) -> Timing | None:
        """Of one form, at the sizes that decide."""
        return next((f.time for f in self.forms if f.form == form), None)


@dataclass(frozen=True, slots=True)
class ModelTiming:
    """The whole model before and after, on one set of input sizes.

    `ratio` is the median time before over the median time after.
    """

    inputs: str
    before: Timing
    after: Timing
    ratio: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rewrite of the whole model, timed in turn with the original.

    Attributes:
        changed: What is different in it, as people are told.
        models: One for each set of input sizes; none where the rewrite does not run.
        faster: Whether it is, beyond doubt; None where the time ran out before enough runs.
    """

    changed: str
    models: tuple[ModelTiming, ...]
    faster: bool | None


@dataclass(frozen=True, slots=True)
class Tuning:
    """Everything that was measured for one model.

    Attributes:
        runtime: Runtime with its version and provider.
        device: Processor or GPU.
        threads: Threads that a session may use; 0 is the runtime's own default.
        seconds: Wall time that measuring took.
        nodes: One for each node that was timed.
        models: The whole model in the rewrite that was taken, one for each set of input sizes;
            none where the original was kept or the time ran out.
        attempts: Rewrites that were not found to be faster, in the order they were timed.
        reverted: Paths of nodes put back since the whole model was slower with them.
        rule: How several sizes are weighed: "worst" or "weighted".
    """

    runtime: str
    device: str
    threads: int
    seconds: float
    nodes: tuple[NodeTiming, ...]
    models: tuple[ModelTiming, ...]
    attempts: tuple[Attempt, ...] = ()
    reverted: tuple[str, ...] = ()
    rule: str = "worst"


def speed(first: Timing, other: Timing) -> float:
    """How many times as fast as the first: its median time over the other's.

    This is what people are shown; forms are chosen by the ratios of paired runs.
    """
    return first.median_us / other.median_us
