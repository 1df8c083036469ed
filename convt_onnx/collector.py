"""Python's cycle collector, out of the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Bytes.
WORTH_COLLECTING = 4 << 20


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without the cycle collector: it walks a large graph's objects, which all live on, over and
    over while more are made.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_after(count: int) -> None:
    """Free what refers to itself, where `count` bytes or more of it are worth the time.

    Graphs refer to their nodes and the nodes to them, so that what is thrown away while the
    collector is paused stays.
    """
    if count > WORTH_COLLECTING:
        gc.collect()
