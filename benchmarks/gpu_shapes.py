"""The Triton kernels against cuDNN, in both layouts, with warm and cold caches.

    PYTHONPATH=. python benchmarks/gpu_shapes.py --json shapes.json

Times are CUDA-graph medians of one call with bias; `floor` is the larger of bytes over bandwidth
and operations over the matrix rate. cuDNN searches its algorithms (cudnn.benchmark); its
channels-last column gets its layout for free. `cold` rotates through enough inputs and outputs
that none is left in the L2 cache.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import time
from pathlib import Path
from typing import Any

import torch
from gpu_suites import SUITES, Shape
from gpu_timing import graph_us, set_count
from gpu_tune import MODES, device, problem_of, tensors

from convt_onnx.plugins.conv_transpose import op, router, tuned

BANDWIDTH = 4.3e12
RATES = {"float16": 790e12, "bfloat16": 790e12, "tf32": 395e12, "exact": 132e12}


def floor_us(row: Shape, mode: str) -> float:
    """Fewest microseconds for the bytes and the operations."""
    problem = problem_of(row, mode, False)
    operations = 2 * row.spec.macs_exact(row.batch, row.sizes)
    return max(problem.floor_bytes / BANDWIDTH, operations / RATES[mode]) * 1e6


def calls(row: Shape, mode: str, last: bool, ours: bool, sets: int) -> list[Any]:
    """One call a set of tensors; the weight is shared."""
    dtype, tf32 = MODES[mode]
    torch.backends.cudnn.allow_tf32 = tf32
    x, w, b = tensors(row, dtype, last)
    xs = [x] + [x.clone() for _ in range(sets - 1)]
    spec = row.spec
    if ours:
        ys = [op.conv_transpose(v, w, b, spec, tf32=tf32) for v in xs]
        return [
            lambda v=v, y=y: op.conv_transpose(v, w, b, spec, tf32=tf32, out=y)
            for v, y in zip(xs, ys, strict=True)
        ]
    if last and spec.ndim > 1:
        kind = torch.channels_last if spec.ndim == 2 else torch.channels_last_3d
        w = w.to(memory_format=kind)
    function = getattr(torch.nn.functional, f"conv_transpose{spec.ndim}d")
    numbers = (spec.strides, spec.pads_begin, spec.output_padding, spec.group, spec.dilations)
    return [lambda v=v: function(v, w, b, *numbers) for v in xs]


def measure(row: Shape, mode: str, cold: bool) -> dict[str, Any]:
    """All columns of one row."""
    torch.backends.cudnn.benchmark = True
    problem = problem_of(row, mode, False)
    sets = set_count((problem.in_elements + problem.out_elements) * problem.element_bytes)
    result: dict[str, Any] = {"row": row.name, "mode": mode, "floor": floor_us(row, mode)}
    for who, ours in (("cudnn", False), ("ours", True)):
        for layout, last in (("nchw", False), ("nhwc", True)):
            if not ours and last and row.spec.ndim == 1:
                continue  # torch has no channels-last memory format in one dimension
            key = f"{who}_{layout}"
            try:
                result[key] = graph_us(calls(row, mode, last, ours, 1), replays=5)
                if cold:
                    result[f"{key}_cold"] = graph_us(calls(row, mode, last, ours, sets), replays=3)
            except RuntimeError as error:
                result[f"{key}_error"] = str(error)[:200]
            torch.cuda.empty_cache()
    chosen = tuned.choose(problem, device())
    result["schedule"] = chosen.label
    result["worth"] = bool(router.worth(problem, device()))
    return result


def _compile(job: tuple[Shape, str, bool]) -> None:
    row, mode, last = job
    calls(row, mode, last, True, 1)[0]()
    torch.cuda.synchronize()


def geometric(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def report(results: list[dict[str, Any]]) -> None:
    """One line a row, then means."""
    print(f"{'row':26s} {'mode':8s} floor | cudnn nchw nhwc | ours nchw nhwc | cold: cudnn, ours")
    for r in results:
        names = ("cudnn_nchw", "cudnn_nhwc", "ours_nchw", "ours_nhwc")
        warm = [r.get(n, math.nan) for n in names]
        cold = [r.get(f"{n}_cold", math.nan) for n in names]
        text = " ".join(f"{v:7.1f}" for v in warm) + " |" + " ".join(f"{v:7.1f}" for v in cold)
        print(f"{r['row']:26s} {r['mode']:8s} {r['floor']:6.1f} | {text} {r['schedule']}")
        for n in names:
            if f"{n}_error" in r:
                print("    ", n, r[f"{n}_error"])
    for mode in dict.fromkeys(r["mode"] for r in results):
        rows = [r for r in results if r["mode"] == mode and "cudnn_nchw" in r]
        for ours in ("ours_nchw", "ours_nhwc"):
            both = [r["cudnn_nchw"] / r[ours] for r in rows if ours in r]
            print(f"{mode}: cuDNN NCHW over {ours}: geometric mean {geometric(both):.2f}")
        print(f"{mode}: slower than the best cuDNN:", ", ".join(_behind(rows)) or "none")


def _behind(rows: list[dict[str, Any]]) -> list[str]:
    found = []
    for r in rows:
        library = min(r.get(n, math.inf) for n in ("cudnn_nchw", "cudnn_nhwc"))
        ours = min(r.get(n, math.inf) for n in ("ours_nchw", "ours_nhwc"))
        if ours > 1.03 * library:
            found.append(f"{r['row']} ({ours:.1f} against {library:.1f})")
    return found


def main() -> None:
    """Run the suites."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", action="append", choices=sorted(SUITES))
    parser.add_argument("--mode", action="append", choices=sorted(MODES))
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--no-cold", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    modes = args.mode or list(MODES)
    rows = [(r, m) for s in args.suite or list(SUITES) for m in modes for r in SUITES[s]]
    jobs = [(r, m, last) for r, m in rows for last in (True, False)]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        pool.map(_compile, jobs, chunksize=1)
    results = []
    for row, mode in rows:
        if time.monotonic() > deadline:
            print("out of time at", row.name, mode)
            break
        results.append(measure(row, mode, not args.no_cold))
    report(results)
    print(torch.cuda.get_device_name(), "torch", torch.__version__, end=" ")
    print("cuDNN", torch.backends.cudnn.version())
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
