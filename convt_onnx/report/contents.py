"""What a report holds, as plain data; `report.schema.json` describes its JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convt_onnx.costs import Costs
from convt_onnx.passes.base import Miss
from convt_onnx.reasons import Reason, Refusal
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.tuning.times import Attempt, Timing
from convt_onnx.verify import Comparison, NodeCheck, Tolerance

# The form that is the node as it was.
ORIGINAL = "keep"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line about the environment."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Where times were taken; `seconds` is the wall time that this took."""

    runtime: str
    device: str
    threads: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelRun:
    """A whole model on one set of input sizes; `speedup` is the first's median over its own."""

    inputs: str
    time: Timing
    speedup: float


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One file, or what it becomes for a target.

    Attributes:
        label: What tells it from the others.
        path: The file; None where nothing was written.
        target: The target it was rewritten for.
        bytes: Model and external data.
        ops: Nodes by operator.
        forms: Form of each node that was decided on, by node path.
        runs: One for each set of input sizes; empty where it was not timed.
    """

    label: str
    path: str | None
    target: str | None
    bytes: int | None
    ops: Mapping[str, int]
    forms: Mapping[str, str | None]
    runs: tuple[ModelRun, ...]


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One form of one node: its work or why it is out, and its time or why it has none.

    `expected_us` is by the cost model, in microseconds; None where it was not asked.
    """

    form: str
    macs: int | None
    elements: int | None
    refusal: Refusal | None
    time: Timing | None
    untimed: str
    expected_us: float | None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One ConvTranspose.

    Attributes:
        number: From 1 on, as charts and tables label it.
        path: Unique name of the node.
        form, reason: The decision; form is None where the node was left exactly as it was.
        rewritten: Whether it is no longer a ConvTranspose.
        reverted: Whether it was put back since the whole model was slower with it.
        geometry: The attributes in a few characters.
        spec, dtype: Geometry and element type, None where they are unknown.
        costs: FLOPs and bytes of one call, at the timed sizes where there are any.
        inputs: Of several sets of input sizes the one that costs, work and times are of; empty
            where there is one, or the node's sizes are fixed.
        epilogue: The activation and residual behind the node, in words; empty where there is none.
        no_epilogue: Why there is none.
        before, after: Times of the node as it was and in the form taken.
        cached: Whether the times come from an earlier run.
        check: The comparison with the oracle.
        candidates: Every form that was weighed.
    """

    number: int
    path: str
    form: str | None
    reason: Refusal
    rewritten: bool
    reverted: bool
    geometry: str
    spec: ConvTransposeSpec | None
    dtype: str | None
    costs: Costs | None
    inputs: str
    epilogue: str
    no_epilogue: Refusal | None
    before: Timing | None
    after: Timing | None
    cached: bool
    check: NodeCheck | None
    candidates: tuple[CandidateRow, ...]


@dataclass(frozen=True, slots=True)
class PassRow:
    """What one pass did, a line for each change."""

    name: str
    summary: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """How the result was verified; one mapping of shapes for each set of input sizes."""

    ok: bool
    arithmetic: str
    input_origin: str
    input_shapes: Sequence[Mapping[str, list[int]]]
    assumed_sizes: bool
    seed: int
    tolerance: Tolerance
    outputs: tuple[Comparison, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Peaks:
    """The best that the machine was seen to do, and how it was asked."""

    flops_per_s: float
    bytes_per_s: float
    how: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found out.

    Attributes:
        run: "optimize" or "bench".
        title: What the report is about.
        modified: Whether a rewritten model was written, not a copy of the original.
        command: The command line; None where Python called.
        created: Time of writing, UTC, ISO 8601.
        environment: Software and hardware.
        measured: None where nothing was timed.
        models: The original first.
        nodes: One for each ConvTranspose of the original.
        proof: None where nothing was verified.
        passes: What was run, in order.
        misses: What a pass saw and refused.
        forms: A line about each form.
        reasons: Every reason that is mentioned anywhere.
        peaks: None where they were not measured.
        attempts: Rewrites of the whole model that were not found to be faster.
        notes: What a reader should know besides.
    """

    run: str
    title: str
    modified: bool
    command: tuple[str, ...] | None
    created: str
    environment: tuple[Fact, ...]
    measured: Measured | None
    models: tuple[ModelRow, ...]
    nodes: tuple[NodeRow, ...]
    proof: Proof | None
    passes: tuple[PassRow, ...]
    misses: tuple[Miss, ...]
    forms: Mapping[str, str]
    reasons: tuple[Reason, ...]
    peaks: Peaks | None
    attempts: tuple[Attempt, ...]
    notes: tuple[str, ...]
