"""Compiles kernels ahead of time and prints what the PTX holds, as JSON; run by test_compile.

A process of its own, because the interpreter that the other tests use replaces the compiler.
"""

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import triton

from convt_onnx.plugins.conv_transpose.activations import make_activation
from convt_onnx.plugins.conv_transpose.compile import compile_ptx, sizes_of
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.problem import Problem
from convt_onnx.plugins.conv_transpose.schedule import program_count
from convt_onnx.spec import ConvTransposeSpec

DENSE = ConvTransposeSpec(64, 32, 1, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1)).canonical()
DEPTHWISE = ConvTransposeSpec(64, 64, 64, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
FIXED, OPEN = (None, 64, 64), (None, None, None)
CASES = {
    "dense NHWC float16": KernelSpec(DENSE, "float16", FIXED, True, True, bias=True),
    "dense NCHW float16": KernelSpec(DENSE, "float16", FIXED, bias=True),
    "dense NHWC float32": KernelSpec(DENSE, "float32", FIXED, True, True, True, bias=True),
    "depthwise NHWC float16": KernelSpec(DEPTHWISE, "float16", FIXED, True, True, bias=True),
    "open NCHW float16": KernelSpec(DENSE, "float16", OPEN, bias=True, residual=True),
    "open NCHW to NHWC bfloat16": KernelSpec(DENSE, "bfloat16", OPEN, False, True),
    "open NCHW float32": KernelSpec(DENSE, "float32", OPEN, wide=True),
}
PATTERNS = {
    "matrix": r"\b(?:wgmma\.mma|mma\.sync|tcgen05\.mma)",
    "wide_loads": r"\bld\.global(?:[.:]+\w+)*\.v4\.b32|cp\.async\.cg\.shared\.global",
    "wide_stores": r"\bst\.global(?:[.:]+\w+)*\.v4\.b32",
    "entries": r"\.entry",
}


def spilled(ptx: str, blackwell: bool) -> int:
    """Bytes that ptxas spills."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    tool = tool / ("ptxas-blackwell" if blackwell else "ptxas")
    architecture = re.search(r"\.target (\w+)", ptx).group(1)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [tool, "-v", f"-arch={architecture}", source, "-o", source.with_suffix(".cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sum(int(n) for n in re.findall(r"(\d+) bytes spill stores", done.stderr))


def problem(kernel: KernelSpec, batch: int) -> Problem:
    """The kernel's problem for 64x64 rows."""
    return replace(kernel.problem, batch=batch, sizes=(64, 64))


def report(name: str, capability: int) -> dict:
    """What one kernel holds."""
    kernel = replace(CASES[name], activation=make_activation("relu"))
    made = compile_ptx(kernel, capability)
    counts = {key: len(re.findall(pattern, made.ptx)) for key, pattern in PATTERNS.items()}
    entry = re.search(r"\.entry \w+\((.*?)\)", made.ptx, re.DOTALL).group(1)
    return counts | {
        "spilled": spilled(made.ptx, capability >= 100),
        "parameters": made.parameters,
        "declared": entry.count(".param"),
        "shared": made.shared_bytes,
        "grid": [made.grid.evaluate(sizes_of((n, 64, 64, 64))) for n in (1, 3, 8)],
        "wanted_grid": [program_count(problem(kernel, n), made.schedule) for n in (1, 3, 8)],
        "numbers": sum(a.value is not None for a in made.arguments),
        "threads": made.threads,
        "declared_threads": int(re.search(r"\.reqntid (\d+)", made.ptx).group(1)),
        "version": re.search(r"\.version (\S+)", made.ptx).group(1),
        "schedule": made.schedule.label,
    }


if __name__ == "__main__":
    jobs = [job.rsplit(":", 1) for job in sys.argv[1:]]
    print(json.dumps({f"{n}:{c}": report(n, int(c)) for n, c in jobs}))
