"""Compiles kernels of every kind for 9.0 and prints what their PTX holds.

A process of its own, because the interpreter that the other tests use replaces the compiler.
"""

import json
import re
from dataclasses import replace

import triton
from aot_report import PATTERNS, spilled
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from convt_onnx.plugins.conv_transpose import heuristics, launch
from convt_onnx.plugins.conv_transpose.activations import NONE
from convt_onnx.plugins.conv_transpose.compile import POINTERS
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.ptx import PTX_VERSIONS
from convt_onnx.plugins.conv_transpose.schedule import (
    GEMM,
    RESIDENT,
    WALK,
    Schedule,
    resident_bytes,
)
from convt_onnx.spec import ConvTransposeSpec

DEPTHWISE = ConvTransposeSpec(64, 64, 64, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
ODD_LINES = ConvTransposeSpec(32, 32, 1, (5, 5), (3, 3), (1, 1), (2, 2), (2, 2), (0, 0)).canonical()
DENSE = ConvTransposeSpec(64, 32, 1, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1)).canonical()
NARROWER = replace(DENSE, in_channels=32)
ALONG = ConvTransposeSpec(64, 32, 1, (4,), (2,), (1,), (1,), (1,), (0,))
LARGE = ConvTransposeSpec(64, 32, 1, (5, 5), (2, 2), (1, 1), (2, 2), (2, 2), (1, 1)).canonical()
ODD_CHANNELS = ConvTransposeSpec(
    16, 3, 1, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1)
).canonical()
# Divisions of one axis of channels and taps are by 12, 6 and 4 there.
FEW_CHANNELS = ConvTransposeSpec(12, 3, 1, (6, 6), (4, 2), (2, 2), (6, 9), (6, 5), (0, 0))
FLAT = Schedule(GEMM, (True,) * 3, (True,) * 3, 128, 32, 16, 4, 3, True, True, True, False)
# Whole tiles of x ahead, and a tile of y beside them.
AHEAD = Schedule(RESIDENT, (True,) * 3, (True,) * 3, 64, 64, 32, 8, 2, workers=132)
HOLDING = (RESIDENT, WALK)  # the weight in shared memory
WORD = {True: 8, False: 4}  # elements of x that a load reads
UNIT = {True: "c", False: "w"}  # the axis with stride 1


def compiled(
    problem: Problem, schedule: Schedule, absent: dict, gaps: bool = False
) -> triton.compiler.CompiledKernel:
    """The kernel without the operands that are absent, and with gaps between elements of x."""
    last = problem.channels_last_in
    call = launch.Call(problem, schedule, NONE)
    single = schedule.flat or gaps
    _, constants = launch.launch_constants(call, False, 1 if single else WORD[last])
    constants = constants | absent | {"x_d": 0, "y_d": 0}  # the dictionary is kept there
    constants |= {f"y_{UNIT[last]}": 1} | ({} if gaps else {f"x_{UNIT[last]}": 1})
    function = launch.kernel(schedule)
    names = function.arg_names
    pointers = ("x", "w", "bias", "residual", "y")
    kinds = {n: POINTERS[problem.dtype] if n in pointers else "i32" for n in names}
    signature = {n: "constexpr" if n in constants else kinds[n] for n in names}
    values = {(i,): constants[n] for i, n in enumerate(names) if n in constants}
    aligned = [n for n in names if n in pointers or re.fullmatch("[xy]_.", n)]
    if gaps:
        aligned.remove("x_w")
    attributes = {
        (i,): [["tt.divisibility", 16]]
        for i, n in enumerate(names)
        if n in aligned and n not in constants
    }
    options = {"num_warps": schedule.warps, "num_stages": schedule.stages}
    options |= {"maxnreg": schedule.registers or None, "enable_fp_fusion": True}
    options |= {"ptx_version": PTX_VERSIONS[90]}
    source = ASTSource(function, signature, values, attributes)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def report(
    spec: ConvTransposeSpec,
    last: bool,
    residual: bool = False,
    bias: bool = True,
    forced: Schedule | None = None,
    sizes: tuple[int, ...] = (64, 64),
    gaps: bool = False,
) -> dict:
    """What the kernel of one layout holds; sizes and strides are multiples of 16."""
    problem = Problem(spec, 32, sizes, "float16", last, last)
    schedule = forced or heuristics.choose(problem, Device())
    absent = {"slope": None}
    absent |= {} if residual else {"residual": None}
    absent |= {} if bias else {"bias": None}
    made = compiled(problem, schedule, absent, gaps)
    ptx = made.asm["ptx"]
    counts = {key: len(re.findall(pattern, ptx)) for key, pattern in PATTERNS.items()}
    return counts | {
        "kind": schedule.kind,
        "spilled": spilled(ptx, False),
        "shared": made.metadata.shared,
        "estimated": resident_bytes(problem, schedule) if schedule.kind in HOLDING else None,
        "barriers": len(re.findall(r"\bbar\.sync", ptx)),
        "packed_integers": len(re.findall(r"\.[su]16x2", ptx)),
        "stores": len(re.findall(r"\bst\.global", ptx)),
        "words": len(re.findall(r"ld\.global(?:[.:]+\w+)*\.(?:b64|v2\.b32|v2\.u32|u64)", ptx)),
    }


if __name__ == "__main__":
    kernels = {
        "NHWC": report(DENSE, True),
        "NCHW": report(NARROWER, False),
        "odd lines": report(ODD_LINES, True),
        "odd lines, residual": report(ODD_LINES, True, True),
        "no bias": report(DENSE, True, bias=False),
        "no bias, odd channels": report(ODD_CHANNELS, False, residual=True, bias=False),
        "walk": report(LARGE, True, sizes=(128, 128)),
        "walk in words": report(LARGE, False, sizes=(128, 128)),
        "walk in words, residual": report(LARGE, False, True, sizes=(128, 128)),
        "walk in thirds": report(ODD_LINES, False, sizes=(128, 128)),
        "walk in thirds, residual": report(ODD_LINES, False, True, sizes=(128, 128)),
        "walk along one axis": report(ALONG, False, sizes=(8192,)),
        "walk with gaps": report(ALONG, False, sizes=(8192,), gaps=True),
        "direct": report(DEPTHWISE, True),
        "tiles ahead": report(DENSE, True, forced=AHEAD),
        "lines": report(DEPTHWISE, False),
        "flat": report(FEW_CHANNELS, False, forced=FLAT),
    }
    print(json.dumps(kernels))
