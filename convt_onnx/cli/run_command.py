"""`convt-onnx run`."""

from __future__ import annotations

from pathlib import Path

import click

from convt_onnx.cli.options import ModelPath, json_option, quiet_option, verbose_option

EPILOG = """\b
Examples:
  convt-onnx run decoder.engine --inputs batch.npz
  convt-onnx run decoder.engine --inputs batch.npz -o result.npz --force
"""


@click.command("run", epilog=EPILOG)
@click.argument("engine", type=ModelPath)
@click.option(
    "--inputs",
    type=ModelPath,
    metavar="FILE.npz",
    required=True,
    help="Arrays by input name, with or without a leading in_.",
)
@click.option(
    "-o", "--output", type=ModelPath, help="Where to write.  [default: ENGINE's stem + .out.npz]"
)
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@json_option
@quiet_option
@verbose_option
def command(
    engine: Path,
    inputs: Path,
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Run ENGINE on the device and write its outputs to an .npz file.

    Prints the path of that file. An engine runs on the kind of GPU that it was built for.
    """
    from convt_onnx.cli import output as out
    from convt_onnx.engine.files import run_file
    from convt_onnx.report.as_json import document
    from convt_onnx.report.printable import escape

    console = out.console(quiet=quiet)
    with out.progress(console) as step:
        step("running")
        result = run_file(engine, inputs, output, force=force)
    for name, shape in result.shapes.items():
        console.print(f"  {escape(name)}: {'×'.join(map(str, shape))}")
    if as_json:
        out.print_json(document("run", result=result))
    else:
        click.echo(result.output)
