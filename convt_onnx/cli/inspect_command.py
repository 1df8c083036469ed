"""`convt-onnx inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from convt_onnx.cli.completion import completing, targets
from convt_onnx.cli.options import TARGETS_TEXT, ModelPath, json_option, verbose_option

EPILOG = """\b
Examples:
  convt-onnx inspect decoder.onnx
  convt-onnx inspect decoder.onnx --target portable --verbose
  convt-onnx inspect decoder.onnx --json
"""


@click.command("inspect", epilog=EPILOG)
@click.argument("model", type=ModelPath)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    shell_complete=completing(targets),
    help=f"Only this target, of {TARGETS_TEXT}; may be repeated.  [default: all]",
)
@json_option
@verbose_option
def command(model: Path, targets: tuple[str, ...], as_json: bool, verbose: int) -> None:
    """Tell what each ConvTranspose of MODEL is, costs, and becomes on each target.

    --verbose lists every form with its cost or the reason why it does not apply.
    """
    from convt_onnx.cli import output as out
    from convt_onnx.inspection import inspect
    from convt_onnx.report.as_json import document
    from convt_onnx.report.tables import inspect_table

    console = out.console()
    with out.progress(console) as step:
        step("inspecting")
        result = inspect(model, targets)
    if as_json:
        out.print_json(document("inspect", result=result))
    else:
        inspect_table(out.answer_console(), result, verbose=verbose > 0)
