"""`convt-onnx models`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convt_onnx.cli.completion import complete_size, completing, decoders
from convt_onnx.cli.options import ModelPath, json_option, verbose_option

if TYPE_CHECKING:
    from convt_onnx.models.exporting import Exporter, Opset, Precision

LIST_EPILOG = """\b
Examples:
  convt-onnx models list
  convt-onnx models list --json
"""
EXPORT_EPILOG = """\b
Examples:
  convt-onnx models export hifigan -o hifigan.onnx --size full --dynamic
"""


@click.group("models", epilog="\b\nExamples:\n  convt-onnx models list")
def command() -> None:
    """List or export the decoders that come with the tool."""


@command.command("list", epilog=LIST_EPILOG)
@json_option
@verbose_option
def list_models(as_json: bool, verbose: int) -> None:
    """Names, sizes and one line on each."""
    from convt_onnx.models import get, names

    infos = [get(name) for name in names()]
    if as_json:
        from convt_onnx.cli.output import print_json
        from convt_onnx.report.as_json import document

        print_json(document("models", models=infos))
        return
    for info in infos:
        click.echo(f"{info.name:14} {info.summary} [{', '.join(info.sizes)}]")


@command.command(
    "export",
    short_help="Export a decoder; needs torch and onnxscript.",
    epilog=EXPORT_EPILOG,
)
@click.argument("name", shell_complete=completing(decoders))
@click.option("-o", "--output", type=ModelPath, help="Where to write.  [default: NAME.onnx]")
@click.option(
    "--size",
    default="tiny",
    show_default=True,
    shell_complete=complete_size,
    help="A size that `models list` names.",
)
@click.option("--dynamic", is_flag=True, help="Leave batch and spatial sizes open.")
@click.option(
    "--opset",
    type=click.Choice([17, 18]),
    default=18,
    show_default=True,
    help="Of the standard operators.",
)
@click.option(
    "--exporter",
    type=click.Choice(["dynamo", "torchscript"]),
    default="dynamo",
    show_default=True,
    help="Which of torch's exporters.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="Element type.",
)
@click.option("--seed", default=0, show_default=True, help="Of the random weights.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@verbose_option
def export_model(
    name: str,
    output: Path | None,
    size: str,
    dynamic: bool,
    opset: Opset,
    exporter: Exporter,
    dtype: Precision,
    seed: int,
    force: bool,
    verbose: int,
) -> None:
    """Export decoder NAME with seeded weights; needs torch and onnxscript."""
    from convt_onnx.model_io import check_new_file
    from convt_onnx.models import export

    path = output or Path(f"{name}.onnx")
    check_new_file(path, force=force)
    written = export(
        name,
        path,
        size=size,
        dynamic=dynamic,
        opset=opset,
        exporter=exporter,
        dtype=dtype,
        seed=seed,
    )
    click.echo(written)
