"""Grouped nodes of few channels: `prediction.cuda_rules` knows kinds that cuDNN is slow at.

GROUPED are those that the rules were made by. `drawn` are those that test them: every seed gives
others, and each is of a kind that the rules rewrite in float32 or in half precision.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gpu_suites import Shape, shape

from convt_onnx.prediction.cuda_rules import slower_natively

GROUPED = (
    shape("g2 32-32 k3 s2", 16, (32, 32), (24, 24), 3, 2, 1, 1, 2),
    shape("g2 32-24 k4 s2", 16, (32, 24), (24, 24), 4, 2, 1, 0, 2),
    shape("g8 64-32 k4 s2", 8, (64, 32), (64, 64), 4, 2, 1, 0, 8),
    shape("g8 64-64 k3 s3", 8, (64, 64), (64, 64), 3, 3, 1, 0, 8),
    shape("g8 64-64 k3 s4", 8, (64, 64), (64, 64), 3, 4, 1, 0, 8),
    shape("g4 48-48 k5 s3", 8, (48, 48), (32, 32), 5, 3, 2, 0, 4),
)
DRAWN_EACH = 6
SEED = 20261130


def drawn(seed: int = SEED) -> tuple[Shape, ...]:
    """Six kinds that the rules rewrite in float32 and six in half precision, of 1 or 2 axes."""
    rng = np.random.default_rng(seed)
    found: dict[str, Shape] = {}
    for half in (False, True):
        kinds = (s for s in _any(rng) if slower_natively(s.spec, half=half))
        target = len(found) + DRAWN_EACH
        while len(found) < target:
            kind = next(kinds)
            found.setdefault(kind.name, kind)
    return tuple(found.values())


def _any(rng: np.random.Generator) -> Iterator[Shape]:
    """Without end, about as large as decoders have them."""
    while True:
        group = int(rng.choice((2, 3, 4, 6, 8, 16)))
        c_in, c_out = (int(c) for c in rng.integers(2, 17, 2))
        kernel, stride = int(rng.integers(2, 8)), int(rng.integers(2, 5))
        pad = int(rng.integers(0, (kernel + 1) // 2))
        output_padding = int(rng.integers(0, stride))
        batch, axes = int(rng.choice((1, 4, 8))), int(rng.integers(1, 3))
        lengths = (500, 8000) if axes == 1 else (24, 97)
        sizes = tuple(int(n) for n in rng.integers(*lengths, axes))
        channels = (group * c_in, group * c_out)
        name = f"{axes}d g{group} {channels[0]}-{channels[1]} k{kernel} s{stride}"
        yield shape(name, batch, channels, sizes, kernel, stride, pad, output_padding, group)
