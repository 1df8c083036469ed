"""`convt-onnx explain`."""

from __future__ import annotations

import click

from convt_onnx.cli.completion import completing, reasons
from convt_onnx.cli.options import json_option, verbose_option


def _ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return completing(reasons)(ctx, param, incomplete.upper())


@click.command("explain", epilog="\b\nExamples:\n  convt-onnx explain CT104\n  convt-onnx explain")
@click.argument("id", required=False, shell_complete=_ids)
@json_option
@verbose_option
def command(id: str | None, as_json: bool, verbose: int) -> None:
    """Tell more about reason ID; without one, list them all."""
    from convt_onnx.reasons import REASONS, get_reason

    found = [REASONS[i] for i in sorted(REASONS)] if id is None else [get_reason(id)]
    if as_json:
        from convt_onnx.cli.output import print_json
        from convt_onnx.report.as_json import document

        print_json(document("explain", reasons=found))
    elif id is None:
        for reason in found:
            click.echo(f"{reason.id}  {reason.title}")
    else:
        click.echo(f"{found[0].id}: {found[0].title}\n")
        click.echo(click.wrap_text(found[0].text, 88))
