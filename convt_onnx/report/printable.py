"""Text of models and runtimes, made harmless for a terminal."""

from __future__ import annotations

import re
import shlex

from rich import markup

# C0 and C1 controls, which move the cursor or recolour, and marks that reverse the direction.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""One line: control characters spelt out, a line break as \x0a."""
    return CONTROL.sub(_spelt, text)


def escape(text: str) -> str:
    """`printable`, with rich's markup taken literally."""
    return markup.escape(printable(text))


def node_text(path: str) -> str:
    """A node's name as a shell takes it, quoted where it must be: `--skip` is often pasted."""
    return escape(shlex.quote(path))


def _spelt(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
