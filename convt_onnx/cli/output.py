"""stdout carries the answer, stderr everything else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress


def console(*, quiet: bool = False) -> Console:
    """The console on stderr."""
    return _at_least_wide(Console(stderr=True, quiet=quiet, highlight=False))


def exact_command() -> list[str] | None:
    """The command line as it was given; None where the command was called from Python."""
    given = click.get_current_context().obj
    return None if given is None else ["convt-onnx", *given]


def print_json(document: dict[str, Any]) -> None:
    """A JSON document on stdout."""
    click.echo(json.dumps(document, indent=2))


class Steps:
    """The current step as a spinner; a bar where it is known how much of it is done.

    Attributes:
        bar: The display, where a step may show parts of its own.
    """

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self._task = bar.add_task("starting", total=None)

    def __call__(self, name: str) -> None:
        """A step that takes as long as it takes."""
        self.bar.update(self._task, description=name, total=None)

    def measure(self, name: str, share: float) -> None:
        """A step of which a share of 0 to 1 is done."""
        self.bar.update(self._task, description=name, total=1.0, completed=share)


@contextmanager
def progress(to: Console) -> Iterator[Steps]:
    """Names the current step, on a terminal only."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), text, BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=to, transient=True, disable=not to.is_terminal) as bar:
        yield Steps(bar)


def answer_console() -> Console:
    """The console on stdout, for commands whose answer is a table."""
    return _at_least_wide(Console(highlight=False))


def _at_least_wide(console: Console) -> Console:
    """A pipe has no width unless COLUMNS says one; 80 columns would fold every name."""
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = max(console.width, 140)
    return console
