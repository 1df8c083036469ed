"""Launches every kind of schedule on small random problems, for compute-sanitizer.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 PYTHONPATH=. compute-sanitizer --tool memcheck \
        --error-exitcode 9 python benchmarks/gpu_memcheck.py --cases 40

Without PyTorch's cache each tensor is an allocation of its own, so that an access beyond its end
is seen.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import random
import time

import torch
from gpu_drawing import draw_schedule
from gpu_geometries import (
    RANGES,
    draw_layout,
    draw_sizes,
    draw_spec,
    draw_tensor,
    draw_whole_lines,
)

from convt_onnx.plugins.conv_transpose import op
from convt_onnx.plugins.conv_transpose.schedule import DIRECT, GEMM, LINES, RESIDENT, WALK

# How many cases have lines of whole words, which a schedule of their own is for.
WHOLE_LINES = 0.5
KINDS = (GEMM, RESIDENT, DIRECT, LINES, WALK)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def launch_one(rng: random.Random, only: str | None) -> str | None:
    """One launch; returns the kind of its schedule, or None where that is not the one wanted."""
    whole = rng.random() < WHOLE_LINES
    spec = draw_whole_lines(rng) if whole else draw_spec(rng, rng.choice(RANGES))
    dtype = rng.choice(DTYPES)
    sizes = draw_sizes(rng, spec, 4 if whole else rng.choice((1, 4)))
    x = draw_tensor((2, spec.in_channels, *sizes), dtype, draw_layout(rng))
    schedule = draw_schedule(rng, op.make_problem(x, spec), x)
    if only not in (None, schedule.kind):
        return None
    w = torch.randn(spec.weight_shape, device="cuda").to(dtype)
    b = torch.randn(spec.out_channels, device="cuda").to(dtype)
    op.conv_transpose(x, w, b, spec, schedule=schedule)
    torch.cuda.synchronize()
    return schedule.kind


def main() -> None:
    """Launch the cases and print how many of each kind there were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--kind", choices=KINDS, help="only schedules of this kind")
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    kinds: collections.Counter[str] = collections.Counter()
    for seed in itertools.count():
        if kinds.total() == args.cases or time.monotonic() > deadline:
            break
        torch.manual_seed(seed)
        kind = launch_one(random.Random(seed), args.kind)
        if kind is not None:
            kinds[kind] += 1
    print(f"memcheck: {dict(kinds)}")


if __name__ == "__main__":
    main()
