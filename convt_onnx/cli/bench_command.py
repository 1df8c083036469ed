"""`convt-onnx bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convt_onnx.cli.completion import completing, targets
from convt_onnx.cli.options import (
    TARGETS_TEXT,
    ModelPath,
    json_option,
    report_option,
    sized_input_options,
    tune_options,
    verbose_option,
)

if TYPE_CHECKING:
    from convt_onnx.benching import BenchOptions
    from convt_onnx.tuning.options import TuneOptions
    from convt_onnx.verify import VerifyOptions

EPILOG = """\b
Examples:
  convt-onnx bench decoder.onnx decoder.convt.onnx
  convt-onnx bench decoder.onnx --target ort-cpu --target portable --report bench.html
  convt-onnx bench a.onnx b.onnx --input-shapes mel:1,80,50 --input-shapes mel:1,80,800
"""


@click.command("bench", epilog=EPILOG)
@click.argument("models", metavar="MODEL…", nargs=-1, required=True, type=ModelPath)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    shell_complete=completing(targets),
    help=f"Also time each model as rewritten for this target, of {TARGETS_TEXT}; may be repeated.",
)
@click.option(
    "--seconds", type=float, default=20, show_default=True, help="For each set of input sizes."
)
@sized_input_options
@tune_options
@report_option
@click.option("--force", is_flag=True, help="Replace a report that exists.")
@json_option
@verbose_option
def command(
    models: tuple[Path, ...],
    targets: tuple[str, ...],
    seconds: float,
    checks: VerifyOptions,
    tune: TuneOptions,
    report: Path | None,
    force: bool,
    as_json: bool,
    verbose: int,
) -> None:
    """Time MODELs that take the same inputs in ONNX Runtime's CPU provider, in turns.

    The first is what the others are held to. Prints a table, or JSON.
    """
    from convt_onnx.benching import BenchOptions

    options = BenchOptions(targets, seconds, checks, tune)
    _run(models, options, report, force=force, as_json=as_json)


def _run(
    models: tuple[Path, ...],
    options: BenchOptions,
    report: Path | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    from convt_onnx.benching import bench
    from convt_onnx.cli import output as out
    from convt_onnx.report.as_json import document
    from convt_onnx.report.bench_table import bench_table
    from convt_onnx.report.writing import check_report_path, write_report

    if report is not None:
        check_report_path(report, *models, force=force)
    console = out.console()
    with out.progress(console) as steps:
        result = bench(models, options, progress=steps.measure)
    if report is not None:
        write_report(result, report, command=out.exact_command(), force=force)
        console.print(f"report {report}", markup=False, soft_wrap=True)
    if as_json:
        out.print_json(document("bench", result=result))
    else:
        bench_table(out.answer_console(), result)
