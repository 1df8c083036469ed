"""From what `bench` returns to what a report holds."""

from __future__ import annotations

from collections.abc import Sequence

from convt_onnx.benching import BenchEntry, BenchResult
from convt_onnx.forms import FORMS
from convt_onnx.report.contents import Measured, ModelRow, ModelRun, Report
from convt_onnx.report.environment import environment
from convt_onnx.report.gathering import now


def bench_report_of(result: BenchResult, command: Sequence[str] | None = None) -> Report:
    """Everything that one run of `bench` found out.

    Args:
        result: What it returned.
        command: The command line; None where Python called.
    """
    return Report(
        run="bench",
        title=_title(result.entries),
        modified=False,
        command=None if command is None else tuple(command),
        created=now(),
        environment=environment(),
        measured=Measured(result.runtime, result.device, result.threads, result.seconds),
        models=tuple(_model(e) for e in result.entries),
        nodes=(),
        proof=None,
        passes=(),
        misses=(),
        forms={name: form.summary for name, form in FORMS.items()},
        reasons=(),
        peaks=None,
        notes=result.notes,
    )


def _title(entries: Sequence[BenchEntry]) -> str:
    if len(entries) == 1:
        return entries[0].label
    return f"{entries[0].label} and {len(entries) - 1} more"


def _model(entry: BenchEntry) -> ModelRow:
    return ModelRow(
        label=entry.label,
        path=str(entry.path),
        target=entry.target,
        bytes=entry.bytes,
        ops=entry.ops,
        forms=entry.forms,
        runs=tuple(
            ModelRun(r.inputs, r.time, r.speedup)
            for r in entry.runs
            if r.time is not None and r.speedup is not None
        ),
    )
