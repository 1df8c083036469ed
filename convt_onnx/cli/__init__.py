"""The command line. Heavy imports wait until a command runs."""

from __future__ import annotations

import sys

import click

from convt_onnx.cli.group import LazyGroup
from convt_onnx.errors import ExitCode

EPILOG = """\b
Exit codes:
  0  done (verified, or nothing to do)
  1  a check failed
  2  wrong usage, or an input that cannot be read
  3  an optional part is missing

\b
Examples:
  convt-onnx inspect model.onnx
  convt-onnx optimize model.onnx
  convt-onnx optimize model.onnx --target portable -o portable.onnx
  convt-onnx optimize model.onnx --report report.html
  convt-onnx build model.onnx -o model.engine

Shell completion: eval "$(_CONVT_ONNX_COMPLETE=bash_source convt-onnx)"
"""


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(None, "--version", package_name="convt-onnx", prog_name="convt-onnx")
def cli() -> None:
    """Rewrites every ConvTranspose of an ONNX model into the form that its runtime runs right
    and fastest, proves the result, and explains each decision.
    """


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every error becomes a few lines and an exit code."""
    from convt_onnx.cli.failure import report_failure

    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        # The arguments as they were given: a report shows the exact command.
        given = tuple(arguments)
        code = cli.main(arguments, prog_name="convt-onnx", standalone_mode=False, obj=given)
    except BaseException as error:
        code = report_failure(error, arguments)
    sys.exit(code if isinstance(code, int) else ExitCode.OK)
