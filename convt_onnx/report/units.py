"""Numbers with their units, for people."""

from __future__ import annotations

import math

NO_BREAK = "\N{NO-BREAK SPACE}"


def time_text(microseconds: float) -> str:
    """A time of three digits."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{digits(microseconds / size)} {unit}"
    return f"{digits(microseconds)} µs"


def count_text(count: float) -> str:
    """A count with a decimal prefix, such as `1.23 G`."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{digits(count / size)} {prefix}"
    return f"{digits(count)} "


def size_text(count: float) -> str:
    """Bytes with a binary prefix."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def ratio_text(ratio: float) -> str:
    """How many times as fast."""
    return f"{ratio:.2f}×"


def percent_text(share: float | None) -> str:
    """A share of three digits; a dash where there is none."""
    return "–" if share is None else f"{digits(100 * share)} %"


def allowance_text(excess: float | None, allowed: float) -> str:
    """A difference as a share of what is allowed, or as how many times it."""
    if excess is None or math.isinf(excess):
        return "–"
    if excess > 1 and not allowed:
        return "allowed is 0"
    return percent_text(excess) if excess <= 1 else f"{excess:.3g} × allowed"


def digits(value: float) -> str:
    """Three digits, without an exponent."""
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
