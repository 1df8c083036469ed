"""Did you mean …?"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A help line with the nearest known words, or all of them."""
    words = list(known)
    close = get_close_matches(word, words, n=2, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    return "choose one of " + ", ".join(words)
