"""Any exception as "error: …", an optional place, "help: …", and an exit code."""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import click

from convt_onnx.cli.group import COMMANDS
from convt_onnx.errors import ConvtError, ExitCode


def report_failure(error: BaseException, arguments: Sequence[str]) -> int:
    """Print the error (as JSON on stdout where --json was given) and return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        click.echo("interrupted", err=True)
        return 130
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return int(ExitCode.USAGE)
    known = _as_known(error, _own_help(arguments))
    if "--json" not in arguments or not _printed_as_json(known):
        with suppress(OSError):  # where nothing can be written, the exit code is what is left
            click.echo(_lines(known), err=True)
    if _verbosity(arguments) > 1:
        traceback.print_exception(error, file=sys.stderr)
    return int(known.exit_code)


def _printed_as_json(error: ConvtError) -> bool:
    """Whether stdout took it: what failed may be a full disk behind stdout itself."""
    from convt_onnx.report.as_json import error_document

    try:
        click.echo(json.dumps(error_document(error), indent=2))
    except OSError:
        return False
    return True


def _own_help(arguments: Sequence[str]) -> str:
    """Where the options of the command that was called are told."""
    command = [a for a in arguments[:1] if a in COMMANDS]
    return " ".join(["convt-onnx", *command, "--help"])


def _verbosity(arguments: Sequence[str]) -> int:
    short = (a for a in arguments if re.fullmatch("-v+", a))
    return sum(len(a) - 1 for a in short) + list(arguments).count("--verbose")


def _lines(error: ConvtError) -> str:
    from convt_onnx.report.printable import printable

    lines = [f"error: {error.what}"]
    if error.where:
        lines.append(f"  at:  {error.where}")
    lines.append(f"help:  {error.help}")
    return "\n".join(map(printable, lines))


def _as_known(error: BaseException, own_help: str) -> ConvtError:
    """The error as one of ours; `own_help` where nothing better is known."""
    if isinstance(error, ConvtError):
        return error
    if isinstance(error, click.UsageError):
        context = error.ctx.command_path if error.ctx else "convt-onnx"
        return ConvtError(error.format_message().rstrip("."), help=f"{context} --help")
    if isinstance(error, click.ClickException):
        return ConvtError(error.format_message(), help=own_help)
    if isinstance(error, MemoryError):
        return ConvtError(
            "not enough memory", help="a smaller --input-shapes; optimize also takes --no-verify"
        )
    if isinstance(error, OSError):
        where = str(error.filename or "")
        return ConvtError(
            f"cannot read or write: {error.strerror or error}", where=where, help=own_help
        )
    failure = ConvtError(
        f"internal error: {type(error).__name__}: {error}",
        help="please report this with the model; -vv shows the traceback",
    )
    failure.exit_code = ExitCode.CHECK_FAILED
    return failure
