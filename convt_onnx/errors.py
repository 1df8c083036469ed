"""Errors that a user sees: one sentence what, one line where, one line of help."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    MISSING_PART = 3


def install(extra: str) -> str:
    """The command that adds an optional part, from a checkout of the project."""
    return f"pip install '.[{extra}]' in a checkout of convt-onnx"


class ConvtError(Exception):
    """Base of every error that convt-onnx raises on purpose.

    `what` is one sentence, `where` names node, attribute and value, `help` says what to do.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, what: str, *, help: str, where: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.help = help

    def __str__(self) -> str:
        where = f"\n  at: {self.where}" if self.where else ""
        return f"{self.what}{where}\nhelp: {self.help}"


class GeometryError(ConvtError, ValueError):
    """A transposed convolution whose attributes or shapes do not make sense."""


class ModelError(ConvtError):
    """A file that cannot be read as an ONNX model, or a model that is not well formed."""


class UsageError(ConvtError):
    """An option, a name or a path that does not fit."""


class VerificationError(ConvtError):
    """The rewritten model does not compute what the original computes."""

    exit_code = ExitCode.CHECK_FAILED


class MissingPartError(ConvtError):
    """An optional package or device is needed and absent."""

    exit_code = ExitCode.MISSING_PART
