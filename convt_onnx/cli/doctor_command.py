"""`convt-onnx doctor`."""

from __future__ import annotations

import click

from convt_onnx.cli.options import json_option, verbose_option


@click.command("doctor", epilog="\b\nExamples:\n  convt-onnx doctor\n  convt-onnx doctor --json")
@json_option
@verbose_option
def command(as_json: bool, verbose: int) -> None:
    """Tell what is installed and which parts work with it."""
    from convt_onnx.doctor import diagnose

    diagnosis = diagnose()
    if as_json:
        from convt_onnx.cli.output import print_json
        from convt_onnx.report.as_json import document

        print_json(document("doctor", result=diagnosis))
        return
    click.echo(f"Python {diagnosis.python} on {diagnosis.platform}")
    for package in diagnosis.packages:
        click.echo(f"  {package.name:24} {package.version or '-'}")
    for part in diagnosis.parts:
        state = "partly" if part.partly else "works" if part.works else "missing"
        click.echo(f"{state:7}  {part.name:26} {part.detail}")
