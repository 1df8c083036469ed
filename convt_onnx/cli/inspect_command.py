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
  convt-onnx inspect decoder.onnx --input-shapes mel:1,80,200 --json
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
@click.option(
    "--input-shapes",
    multiple=True,
    metavar="NAME:1,3,64,64",
    help="Sizes to cost with where the model leaves them open; once for each input.",
)
@json_option
@verbose_option
def command(
    model: Path,
    targets: tuple[str, ...],
    input_shapes: tuple[str, ...],
    as_json: bool,
    verbose: int,
) -> None:
    """Tell what each ConvTranspose of MODEL is, costs, and becomes on each target.

    --verbose lists every form with its cost or the reason why it does not apply.
    """
    from convt_onnx.cli import output as out
    from convt_onnx.cli.sizes import parse_one_set
    from convt_onnx.inspection import inspect
    from convt_onnx.report.as_json import document
    from convt_onnx.report.tables import inspect_table

    console = out.console()
    with out.progress(console) as step:
        step("inspecting")
        result = inspect(model, targets, parse_one_set(input_shapes))
    if as_json:
        out.print_json(document("inspect", result=result))
    else:
        inspect_table(out.answer_console(), result, verbose=verbose > 0)
