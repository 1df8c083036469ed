"""`convt-onnx compare`."""

from __future__ import annotations

from pathlib import Path

import click

from convt_onnx.cli.options import ModelPath, json_option, verbose_option

EPILOG = """\b
Examples:
  convt-onnx compare decoder.onnx decoder.convt.onnx
  convt-onnx compare decoder.onnx decoder.convt.onnx --json
"""


@click.command("compare", epilog=EPILOG)
@click.argument("before", type=ModelPath)
@click.argument("after", type=ModelPath)
@json_option
@verbose_option
def command(before: Path, after: Path, as_json: bool, verbose: int) -> None:
    """Tell what is different in AFTER, and what became of each ConvTranspose of BEFORE.

    Nodes are matched by the names of the values around them. Nothing is run: `convt-onnx verify`
    tells whether both compute the same.
    """
    from convt_onnx.cli import output as out
    from convt_onnx.comparison import compare_files
    from convt_onnx.report.as_json import document
    from convt_onnx.report.compare_table import compare_table

    with out.progress(out.console()) as step:
        step("comparing")
        result = compare_files(before, after)
    if as_json:
        out.print_json(document("compare", result=result))
    else:
        compare_table(out.answer_console(), result, verbose=verbose > 0)
