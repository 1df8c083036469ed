"""Grouped nodes of few channels: `prediction.cuda_rules` knows kinds that cuDNN is slow at.

GROUPED are those that the rules were made by; the last 48 were drawn to test earlier rules. `drawn`
are those that test the rules as they are: every seed gives others, all of kinds that they rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gpu_suites import Shape, shape

from convt_onnx.prediction.cuda_rules import GROUPS, INPUTS, OUTPUTS, TAPS, gains

GROUPED = (
    shape("g2 32-32 k3 s2", 16, (32, 32), (24, 24), 3, 2, 1, 1, 2),
    shape("g2 32-24 k4 s2", 16, (32, 24), (24, 24), 4, 2, 1, 0, 2),
    shape("g8 64-32 k4 s2", 8, (64, 32), (64, 64), 4, 2, 1, 0, 8),
    shape("g8 64-64 k3 s3", 8, (64, 64), (64, 64), 3, 3, 1, 0, 8),
    shape("g8 64-64 k3 s4", 8, (64, 64), (64, 64), 3, 4, 1, 0, 8),
    shape("g4 48-48 k5 s3", 8, (48, 48), (32, 32), 5, 3, 2, 0, 4),
    shape("2d g4 28-36 k7 s4", 4, (28, 36), (59, 89), 7, 4, 1, 3, 4),
    shape("2d g8 80-104 k6 s3", 8, (80, 104), (77, 86), 6, 3, 1, 0, 8),
    shape("1d g4 16-48 k5 s2", 8, (16, 48), (6808,), 5, 2, 1, 0, 4),
    shape("1d g16 224-160 k3 s2", 8, (224, 160), (4872,), 3, 2, 1, 0, 16),
    shape("2d g4 28-16 k7 s3", 1, (28, 16), (37, 25), 7, 3, 3, 1, 4),
    shape("2d g6 42-30 k5 s4", 1, (42, 30), (93, 37), 5, 4, 0, 1, 6),
    shape("1d g16 256-96 k6 s2", 1, (256, 96), (2527,), 6, 2, 1, 1, 16),
    shape("1d g3 48-6 k3 s2", 8, (48, 6), (4204,), 3, 2, 0, 0, 3),
    shape("1d g3 48-9 k7 s4", 8, (48, 9), (874,), 7, 4, 3, 0, 3),
    shape("2d g8 64-120 k2 s3", 8, (64, 120), (57, 30), 2, 3, 0, 0, 8),
    shape("2d g3 48-21 k5 s2", 4, (48, 21), (93, 73), 5, 2, 0, 0, 3),
    shape("2d g3 48-42 k2 s3", 8, (48, 42), (74, 61), 2, 3, 0, 0, 3),
    shape("g7 91-49 k5 s2 24x99", 16, (91, 49), (24, 99), 5, 2, 2, 0, 7),
    shape("g5 60-40 k5 s2 74x108", 8, (60, 40), (74, 108), 5, 2, 1, 1, 5),
    shape("g5 35-50 k7 s4 41x97", 4, (35, 50), (41, 97), 7, 4, 2, 3, 5),
    shape("g3 42-21 k7 s4 108x65", 1, (42, 21), (108, 65), 7, 4, 3, 2, 3),
    shape("g7 56-28 k5 s3 121x35", 8, (56, 28), (121, 35), 5, 3, 1, 0, 7),
    shape("g5 50-55 k5 s3 83x90", 4, (50, 55), (83, 90), 5, 3, 1, 1, 5),
    shape("g6 54-48 k5 s2 90x105", 8, (54, 48), (90, 105), 5, 2, 0, 1, 6),
    shape("g6 42-30 k7 s4 53x67", 8, (42, 30), (53, 67), 7, 4, 3, 1, 6),
    shape("g3 30-12 k5 s3 91x121", 4, (30, 12), (91, 121), 5, 3, 0, 2, 3),
    shape("g5 65-50 k5 s2 83x63", 8, (65, 50), (83, 63), 5, 2, 2, 1, 5),
    shape("g8 112-56 k4 s2 81x127", 1, (112, 56), (81, 127), 4, 2, 0, 0, 8),
    shape("g3 42-21 k7 s4 39x86", 8, (42, 21), (39, 86), 7, 4, 1, 0, 3),
    shape("g2 32-30 k3 s2 73x105", 16, (32, 30), (73, 105), 3, 2, 1, 1, 2),
    shape("g3 48-39 k3 s4 115x100", 1, (48, 39), (115, 100), 3, 4, 0, 3, 3),
    shape("g3 48-24 k5 s2 35x77", 16, (48, 24), (35, 77), 5, 2, 1, 0, 3),
    shape("g3 48-39 k3 s4 52x64", 1, (48, 39), (52, 64), 3, 4, 0, 3, 3),
    shape("g2 32-16 k3 s2 126x122", 8, (32, 16), (126, 122), 3, 2, 1, 0, 2),
    shape("g2 32-14 k3 s2 87x123", 16, (32, 14), (87, 123), 3, 2, 0, 1, 2),
    shape("g3 48-48 k4 s2 61x26", 4, (48, 48), (61, 26), 4, 2, 1, 0, 3),
    shape("g3 48-45 k5 s2 87x98", 1, (48, 45), (87, 98), 5, 2, 0, 1, 3),
    shape("g2 32-28 k4 s2 115x60", 4, (32, 28), (115, 60), 4, 2, 1, 1, 2),
    shape("g2 32-22 k3 s2 90x84", 8, (32, 22), (90, 84), 3, 2, 0, 0, 2),
    shape("g3 48-24 k3 s4 54x115", 1, (48, 24), (54, 115), 3, 4, 1, 2, 3),
    shape("g3 48-21 k4 s2 71x32", 16, (48, 21), (71, 32), 4, 2, 0, 1, 3),
    shape("g5 65-30 k4 s2 61x111", 4, (65, 30), (61, 111), 4, 2, 1, 0, 5),
    shape("g5 65-50 k5 s2 79x82", 4, (65, 50), (79, 82), 5, 2, 2, 1, 5),
    shape("g4 64-28 k5 s2 40x110", 16, (64, 28), (40, 110), 5, 2, 1, 1, 4),
    shape("g7 91-56 k5 s2 51x59", 16, (91, 56), (51, 59), 5, 2, 1, 0, 7),
    shape("g8 128-88 k7 s4 47x34", 1, (128, 88), (47, 34), 7, 4, 3, 3, 8),
    shape("g4 32-40 k4 s2 115x114", 1, (32, 40), (115, 114), 4, 2, 0, 0, 4),
    shape("g5 75-45 k7 s4 126x72", 1, (75, 45), (126, 72), 7, 4, 3, 0, 5),
    shape("g5 45-40 k5 s2 68x53", 4, (45, 40), (68, 53), 5, 2, 2, 0, 5),
    shape("g5 50-35 k5 s2 107x28", 16, (50, 35), (107, 28), 5, 2, 2, 1, 5),
    shape("g8 64-88 k7 s4 27x58", 1, (64, 88), (27, 58), 7, 4, 2, 1, 8),
    shape("g5 75-20 k4 s2 27x126", 16, (75, 20), (27, 126), 4, 2, 1, 1, 5),
    shape("g5 40-55 k5 s2 56x74", 4, (40, 55), (56, 74), 5, 2, 2, 0, 5),
    shape("g3 48-24 k5 s2 108x75", 8, (48, 24), (108, 75), 5, 2, 2, 0, 3),
    shape("g3 48-24 k3 s4 97x26", 8, (48, 24), (97, 26), 3, 4, 1, 3, 3),
    shape("g3 48-24 k3 s4 25x85", 8, (48, 24), (25, 85), 3, 4, 1, 3, 3),
    shape("g3 48-36 k3 s4 29x62", 4, (48, 36), (29, 62), 3, 4, 1, 0, 3),
    shape("g3 48-36 k4 s2 64x115", 1, (48, 36), (64, 115), 4, 2, 0, 0, 3),
    shape("g2 32-24 k4 s2 59x68", 16, (32, 24), (59, 68), 4, 2, 0, 1, 2),
    shape("g2 32-16 k4 s2 99x102", 8, (32, 16), (99, 102), 4, 2, 0, 1, 2),
    shape("g2 32-24 k3 s2 69x110", 8, (32, 24), (69, 110), 3, 2, 1, 0, 2),
    shape("g2 32-16 k3 s4 52x118", 8, (32, 16), (52, 118), 3, 4, 0, 1, 2),
    shape("g3 48-24 k4 s2 96x74", 4, (48, 24), (96, 74), 4, 2, 1, 0, 3),
    shape("g3 48-36 k3 s4 108x60", 4, (48, 36), (108, 60), 3, 4, 1, 3, 3),
    shape("g3 48-48 k4 s2 102x82", 1, (48, 48), (102, 82), 4, 2, 0, 1, 3),
)
DRAWN = 12
SEED = 20261202


def drawn(seed: int = SEED) -> tuple[Shape, ...]:
    """Twelve kinds that the rules rewrite, no two of one name."""
    rng = np.random.default_rng(seed)
    found: dict[str, Shape] = {}
    kinds = (s for s in _any(rng) if gains(s.spec, s.batch, s.sizes))
    while len(found) < DRAWN:
        kind = next(kinds)
        found.setdefault(kind.name, kind)
    return tuple(found.values())


def _any(rng: np.random.Generator) -> Iterator[Shape]:
    """Of the rules' channels and taps, without end, with any pads and about decoders' sizes."""
    taps = sorted(TAPS)
    while True:
        group, c_in, c_out = (int(rng.choice(r)) for r in (GROUPS, INPUTS, OUTPUTS))
        kernel, stride = taps[rng.integers(len(taps))]
        pad = int(rng.integers(0, (kernel + 1) // 2))
        output_padding = int(rng.integers(0, stride))
        batch = int(rng.choice((1, 4, 8, 16)))
        height, width = (int(n) for n in rng.integers(24, 129, 2))
        channels = (group * c_in, group * c_out)
        name = f"g{group} {channels[0]}-{channels[1]} k{kernel} s{stride} {height}x{width}"
        yield shape(
            name, batch, channels, (height, width), kernel, stride, pad, output_padding, group
        )
