"""From what `optimize` returns to what a report holds."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from statistics import median

from convt_onnx.decision import Candidate, Decision
from convt_onnx.forms import FORMS
from convt_onnx.graph.epilogue import Epilogue
from convt_onnx.optimization import OptimizeResult
from convt_onnx.pipeline import PASSES
from convt_onnx.reasons import REASONS, Reason, Refusal
from convt_onnx.report.contents import (
    ORIGINAL,
    CandidateRow,
    Measured,
    ModelRow,
    ModelRun,
    NodeRow,
    PassRow,
    Peaks,
    Proof,
    Report,
)
from convt_onnx.report.environment import environment
from convt_onnx.report.geometry import epilogue_text, geometry_text
from convt_onnx.report.units import time_text
from convt_onnx.tuning.times import Attempt, FormTiming, NodeTiming, Timing, Tuning
from convt_onnx.verify import NodeCheck, Verification

# Of their median, the distance of the quartiles of the runs of one thing on a busy machine.
BUSY = 0.4


def report_of(
    result: OptimizeResult,
    command: Sequence[str] | None = None,
    peaks: Peaks | None = None,
) -> Report:
    """Everything that one run of `optimize` found out.

    Args:
        result: What it returned.
        command: The command line; None where Python called.
        peaks: What the machine can do, for the roofline.
    """
    nodes = node_rows(result.decisions, result.verification, result.tuning)
    return Report(
        run="optimize",
        title=result.source.name,
        modified=result.modified,
        command=None if command is None else tuple(command),
        created=now(),
        environment=environment(),
        measured=measured(result.tuning),
        models=_models(result),
        nodes=nodes,
        proof=proof_of(result.verification),
        passes=pass_rows(result),
        misses=result.misses,
        forms={name: form.summary for name, form in FORMS.items()},
        reasons=reasons_of(nodes, (m.reason for m in result.misses)),
        peaks=peaks,
        attempts=() if result.tuning is None else result.tuning.attempts,
        notes=(*result.notes, *timing_notes(result)),
    )


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def measured(tuning: Tuning | None) -> Measured | None:
    """Where the times were taken."""
    if tuning is None:
        return None
    return Measured(tuning.runtime, tuning.device, tuning.threads, tuning.seconds)


def _models(result: OptimizeResult) -> tuple[ModelRow, ModelRow]:
    models = () if result.tuning is None else result.tuning.models
    before = ModelRow(
        label="before",
        path=str(result.source),
        target=None,
        bytes=result.input_bytes,
        ops=result.ops_before,
        forms={},
        runs=tuple(ModelRun(m.inputs, m.before, 1.0) for m in models),
    )
    after = ModelRow(
        label="after",
        path=None if result.output is None else str(result.output),
        target=result.target,
        bytes=result.output_bytes,
        ops=result.ops_after,
        forms={d.path: d.form for d in result.decisions},
        runs=tuple(ModelRun(m.inputs, m.after, m.ratio) for m in models),
    )
    return before, after


def timing_notes(result: OptimizeResult) -> list[str]:
    """Each rewrite of the whole model that was not found to be faster, and how sure times are."""
    if result.tuning is None:
        return []
    lines = [line for a in result.tuning.attempts for line in _tried(a)]
    if _is_busy(result.tuning):
        lines.append(
            "times spread widely, as on a busy machine, and may decide otherwise on a quiet one; "
            "--no-tune decides by expected times"
        )
    return lines


def _is_busy(tuning: Tuning) -> bool:
    """Whether the originals' own runs, of the whole model or of nodes, were far apart."""
    models = [m for a in tuning.attempts for m in a.models] + list(tuning.models)
    whole = [m.before for m in models]
    nodes = [t for n in tuning.nodes if not n.cached and (t := n.time_of(ORIGINAL)) is not None]
    return any(
        median((t.high_us - t.low_us) / t.median_us for t in times) > BUSY
        for times in (whole, nodes)
        if times
    )


