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
from convt_onnx.plugins.conv_transpose.compile import compile_ptx
from convt_onnx.plugins.conv_transpose.problem import Problem
from convt_onnx.plugins.conv_transpose.schedule import program_count
from convt_onnx.spec import ConvTransposeSpec

DENSE = ConvTransposeSpec(64, 32, 1, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1)).canonical()
DEPTHWISE = ConvTransposeSpec(64, 64, 64, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
CASES = {
    "dense NHWC float16": Problem(DENSE, 8, (64, 64), "float16", True, True),
    "dense NCHW float16": Problem(DENSE, 8, (64, 64), "float16"),
    "dense NHWC float32": Problem(DENSE, 8, (64, 64), "float32", True, True, True),
    "depthwise NHWC float16": Problem(DEPTHWISE, 8, (64, 64), "float16", True, True),
}
PATTERNS = {
    "matrix": r"\b(?:wgmma\.mma|mma\.sync|tcgen05\.mma)",
    "wide_loads": r"\bld\.global(?:\.\w+)*\.v4\.b32|cp\.async\.cg\.shared\.global",
    "wide_stores": r"\bst\.global(?:\.\w+)*\.v4\.b32",
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


def report(name: str, capability: int) -> dict:
    """What one kernel holds."""
    made = compile_ptx(
        CASES[name], capability, residual="NHWC" in name, activation=make_activation("relu")
    )
    counts = {key: len(re.findall(pattern, made.ptx)) for key, pattern in PATTERNS.items()}
    entry = re.search(r"\.entry \w+\((.*?)\)", made.ptx, re.DOTALL).group(1)
    return counts | {
        "spilled": spilled(made.ptx, capability >= 100),
        "parameters": made.parameters,
        "declared": entry.count(".param"),
        "shared": made.shared_bytes,
        "grid": [made.grid(batch) for batch in (1, 3, 8)],
        "wanted_grid": [
            program_count(replace(CASES[name], batch=batch), made.schedule) for batch in (1, 3, 8)
        ],
        "threads": made.threads,
        "declared_threads": int(re.search(r"\.reqntid (\d+)", made.ptx).group(1)),
        "version": re.search(r"\.version (\S+)", made.ptx).group(1),
        "schedule": made.schedule.label,
    }


if __name__ == "__main__":
    jobs = [job.rsplit(":", 1) for job in sys.argv[1:]]
    print(json.dumps({f"{n}:{c}": report(n, int(c)) for n, c in jobs}))
