"""Random geometries on the GPU against the float64 oracle, every schedule forced.

    PYTHONPATH=. python benchmarks/gpu_correctness.py --seconds 420 --json correctness.json

Each case draws geometry, type, layouts, strides of the input, epilogue and a schedule; the output
is poisoned with NaN. An error may be 1.5 times the library's own on the same operands (3.5 times
for TF32, see plugins/conv_transpose/README.md). Every 16th case runs twice and must repeat itself
bit by bit.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from convt_onnx.errors import GeometryError
from convt_onnx.plugins.conv_transpose import heuristics, op
from convt_onnx.plugins.conv_transpose.activations import ACTIVATIONS, make_activation
from convt_onnx.plugins.conv_transpose.geometry import fusable, lifted_axes
from convt_onnx.plugins.conv_transpose.problem import Problem
from convt_onnx.plugins.conv_transpose.schedule import GEMM, Schedule
from convt_onnx.reference import conv_transpose as oracle
from convt_onnx.spec import ConvTransposeSpec

EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-22, "tf32": 2.0**-10}
FACTOR = {"float16": 1.5, "bfloat16": 1.5, "float32": 1.5, "tf32": 3.5}
SIZES_A_SPEC = 6


@dataclass(frozen=True, slots=True)
class Result:
    """One compared output: relative errors in the 2-norm."""

    mode: str
    schedule: str
    error: float
    library: float
    ok: bool
    case: str


def draw_spec(rng: random.Random) -> ConvTransposeSpec:
    """Geometry with any stride, dilation, crop and grouping."""
    n = rng.choice((1, 1, 2, 2, 2, 3))
    most = {1: 17, 2: 6, 3: 4}[n]
    kernel = tuple(rng.randint(1, most) for _ in range(n))
    strides = tuple(rng.randint(1, {1: 9, 2: 5, 3: 3}[n]) for _ in range(n))
    dilations = tuple(rng.choice((1, 1, 1, 2, 3, 4)) for _ in range(n))
    crops = [
        tuple(rng.randint(0, (k - 1) * d) for k, d in zip(kernel, dilations, strict=True))
        for _ in range(2)
    ]
    extra = tuple(rng.randint(0, max(s, d)) for s, d in zip(strides, dilations, strict=True))
    group = rng.choice((1, 1, 1, 2, 3, 8))
    inner = rng.choice((1, 2, 3, 4, 8, 12, 16, 24, 32, 40, 64))
    outer = rng.choice((1, 2, 3, 4, 8, 12, 16, 24, 32, 40, 64))
    return ConvTransposeSpec(
        group * inner, group * outer, group, kernel, strides, dilations, *crops, extra
    )


def draw_sizes(rng: random.Random, spec: ConvTransposeSpec) -> tuple[int, ...]:
    """Spatial sizes whose output is not empty."""
    most = {1: 200, 2: 20, 3: 8}[spec.ndim]
    while True:
        sizes = tuple(rng.choice((1, rng.randint(1, most))) for _ in range(spec.ndim))
        try:
            spec.output_sizes(sizes)
        except GeometryError:
            most += 2
            continue
        return sizes


def draw_schedule(rng: random.Random, problem: Problem, x: torch.Tensor) -> Schedule:
    """The heuristic's schedule, a forced GEMM variant, or the direct kernel."""
    device = op.device_of(x)
    kind = rng.choice(("chosen", "gemm", "gemm", "gemm", "direct"))
    if kind == "chosen":
        return heuristics.choose(problem, device)
    if kind == "direct":
        return heuristics.direct_schedule(problem)
    axes = lifted_axes(problem.spec)
    fused = [fusable(a) and rng.random() < 0.6 for a in axes]
    schedule = heuristics.gemm_schedule(problem, device, (fused[0], fused[1], fused[2]))
    return replace(
        schedule,
        aligned=(rng.random() < 0.5,) * 3,
        block_m=rng.choice((16, 32, 64, 128)),
        block_n=schedule.block_n if schedule.interleave else rng.choice((16, 32, 64)),
        block_k=rng.choice((16, 32)),
        warps=4,
        stages=rng.choice((2, 3)),
        flat=rng.random() < 0.4,
        k_major=rng.random() < 0.5,
    )


