"""The Triton kernels against cuDNN, in both layouts, with warm and cold caches.

    PYTHONPATH=. python benchmarks/gpu_shapes.py --json shapes.json

Times are CUDA-graph medians of one call with bias; `floor` is the larger of bytes over bandwidth
and operations over the matrix rate. cuDNN searches its algorithms (cudnn.benchmark); its
channels-last column gets its layout for free. `cold` rotates through enough inputs and outputs
that none is left in the L2 cache. `gpu_report.py` makes the table and the plot.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from gpu_empty import empty_us
from gpu_report import report
from gpu_suites import SUITES, Shape
from gpu_timing import graph_us, set_count
from gpu_tune import MODES, device, problem_of, tensors

from convt_onnx.plugins.conv_transpose import op, router, tuned
from convt_onnx.plugins.conv_transpose.activations import make_activation

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
    for layout, last in (("nchw", False), ("nhwc", True)):
        here = replace(problem, channels_last_in=last, channels_last_out=last)
        result[f"worth_{layout}"] = bool(router.worth(here, device()))
    return result


def _compile(job: tuple[Shape, str, bool]) -> None:
    row, mode, last = job
    calls(row, mode, last, True, 1)[0]()
    torch.cuda.synchronize()


def epilogue(row: Shape, last: bool, cold: bool) -> dict[str, Any]:
    """The bare kernel, with bias and Relu, and with a residual too, in float16.

    `bytes` is how much more a residual moves.
    """
    x, w, b = tensors(row, "float16", last)
    y = op.conv_transpose(x, w, None, row.spec)
    sets = set_count((x.numel() + 2 * y.numel()) * x.element_size())
    every = [(x, y, torch.randn_like(y))]
    every += [(x.clone(), y.clone(), torch.randn_like(y)) for _ in range(sets - 1 if cold else 0)]
    relu = {"activation": make_activation("relu")}
    result: dict[str, Any] = {"row": row.name, "layout": "NHWC" if last else "NCHW"}
    result["bytes"] = (x.numel() + 2 * y.numel()) / (x.numel() + y.numel())

    def call(name: str, x: torch.Tensor, y: torch.Tensor, residual: torch.Tensor) -> None:
        more = {} if name == "bare" else relu
        bias = None if name == "bare" else b
        added = residual if name == "bias_relu_residual" else None
        op.conv_transpose(x, w, bias, row.spec, out=y, residual=added, **more)

    for name in ("bare", "bias_relu", "bias_relu_residual"):
        calls = [lambda each=each, name=name: call(name, *each) for each in every]
        result[name] = graph_us(calls[:1], 9)
        if cold:
            result[f"{name}_cold"] = graph_us(calls, 9)
    return result


def main() -> None:
    """Run the suites."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", action="append", choices=sorted(SUITES))
    parser.add_argument("--mode", action="append", choices=sorted(MODES))
    parser.add_argument("--row", action="append", help="only rows whose names start so")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--no-cold", action="store_true")
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    modes = args.mode or list(MODES)
    rows = [(r, m) for s in args.suite or list(SUITES) for m in modes for r in SUITES[s]]
    rows = [(r, m) for r, m in rows if not args.row or r.name.startswith(tuple(args.row))]
    jobs = [(r, m, last) for r, m in rows for last in (True, False)]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        pool.map(_compile, jobs, chunksize=1)
    results = []
    for row, mode in rows:
        if time.monotonic() > deadline:
            print("out of time at", row.name, mode)
            break
        results.append(measure(row, mode, not args.no_cold))
    rows_of = [r for r in SUITES["flaggems"] if r.name[0] in "35"]
    epilogues = [epilogue(r, last, not args.no_cold) for r in rows_of for last in (True, False)]
    content = {"device": device_line(), "empty": empty_us(), "rows": results}
    content["epilogue"] = epilogues
    args.json.write_text(json.dumps(content, indent=1))
    print(report(content))


def device_line() -> str:
    """What was measured on, and when."""
    import triton

    name, torch_version, cudnn = (
        torch.cuda.get_device_name(),
        torch.__version__,
        torch.backends.cudnn.version(),
    )
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return f"{name}, torch {torch_version}, cuDNN {cudnn}, Triton {triton.__version__}, {today}"


if __name__ == "__main__":
    main()
