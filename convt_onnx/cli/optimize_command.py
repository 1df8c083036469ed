"""`convt-onnx optimize`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from convt_onnx.cli.completion import complete_form, complete_passes, completing, targets
from convt_onnx.cli.options import (
    TARGETS_TEXT,
    ModelPath,
    json_option,
    parse_forms,
    quiet_option,
    report_option,
    sized_input_options,
    tune_options,
    verbose_option,
)

if TYPE_CHECKING:
    from convt_onnx.optimization import OptimizeOptions

EPILOG = """\b
Examples:
  convt-onnx optimize decoder.onnx
  convt-onnx optimize decoder.onnx --target portable -o decoder_portable.onnx
  convt-onnx optimize decoder.onnx --report decoder.html
  convt-onnx optimize decoder.onnx --form /up/ConvTranspose=phases --input-shapes mel:1,80,200
  convt-onnx optimize vocoder.onnx --input-shapes mel:1,80,50@9 --input-shapes mel:1,80,800@1
"""


@click.command("optimize", epilog=EPILOG)
@click.argument("model", type=ModelPath)
@click.option(
    "-o", "--output", type=ModelPath, help="Where to write.  [default: MODEL's stem + .convt.onnx]"
)
@click.option(
    "--target",
    default="ort-cpu",
    show_default=True,
    metavar="NAME",
    shell_complete=completing(targets),
    help=f"Where the model is to run: {TARGETS_TEXT}.",
)
@click.option(
    "--form",
    "forms",
    multiple=True,
    metavar="NODE=FORM",
    shell_complete=complete_form,
    help="Force a form that `inspect -v` lists; NODE may be `all`; may be repeated.",
)
@click.option(
    "--skip", multiple=True, metavar="NODE", help="Leave a node exactly as it is; may be repeated."
)
@click.option("--verify/--no-verify", default=True, show_default=True, help="Run both and compare.")
@sized_input_options
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option("--dry-run", is_flag=True, help="Decide and verify, write no model.")
@click.option(
    "--dequantize",
    is_flag=True,
    help="Fold DequantizeLinear weights and biases into float ones.  [default: kept as integers]",
)
@click.option(
    "--plugin/--no-plugin",
    default=False,
    show_default=True,
    help="Let this project's kernels compute nodes; the target loads them as its plugin.",
)
@click.option(
    "--passes",
    metavar="NAME,…",
    default="",
    shell_complete=complete_passes,
    help="Run only these passes; `-v` lists them.",
)
@click.option(
    "--dump-dir",
    "dump",
    type=ModelPath,
    help="A folder for the model after each pass that changed it.",
)
@tune_options
@report_option
@json_option
@quiet_option
@verbose_option
def command(
    model: Path,
    output: Path | None,
    forms: tuple[str, ...],
    skip: tuple[str, ...],
    passes: str,
    report: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: int,
    **as_given: Any,
) -> None:
    """Rewrite the ConvTranspose nodes of MODEL for a target, verify, and write the result.

    Prints the path of the written model. Nothing is written where a check fails.
    """
    from convt_onnx.optimization import OptimizeOptions

    options = OptimizeOptions(
        forms=parse_forms(forms),
        skip=frozenset(skip),
        passes=tuple(p.strip() for p in passes.split(",") if p.strip()),
        **as_given,
    )
    _run(model, output, options, report, as_json=as_json, quiet=quiet, verbose=verbose > 0)


def _run(
    model: Path,
    output: Path | None,
    options: OptimizeOptions,
    report: Path | None,
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Optimise; the table goes to stderr, the path or the document to stdout."""
    from convt_onnx.cli import output as out
    from convt_onnx.optimization import default_output, optimize
    from convt_onnx.report.as_json import document
    from convt_onnx.report.optimize_table import optimize_table
    from convt_onnx.report.writing import check_report_path, write_report

    if report is not None:
        used = (model, output or default_output(model))
        check_report_path(report, *used, force=options.force)
    console = out.console(quiet=quiet)
    with out.progress(console) as steps:
        result = optimize(model, output, options, progress=steps, tune_progress=steps.measure)
        if report is not None:
            steps("writing the report")
            write_report(result, report, command=out.exact_command(), force=options.force)
    optimize_table(console, result, verbose=verbose)
    if report is not None:
        console.print(f"report {report}", markup=False, soft_wrap=True)
    if as_json:
        out.print_json(document("optimize", result=result))
    elif result.output is not None:
        click.echo(result.output)
