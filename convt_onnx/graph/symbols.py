"""Names of open sizes, which a file may fill with anything."""

from __future__ import annotations

import re

MAX_LENGTH = 200
# Sums, differences, products and quotients of names and small numbers: powers or long digits
# would let a file make whoever evaluates them work for ever.
_PLAIN = re.compile(r"[\w.\s+\-*/(),]+")
_UNBOUNDED = re.compile(r"\*\s*\*|\d{10}")


def is_plain(symbol: str) -> bool:
    """Whether a size's name is short and harmless enough to compute with."""
    return (
        len(symbol) <= MAX_LENGTH
        and _PLAIN.fullmatch(symbol) is not None
        and _UNBOUNDED.search(symbol) is None
    )
