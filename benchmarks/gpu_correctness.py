"""Random geometries on the GPU against a float64 oracle, every schedule forced.

    PYTHONPATH=. python benchmarks/gpu_correctness.py --seconds 270 --json correctness.json

Each specification draws geometry, type, layout and strides of the input, epilogue and a schedule,
which is compiled once and run on several sizes; every output is poisoned with NaN. The oracle is
ATen's convolution in float64 on the GPU, as the scatter oracle (convt_onnx.reference) would take
the processor most of the run; every 16th specification asks that one too and fails where the two
differ. An error may be 1.5 times the library's own on the same operands (3.5 times for TF32, see
plugins/conv_transpose/README.md). Outputs of few elements, whose norm is small by chance, are
measured against a larger one, see `scale_of`. Every 16th specification runs twice and must repeat
itself bit by bit.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import math
import multiprocessing
import random
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from convt_onnx.plugins.conv_transpose.activations import ACTIVATIONS, Activation, make_activation
from convt_onnx.plugins.conv_transpose.lines import lines_schedule
from convt_onnx.plugins.conv_transpose.schedule import LINES, UNPACKED, Schedule
from convt_onnx.reference import conv_transpose as oracle
from convt_onnx.spec import ConvTransposeSpec

# How much larger than the library's an error may be, and the error that always may be: three TF32
# products lose 2^-22 where the library's sum of a few terms is rounded once.
FACTOR = {"float16": 1.5, "bfloat16": 1.5, "float32": 1.5, "tf32": 3.5}
LEAST = {"float16": 3.7e-4, "bfloat16": 3.0e-3, "float32": 2.0**-22, "tf32": 1.7e-3}
# Elements of an output below which its norm, and that of its error, is a matter of chance.
FEW = 16
SIZES_A_SPEC = 8
ORACLES_AGREE = 1e-9
# More specifications than any run gets to.
MOST = 100_000


@dataclass(frozen=True, slots=True)
class Result:
    """One compared output: errors of `relative`."""

    mode: str
    schedule: str
    error: float
    library: float
    ok: bool
    case: str
    kernel: str


@dataclass(frozen=True, slots=True)
class Errors:
    """Of the kernel and of the library, and whether the kernel gave the same bits twice."""

    kernel: float
    library: float
    repeats: bool


def relative(y: torch.Tensor, want: torch.Tensor, scale: float = 0.0) -> float:
    """Error in the 2-norm relative to the wanted values or, where larger, to `scale`.

    Infinite for a NaN.
    """
    error = float((y.double() - want).norm()) / max(float(want.norm()), scale, 1e-30)
    return error if math.isfinite(error) else math.inf


def scale_of(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    spec: ConvTransposeSpec,
    residual: torch.Tensor | None,
) -> float:
    """Twice the 2-norm that random signs of all terms give an output of `FEW` elements; else 0.

    Rounding errors add up like terms with random signs. The terms of one element may cancel each
    other, their errors do not; and the error of one element may be twice the typical one.
    """
    if math.prod(spec.output_sizes(x.shape[2:])) * spec.out_channels * x.shape[0] >= FEW:
        return 0.0
    bias = None if b is None else b.double() ** 2
    squares = op.reference(x.double() ** 2, w.double() ** 2, bias, spec)
    if residual is not None:
        squares = squares + residual.double() ** 2
    return 2 * float(squares.sum()) ** 0.5


def compare(
    rng: random.Random, spec: ConvTransposeSpec, mode: str, word: int, number: int
) -> list[Result]:
    """One specification and schedule on several sizes, whose widths are multiples of `word`."""
    dtype = torch.float32 if mode == "tf32" else getattr(torch, mode)
    torch.backends.cudnn.allow_tf32 = mode == "tf32"
    w = (torch.randn(spec.weight_shape, device="cuda") / spec.in_per_group**0.5).to(dtype)
    b = torch.randn(spec.out_channels, device="cuda").to(dtype) if rng.random() < 0.7 else None
    plain = rng.random() < 0.5
    activation = draw_activation(rng, plain)
    slope = None
    if activation.kind == "prelu":
        slope = torch.rand(spec.out_channels, device="cuda").to(dtype)
    schedules: dict[tuple[bool, bool], Schedule] = {}
    layout, add = draw_layout(rng), not plain and rng.random() < 0.5
    results = []
    for _ in range(SIZES_A_SPEC):
        sizes = draw_sizes(rng, spec, word)
        x = draw_tensor((rng.choice((1, 2, 3)), spec.in_channels, *sizes), dtype, layout)
        problem = op.make_problem(x, spec)
        # A schedule suits one layout of the result (one pixel has either); compiling takes long.
        layouts = problem.channels_last_in, problem.channels_last_out
        schedule = schedules.get(layouts) or draw_schedule(rng, problem, x)
        schedules[layouts] = schedule
        if schedule.kind == LINES and lines_schedule(problem) is None:
            continue  # the width of the first size was of whole words, this one is not
        residual = torch.randn_like(op.empty_result(x, problem)) if add else None
        extra = {"activation": activation, "slope": slope, "residual": residual}
        errors = errors_of(x, w, b, spec, schedule, extra, thorough=number % 16 == 0)
        ok = errors.kernel <= max(FACTOR[mode] * errors.library, LEAST[mode]) and errors.repeats
        case = "" if ok else f"{spec} {sizes} {x.stride()} {schedule} {activation.kind} {add}"
        kind_of = schedule.kind if schedule.kind in UNPACKED else schedule.label
        kernel = f"{mode} {spec} {layout} {schedule} {activation.kind} {add}"
        results.append(Result(mode, kind_of, errors.kernel, errors.library, ok, case, kernel))
    return results


def errors_of(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    spec: ConvTransposeSpec,
    schedule: Schedule,
    extra: dict[str, Any],
    *,
    thorough: bool,
) -> Errors:
    """One launch against the library; where `thorough`, twice, and both oracles."""
    y = op.empty_result(x, op.make_problem(x, spec)).fill_(float("nan"))
    op.conv_transpose(x, w, b, spec, schedule=schedule, out=y, **extra)
    torch.cuda.synchronize()  # so that a fault of ours is not met in the library's call
    library = op.reference(x, w, b, spec, **extra)
    want = wanted(x, w, b, spec, extra)
    scale = scale_of(x, w, b, spec, extra["residual"])
    repeats = True
    if thorough:
        if relative(scattered(x, w, b, spec, extra), want) > ORACLES_AGREE:
            raise ValueError("the oracles differ")
        again = op.conv_transpose(x, w, b, spec, schedule=schedule, **extra)
        repeats = bool(torch.equal(again, y))
    return Errors(relative(y, want, scale), relative(library, want, scale), repeats)


def draw_activation(rng: random.Random, plain: bool) -> Activation:
    """Any activation, none where `plain`."""
    kind = "none" if plain else rng.choice(sorted(ACTIVATIONS))
    return make_activation(kind, *((-0.7, 0.9) if kind == "clip" else (None, None)))


def wanted(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    spec: ConvTransposeSpec,
    extra: dict[str, Any],
) -> torch.Tensor:
    """The result in float64, by ATen on the device."""
    wide = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in extra.items()}
    bias = None if b is None else b.double()
    return op.reference(x.double(), w.double(), bias, spec, **wide)


def scattered(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    spec: ConvTransposeSpec,
    extra: dict[str, Any],
) -> torch.Tensor:
    """The result by the scatter oracle on the processor, the epilogue in float64 torch."""
    host = [None if t is None else t.double().cpu().numpy() for t in (x, w, b)]
    y = torch.from_numpy(oracle(*host, spec)).to(x.device)
    if extra["residual"] is not None:
        y = y + extra["residual"].double()
    slope = extra["slope"]
    return op.apply_reference(y, extra["activation"], None if slope is None else slope.double())


def work(seed: int, whole_lines: float) -> list[Result]:
    """Draw one specification and compare it in several sizes."""
    rng = random.Random(seed)
    torch.set_num_threads(1)
    whole = rng.random() < whole_lines
    spec = draw_whole_lines(rng) if whole else draw_spec(rng, rng.choice(RANGES))
    mode = rng.choice(sorted(FACTOR))
    torch.manual_seed(seed)
    try:
        return compare(rng, spec, mode, 4 if whole else rng.choice((1, 2, 4, 4)), seed)
    except Exception as error:  # reported as a failed case
        at = next(f.line for f in traceback.extract_tb(error.__traceback__) if f.name == "compare")
        text = f"seed {seed}: {type(error).__name__} {str(error)[:400]} {spec} at {at}"
        return [Result(mode, "error", 0, 0, False, text, text)]


def sweep(first_seed: int, jobs: int, seconds: float, whole_lines: float) -> list[Result]:
    """What the processes find until the time is over; specifications under way then are dropped.

    An error of CUDA ends it too: the process that met it computes nothing any more.
    """
    results: list[Result] = []
    deadline = time.monotonic() + seconds
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        draw = functools.partial(work, whole_lines=whole_lines)
        found = pool.imap_unordered(draw, range(first_seed, first_seed + MOST))
        while (left := deadline - time.monotonic()) > 0:
            try:
                results += found.next(timeout=left)
            except multiprocessing.TimeoutError:
                break
            if results and "CUDA error" in results[-1].case:
                break
    return results


def main() -> None:
    """Run the sweep and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--whole-lines", type=float, default=0.15, help="share of specifications with whole lines"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results = sweep(args.seed * MOST, args.jobs, args.seconds, args.whole_lines)
    bad = [r for r in results if not r.ok]
    for r in bad[:12]:
        print(f"FAILED {r.mode} error {r.error:.2e} library {r.library:.2e}\n   {r.case}")
    counts = collections.Counter(r.mode for r in results)
    ratios_of = {}
    for mode in sorted(counts):
        least = LEAST[mode] / FACTOR[mode]  # the library takes no TF32 for some channels
        ratios = [r.error / max(r.library, least) for r in results if r.mode == mode]
        beyond = sum(r > FACTOR[mode] for r in ratios)
        worst, middle = max(ratios), sorted(ratios)[len(ratios) // 2]
        ratios_of[mode] = {"median": middle, "worst": worst, "beyond": beyond}
        print(
            f"{mode:9s} {counts[mode]:5d} cases, error over library's: median {middle:.2f}, worst "
            f"{worst:.2f}, {beyond} beyond {FACTOR[mode]}"
        )
    kernels = len({r.kernel for r in results})
    kinds = collections.Counter(r.schedule.split("-")[0] for r in results)
    print(f"{len(results)} geometries of {kernels} kernels, {len(bad)} failed, {dict(kinds)}")
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "cuDNN", cudnn())
    if args.json:
        summary = {
            "kinds": dict(kinds),
            "cases": len(results),
            "kernels": kernels,
            "failed": [r.case for r in bad],
            "by_mode": dict(counts),
            "ratios": ratios_of,
        }
        args.json.write_text(json.dumps(summary, indent=1))


def cudnn() -> object:
    """Version of cuDNN."""
    return torch.backends.cudnn.version()


if __name__ == "__main__":
    main()
