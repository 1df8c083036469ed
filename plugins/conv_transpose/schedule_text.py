"""The text of a schedule, in models, engines and compiled kernels."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from convt_onnx.errors import UsageError
from convt_onnx.plugins.conv_transpose.schedule import DIRECT, GEMM, Schedule

MAX_TILE = 1024
# Fields without a text: they are chosen for one device, or by the layout of the tensors.
_NO_TEXT = ("column_tiles", "workers", "prefetch", "registers", "joined", "fragments", "merge")


def format_schedule(schedule: Schedule) -> str:
    """`kind field=value ...`, for `parse_schedule`; switches are 0 and 1, one digit an axis."""
    words = [schedule.kind]
    for f in fields(schedule)[1:]:
        if f.name in _NO_TEXT:
            continue
        value = getattr(schedule, f.name)
        digits = "".join(str(int(v)) for v in (value if isinstance(value, tuple) else (value,)))
        words.append(f"{f.name}={digits}")
    return " ".join(words)


def parse_schedule(text: str) -> Schedule:
    """The schedule of `format_schedule`; what is left out has its default.

    Raises:
        UsageError: It is not of that form, or a tile is not one that Triton takes.
    """
    try:
        kind, *words = text.split()
        if kind not in (GEMM, DIRECT):
            raise ValueError(f"no kind {kind!r}")
        values = dict(word.split("=") for word in words)
        kinds = {f.name: f.type for f in fields(Schedule)[1:]}
        schedule = Schedule(kind, **{n: _field(str(kinds[n]), v) for n, v in values.items()})
        _check_tiles(schedule)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError("this is no schedule", where=repr(text), help=str(error)) from None
    return schedule


def _field(kind: str, digits: str) -> Any:
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5):
        raise ValueError(f"{digits!r} is no number")
    if kind == "int":
        return int(digits)
    flags = tuple(bool(("0", "1").index(c)) for c in digits)
    if len(flags) != (1 if kind == "bool" else 3):
        raise ValueError(f"{digits!r} has the wrong length")
    return flags[0] if kind == "bool" else flags


def _check_tiles(schedule: Schedule) -> None:
    gemm = schedule.kind == GEMM
    tiles = (schedule.block_m, schedule.block_n, schedule.block_k if gemm else 16, schedule.warps)
    if any(not 1 <= t <= MAX_TILE or t & (t - 1) for t in tiles) or not 1 <= schedule.stages <= 8:
        raise ValueError("tiles and warps are powers of two")
