"""What a launch costs that does nothing, by its number of programs.

    PYTHONPATH=. python benchmarks/gpu_empty.py

The kernel takes as many arguments as the project's; times are CUDA-graph medians, the numbers of
programs in turn.
"""

# ruff: noqa: ANN001, ANN201 - values of the device
# mypy: ignore-errors

import argparse
import statistics
from collections.abc import Iterable

import torch
import triton
from gpu_timing import graph_us

PROGRAMS = (1, 132, 512, 1024, 2304, 3456)
ROUNDS = 5
SIZES = 28  # integer arguments of the implicit GEMM
WARPS = 4


@triton.jit(do_not_specialize=[f"s{i}" for i in range(SIZES)])
def empty_kernel(
    x, w, bias, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16, s17,
    s18, s19, s20, s21, s22, s23, s24, s25, s26, s27, y,
):  # fmt: skip
    """Nothing."""


def empty_us(programs: Iterable[int] = PROGRAMS) -> dict[int, float]:
    """Median microseconds of a launch of each number of programs."""
    tensor = torch.empty(64, device="cuda")
    times: dict[int, list[float]] = {count: [] for count in programs}
    for _ in range(ROUNDS):
        for count, found in times.items():
            found.append(graph_us([lambda count=count: _launch(tensor, count)]))
    return {count: statistics.median(found) for count, found in times.items()}


def _launch(tensor: torch.Tensor, programs: int) -> None:
    sizes = range(SIZES)
    empty_kernel[(programs, 1, 1)](tensor, tensor, tensor, *sizes, tensor, num_warps=WARPS)


def main() -> None:
    """Print a line for each number of programs."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for programs, time in empty_us().items():
        print(f"{programs:5d} programs: {time:.2f} us")
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "Triton", triton.__version__)


if __name__ == "__main__":
    main()