def draw_tensor(rng: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Random values in NCHW, channels-last or, rarely, with gaps between rows."""
    layout = rng.choice(("nchw", "nhwc", "nhwc", "gaps"))
    if layout == "gaps":
        return torch.randn(*shape[:-1], shape[-1] * 2, device="cuda").to(dtype)[..., ::2]
    x = torch.randn(shape, device="cuda").to(dtype)
    return x if layout == "nchw" else x.movedim(1, -1).contiguous().movedim(-1, 1)


def relative(y: torch.Tensor, want: np.ndarray) -> float:
    """Error in the 2-norm relative to the wanted values; infinite for a NaN."""
    got = y.double().cpu().numpy()
    if not np.isfinite(got).all():
        return float("inf")
    return float(np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30))


def compare(rng: random.Random, spec: ConvTransposeSpec, mode: str, number: int) -> list[Result]:
    """One specification and schedule on several sizes."""
    dtype = torch.float32 if mode == "tf32" else getattr(torch, mode)
    torch.backends.cudnn.allow_tf32 = mode == "tf32"
    w = (torch.randn(spec.weight_shape, device="cuda") / spec.in_per_group**0.5).to(dtype)
    b = torch.randn(spec.out_channels, device="cuda").to(dtype) if rng.random() < 0.7 else None
    plain = rng.random() < 0.5
    kind = "none" if plain else rng.choice(sorted(ACTIVATIONS))
    bounds = (-0.7, 0.9) if kind == "clip" else (None, None)
    slope = torch.rand(spec.out_channels, device="cuda").to(dtype) if kind == "prelu" else None
    activation = make_activation(kind, *bounds)
    schedules: dict[bool, Schedule] = {}
    results = []
    for _ in range(SIZES_A_SPEC):
        sizes = draw_sizes(rng, spec)
        x = draw_tensor(rng, (rng.choice((1, 2, 3)), spec.in_channels, *sizes), dtype)
        problem = op.make_problem(x, w, spec)
        last = problem.channels_last_out
        # A schedule suits one layout of the result; compiling anew for each size would take long.
        schedule = schedules.get(last) or draw_schedule(rng, problem, x)
        schedules[last] = schedule
        y = op.conv_transpose(x, w, b, spec, schedule=schedule)
        residual = torch.randn_like(y) if not plain and rng.random() < 0.5 else None
        extra = {"activation": activation, "slope": slope, "residual": residual}
        y.fill_(float("nan"))
        op.conv_transpose(x, w, b, spec, schedule=schedule, out=y, **extra)
        library = op.reference(x, w, b, spec, **extra)
        want = wanted(x, w, b, spec, extra)
        error, own = relative(y, want), relative(library, want)
        ok = error <= FACTOR[mode] * max(own, 0.5 * EPSILON[mode])
        if number % 16 == 0:
            again = op.conv_transpose(x, w, b, spec, schedule=schedule, **extra)
            ok = ok and bool(torch.equal(again, y))
        case = "" if ok else f"{spec} {sizes} {x.stride()} {schedule} {kind} {residual is not None}"
        kind_of = schedule.label if schedule.kind == GEMM else schedule.kind
        results.append(Result(mode, kind_of, error, own, ok, case))
    return results


def wanted(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    spec: ConvTransposeSpec,
    extra: dict[str, Any],
) -> np.ndarray:
    """The oracle, with the epilogue in float64 torch."""
    host = [None if t is None else t.double().cpu().numpy() for t in (x, w, b)]
    y = torch.from_numpy(oracle(*host, spec))
    if extra["residual"] is not None:
        y = y + extra["residual"].double().cpu()
    slope = extra["slope"]
    slope = None if slope is None else slope.double().cpu()
    return op.apply_reference(y, extra["activation"], slope).numpy()


def work(job: tuple[int, float]) -> list[Result]:
    """Draw and compare until the time is over."""
    seed, deadline = job
    rng = random.Random(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    results: list[Result] = []
    number = 0
    while time.time() < deadline:
        number += 1
        spec = draw_spec(rng)
        mode = rng.choice(sorted(EPSILON))
        try:
            results += compare(rng, spec, mode, number)
        except Exception as error:  # reported as a failed case
            text = f"{type(error).__name__} {str(error)[:400]} {spec}"
            results.append(Result(mode, "error", 0, 0, False, text))
    return results


def main() -> None:
    """Run the sweep and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--jobs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    deadline = time.time() + args.seconds
    jobs = [(args.seed * 1000 + i, deadline) for i in range(args.jobs)]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        results = [r for found in pool.map(work, jobs) for r in found]
    bad = [r for r in results if not r.ok]
    for r in bad[:12]:
        print(f"FAILED {r.mode} error {r.error:.2e} library {r.library:.2e}\n   {r.case}")
    counts = collections.Counter(r.mode for r in results)
    for mode in sorted(counts):
        ratios = [r.error / max(r.library, 0.5 * EPSILON[mode]) for r in results if r.mode == mode]
        worst, middle = max(ratios), sorted(ratios)[len(ratios) // 2]
        print(f"{mode:9s} {counts[mode]:5d} cases, error over library's: {middle:.2f}, {worst:.2f}")
    kinds = collections.Counter(r.schedule.split("-")[0] for r in results)
    print(f"{len(results)} geometries, {len(bad)} failed, schedules {dict(kinds)}")
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "cuDNN", cudnn())
    if args.json:
        summary = {"cases": len(results), "failed": [r.case for r in bad], "by_mode": dict(counts)}
        args.json.write_text(json.dumps(summary, indent=1))


def cudnn() -> object:
    """Version of cuDNN."""
    return torch.backends.cudnn.version()


if __name__ == "__main__":
    main()
