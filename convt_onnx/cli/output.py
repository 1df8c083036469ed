"""stdout carries the answer, stderr everything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console


def console(*, quiet: bool = False) -> Console:
    """The console on stderr."""
    return _at_least_wide(Console(stderr=True, quiet=quiet, highlight=False))


def print_json(document: dict[str, Any]) -> None:
    """A JSON document on stdout."""
    click.echo(json.dumps(document, indent=2))


@contextmanager
def progress(to: Console) -> Iterator[Any]:
    """A spinner that names the current step, on a terminal only; yields the callback."""
    with to.status("starting") as status:
        yield lambda step: status.update(step)


def answer_console() -> Console:
    """The console on stdout, for commands whose answer is a table."""
    return _at_least_wide(Console(highlight=False))


def _at_least_wide(console: Console) -> Console:
    """A pipe has no width; 80 columns would fold every name."""
    if not console.is_terminal:
        console.width = max(console.width, 140)
    return console
