"""Models timed against each other, on the terminal."""

from __future__ import annotations

from rich.console import Console

from convt_onnx.benching import BenchResult, BenchRun
from convt_onnx.report.printable import escape
from convt_onnx.report.tables import SPEED_LEGEND, new_table
from convt_onnx.report.units import ratio_text, size_text, time_text


def bench_table(console: Console, result: BenchResult) -> None:
    """One table a set of input sizes, a row a model."""
    threads = f", {result.threads} threads" if result.threads else ""
    console.print(escape(f"{result.runtime} on {result.device}{threads}"))
    for i, run in enumerate(result.entries[0].runs):
        console.print(f"\n{escape(run.inputs)}", style="bold")
        table = new_table("model", "nodes", "size", "time", "quartiles", "speed")
        for entry in result.entries:
            nodes = str(sum(entry.ops.values()))
            cells = _cells(entry.runs[i])
            table.add_row(escape(entry.label), nodes, size_text(entry.bytes), *cells)
        console.print(table)
    console.print(SPEED_LEGEND)
    for note in result.notes:
        console.print(f"  note: {escape(note)}")


def _cells(run: BenchRun) -> tuple[str, str, str]:
    if run.time is None:
        return "-", escape(run.why), "-"
    t = run.time
    speed = "-" if run.speedup is None else ratio_text(run.speedup)
    return time_text(t.median_us), f"{time_text(t.low_us)} – {time_text(t.high_us)}", speed