def _tried(attempt: Attempt) -> list[str]:
    if attempt.faster is None:
        return [
            f"the time for tuning ran out before the whole model with {attempt.changed} was "
            "compared with the original; --tune-seconds gives more"
        ]
    if not attempt.models:
        return [f"with {attempt.changed} the whole model does not run"]
    return [
        f"with {attempt.changed} the whole model was not faster by enough on {m.inputs}: "
        f"{_spread(m.before)} before, {_spread(m.after)} after"
        for m in attempt.models
    ]


def _spread(timing: Timing) -> str:
    """The middle half of the runs, which says how sure a median is."""
    low, high = (time_text(t) for t in (timing.low_us, timing.high_us))
    return f"{low} to {high} (quartiles of {timing.runs} runs)"


def pass_rows(result: OptimizeResult) -> tuple[PassRow, ...]:
    """What each pass did."""
    summaries = {cls.name: cls.summary for cls in PASSES}
    names = [name for name in summaries if name in result.changes]
    return tuple(PassRow(name, summaries[name], result.changes[name]) for name in names)


def proof_of(verification: Verification | None) -> Proof | None:
    """How it was verified; the nodes' checks stand with the nodes."""
    if verification is None:
        return None
    return Proof(
        ok=verification.ok,
        arithmetic=verification.arithmetic,
        input_origin=verification.input_origin,
        input_shapes=verification.input_shapes,
        assumed_sizes=verification.assumed_sizes,
        seed=verification.seed,
        tolerance=verification.tolerance,
        outputs=verification.outputs,
        notes=verification.notes,
    )


def node_rows(
    decisions: Sequence[Decision],
    verification: Verification | None,
    tuning: Tuning | None,
    *,
    first: int = 1,
) -> tuple[NodeRow, ...]:
    """One row a decision, with what was timed and checked; numbered from `first` on."""
    checks = {} if verification is None else {c.path: c for c in verification.nodes}
    timings = {} if tuning is None else {n.path: n for n in tuning.nodes}
    reverted = () if tuning is None else tuning.reverted
    return tuple(
        _node_row(i, d, checks.get(d.path), timings.get(d.path), reverted=d.path in reverted)
        for i, d in enumerate(decisions, first)
    )


def _node_row(
    number: int,
    decision: Decision,
    check: NodeCheck | None,
    timing: NodeTiming | None,
    *,
    reverted: bool,
) -> NodeRow:
    times = {} if timing is None else {f.form: f for f in timing.forms}
    before = None if timing is None else timing.time_of(ORIGINAL)
    behind = decision.epilogue
    return NodeRow(
        number=number,
        path=decision.path,
        form=decision.form,
        reason=decision.reason,
        rewritten=decision.rewritten,
        reverted=reverted,
        geometry=geometry_text(decision.spec),
        spec=decision.spec,
        dtype=decision.dtype,
        costs=decision.costs,
        inputs=decision.inputs,
        epilogue=epilogue_text(behind) if isinstance(behind, Epilogue) else "",
        no_epilogue=behind if isinstance(behind, Refusal) else None,
        before=before,
        after=None if timing is None else timing.time_of(decision.form or ORIGINAL),
        cached=timing is not None and timing.cached,
        check=check,
        candidates=tuple(_candidate_row(c, times.get(c.form)) for c in decision.candidates),
    )


def _candidate_row(candidate: Candidate, timed: FormTiming | None) -> CandidateRow:
    return CandidateRow(
        form=candidate.form,
        macs=None if candidate.work is None else candidate.work.macs,
        elements=None if candidate.work is None else candidate.work.elements,
        refusal=candidate.refusal,
        time=None if timed is None else timed.time,
        untimed="" if timed is None else timed.why,
        expected_us=candidate.expected_us,
    )


def reasons_of(nodes: Sequence[NodeRow], others: Iterable[Refusal] = ()) -> tuple[Reason, ...]:
    """Every reason that is mentioned, by id."""
    ids = {n.reason.id for n in nodes} | {refusal.id for refusal in others}
    ids |= {n.no_epilogue.id for n in nodes if n.no_epilogue is not None}
    ids |= {c.refusal.id for n in nodes for c in n.candidates if c.refusal is not None}
    return tuple(REASONS[id] for id in sorted(ids))
