"""Times schedules of the Triton kernels one by one: what the choices of `heuristics` rest on.

    PYTHONPATH=. python benchmarks/gpu_tune.py --suite flaggems --json tune.json

Compiles in several processes first (Triton's disk cache), then times alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from gpu_suites import SUITES, Shape
from gpu_timing import graph_us

from convt_onnx.plugins.conv_transpose import heuristics, op
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import Schedule

MODES = {
    "float16": ("float16", False),
    "bfloat16": ("bfloat16", False),
    "tf32": ("float32", True),
    "exact": ("float32", False),
}


def tensors(row: Shape, dtype: str, channels_last: bool) -> tuple[torch.Tensor, ...]:
    """x, weight, bias on the device."""
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    x = torch.randn(row.batch, row.spec.in_channels, *row.sizes, device="cuda").to(kind)
    if channels_last:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    w = torch.randn(row.spec.weight_shape, device="cuda").to(kind)
    return x, w, torch.randn(row.spec.out_channels, device="cuda").to(kind)


def device() -> Device:
    """The device in use."""
    return op.device_of(torch.empty(1, device="cuda"))


def problems(names: list[str], modes: list[str], rows: list[str]) -> Iterator[dict[str, Any]]:
    """Every (row, mode, layout)."""
    for suite in names:
        for row in SUITES[suite]:
            if rows and not any(row.name.startswith(r) for r in rows):
                continue
            for mode in modes:
                for last in (True, False):
                    yield {"row": row, "mode": mode, "last": last}


def problem_of(row: Shape, mode: str, last: bool) -> Problem:
    """The problem of one case."""
    dtype, tf32 = MODES[mode]
    return Problem(row.spec.canonical(), row.batch, row.sizes, dtype, last, last, tf32)


def one_call(case: dict[str, Any], schedule: Schedule) -> Any:
    """A function that launches one schedule on fixed tensors."""
    dtype, tf32 = MODES[case["mode"]]
    x, w, b = tensors(case["row"], dtype, case["last"])
    y = op.conv_transpose(x, w, b, case["row"].spec, schedule=schedule, tf32=tf32)
    return lambda: op.conv_transpose(x, w, b, case["row"].spec, schedule=schedule, tf32=tf32, out=y)


def _compile(job: tuple[dict[str, Any], Schedule]) -> str | None:
    try:
        one_call(*job)()
        torch.cuda.synchronize()
    except Exception as error:  # a schedule that does not compile is a result
        return f"{type(error).__name__}: {str(error)[:150]}"
    return None


def main() -> None:
    """Run the sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", action="append", choices=sorted(SUITES))
    parser.add_argument("--mode", action="append", choices=sorted(MODES))
    parser.add_argument("--row", action="append", default=[])
    parser.add_argument("--limit", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    cases = list(problems(args.suite or ["flaggems"], args.mode or list(MODES), args.row))
    jobs = [
        (case, schedule)
        for case in cases
        for schedule in heuristics.candidates(problem_of(**case), device(), args.limit)
    ]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        errors = pool.map(_compile, jobs, chunksize=1)
    print(f"{len(jobs)} schedules compiled, {deadline - time.monotonic():.0f} s left", flush=True)
    results = []
    for (case, schedule), error in zip(jobs, errors, strict=True):
        if time.monotonic() > deadline:
            print("out of time")
            break
        us = None if error else graph_us([one_call(case, schedule)], replays=5, launches=10)
        results.append(
            {
                "row": case["row"].name,
                "mode": case["mode"],
                "layout": "NHWC" if case["last"] else "NCHW",
                "schedule": schedule.label,
                "us": us,
                "error": error,
            }
        )
    report(results)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


def report(results: list[dict[str, Any]]) -> None:
    """The heuristic's choice (first of each case) and the best three."""
    grouped: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for r in results:
        grouped.setdefault((r["row"], r["mode"], r["layout"]), []).append(r)
    for (row, mode, layout), found in grouped.items():
        timed = sorted((r for r in found if r["us"]), key=lambda r: r["us"])
        first = found[0]
        chosen = f"{first['us']:.1f}" if first["us"] else first["error"]
        best = "; ".join(f"{r['us']:.1f} {r['schedule']}" for r in timed[:3])
        print(f"{row:22s} {mode:7s} {layout} chosen {chosen} {first['schedule']} | {best}")
        for r in found:
            if r["error"] and r is not first:
                print("    ", r["schedule"], r["error"])


if __name__ == "__main__":
    main()
