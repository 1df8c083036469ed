"""From what `bench` returns to what a report holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from convt_onnx.benching import BenchEntry, BenchResult
from convt_onnx.forms import FORMS
from convt_onnx.optimization import OptimizeResult
from convt_onnx.report.contents import Measured, ModelRow, ModelRun, NodeRow, Peaks, Report
from convt_onnx.report.environment import environment
from convt_onnx.report.gathering import node_rows, now, pass_rows, proof_of, reasons_of


def bench_report_of(
    result: BenchResult, command: Sequence[str] | None = None, peaks: Peaks | None = None
) -> Report:
    """Everything that one run of `bench` found out.

    Where one model was rewritten for one target, that is all what `optimize` tells of it; where
    there were several rewrites, their nodes go by the name of the rewrite too.

    Args:
        result: What it returned.
        command: The command line; None where Python called.
        peaks: What the machine can do, for the roofline.
    """
    rewrites = _rewrites(result.entries)
    only = rewrites[0][1] if len(rewrites) == 1 else None
    nodes = tuple(_nodes(rewrites))
    misses = () if only is None else only.misses
    return Report(
        run="bench",
        title=_title(result.entries),
        modified=False,
        command=None if command is None else tuple(command),
        created=now(),
        environment=environment(),
        measured=Measured(result.runtime, result.device, result.threads, result.seconds),
        models=tuple(_model(e) for e in result.entries),
        nodes=nodes,
        proof=None if only is None else proof_of(only.verification),
        passes=() if only is None else pass_rows(only),
        misses=misses,
        forms={name: form.summary for name, form in FORMS.items()},
        reasons=reasons_of(nodes, (m.reason for m in misses)),
        peaks=peaks,
        attempts=(),
        notes=result.notes,
    )


def _rewrites(entries: Sequence[BenchEntry]) -> list[tuple[str, OptimizeResult]]:
    """What was rewritten, each by the target's name, or by its own where models differ."""
    several = len({e.path for e in entries}) > 1
    return [
        (e.label if several else e.target or "", e.rewriting)
        for e in entries
        if e.rewriting is not None
    ]


def _nodes(rewrites: Sequence[tuple[str, OptimizeResult]]) -> Iterator[NodeRow]:
    first = 1
    for label, made in rewrites:
        rows = node_rows(made.decisions, made.verification, made.tuning, first=first)
        first += len(rows)
        yield from (
            rows
            if len(rewrites) == 1
            else (replace(row, path=f"{row.path} · {label}") for row in rows)
        )


def _title(entries: Sequence[BenchEntry]) -> str:
    if len(entries) == 1:
        return entries[0].label
    return f"{entries[0].label} and {len(entries) - 1} more"


def _model(entry: BenchEntry) -> ModelRow:
    decisions = () if entry.rewriting is None else entry.rewriting.decisions
    return ModelRow(
        label=entry.label,
        path=str(entry.path),
        target=entry.target,
        bytes=entry.bytes,
        ops=entry.ops,
        forms={d.path: d.form for d in decisions},
        runs=tuple(
            ModelRun(r.inputs, r.time, r.speedup)
            for r in entry.runs
            if r.time is not None and r.speedup is not None
        ),
    )
