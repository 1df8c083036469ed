"""`convt-onnx verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convt_onnx.cli.options import (
    ModelPath,
    input_options,
    json_option,
    quiet_option,
    verbose_option,
)

if TYPE_CHECKING:
    from convt_onnx.verify import VerifyOptions

EPILOG = """\b
Examples:
  convt-onnx verify model.onnx model.convt.onnx
  convt-onnx verify model.onnx model.engine
  convt-onnx verify model.onnx other.onnx --inputs batch.npz --atol 1e-3
"""


@click.command("verify", epilog=EPILOG)
@click.argument("original", type=ModelPath)
@click.argument("other", type=ModelPath)
@input_options
@json_option
@quiet_option
@verbose_option
def command(
    original: Path,
    other: Path,
    checks: VerifyOptions,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Run ORIGINAL and OTHER on the same inputs and compare every output.

    Models run in ONNX Runtime; OTHER may be an engine, which runs on its device.
    Prints PASSED or FAILED; names the first value that differs.
    """
    from convt_onnx.cli import output as out
    from convt_onnx.errors import ExitCode
    from convt_onnx.report.as_json import document
    from convt_onnx.report.tables import verification_table
    from convt_onnx.verify.files import verify_files

    console = out.console(quiet=quiet)
    with out.progress(console) as step:
        step("running both models")
        result = verify_files(original, other, checks)
    verification_table(console, result)
    if as_json:
        out.print_json(document("verify", original=original, other=other, result=result))
    else:
        click.echo("PASSED" if result.ok else "FAILED")
    return int(ExitCode.OK if result.ok else ExitCode.CHECK_FAILED)
