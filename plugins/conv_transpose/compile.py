"""Ahead-of-time PTX without a GPU: for hosts that launch it through the CUDA driver.

Sizes that the model leaves open are int32 arguments, the others are compiled in. A host passes
pointers and int32 numbers and nothing else, so the kernel has one entry, no scratch memory, no
cluster, and at most 48 KiB of shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from convt_onnx.errors import MissingPartError, UsageError, install
from convt_onnx.plugins.conv_transpose import ahead, launch
from convt_onnx.plugins.conv_transpose.formula import SIZES, Formula
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.ptx import (
    PTX_VERSIONS,
    require_capability,
    require_plain,
    without_scratch,
)
from convt_onnx.plugins.conv_transpose.quantities import grid, output_sizes, quantities
from convt_onnx.plugins.conv_transpose.router import supports
from convt_onnx.plugins.conv_transpose.schedule import (
    DIRECT,
    GEMM,
    Schedule,
    largest_divisor,
)
from convt_onnx.plugins.conv_transpose.schedule_text import format_schedule

POINTERS = {"float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32"}
OPERANDS = ("x", "w", "bias", "slope", "residual", "y")
# Accesses are at most 16 bytes wide.
ALIGNMENT = 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of a kernel: a pointer to an operand, or an int32 with its formula."""

    name: str
    value: Formula | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """One compiled kernel and how to launch it.

    Attributes:
        name: The entry.
        ptx: Its text.
        arguments: In order. Pointers are x, w, bias, slope, residual, y, aligned to 16 bytes. The
            weight is packed by `packing_of(problem, schedule)` for a GEMM schedule, and
            [C_in, C_out/group, *kernel] for a direct one.
        grid: Blocks along x; there is one along y and z.
        output: Depth, height and width of y.
        threads: Of a block, along x.
        shared_bytes: Dynamic shared memory of a block.
        schedule: What was compiled.
        capability: Compute capability, as 80 for 8.0.
    """

    name: str
    ptx: str
    arguments: tuple[Argument, ...]
    grid: Formula
    output: tuple[Formula, Formula, Formula]
    threads: int
    shared_bytes: int
    schedule: Schedule
    capability: int

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments, in order."""
        return tuple(a.name for a in self.arguments)

    def numbers(self, sizes: Mapping[str, T]) -> tuple[T | int, ...]:
        """The int32 arguments, in order, for sizes by the names of `formula.SIZES`."""
        return tuple(a.value.evaluate(sizes) for a in self.arguments if a.value is not None)

    def description(self) -> dict[str, Any]:
        """Everything but the PTX, for a host in another language; formulas as in `formula`."""
        return {
            "name": self.name,
            "arguments": [
                {"name": a.name, "value": None if a.value is None else a.value.text}
                for a in self.arguments
            ],
            "grid": self.grid.text,
            "output": [f.text for f in self.output],
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
            "schedule": format_schedule(self.schedule),
            "capability": self.capability,
        }


def sizes_of(shape: tuple[T, ...]) -> dict[str, T | int]:
    """The sizes by name of x with that shape [N, C, *spatial]."""
    spatial = shape[2:]
    return dict(zip(SIZES, (shape[0], *(1,) * (3 - len(spatial)), *spatial), strict=True))


def compile_ptx(kernel: KernelSpec, capability: int, schedule: Schedule | None = None) -> Artifact:
    """PTX of one kernel for one compute capability (75 ... 120).

    Raises:
        UsageError: The capability is not known or lacks the type, the schedule is not of a kind
            that is compiled ahead of time, or the kernel does not keep to the limits.
        MissingPartError: Triton is not installed.
    """
    require_capability(capability)
    if schedule is None:
        schedule = ahead.schedules(kernel, ahead.base_schedule(kernel), capability)[0]
    if schedule.kind not in (GEMM, DIRECT):
        raise UsageError(
            "schedules of this kind are not compiled ahead of time",
            where=schedule.label,
            help=f"give one of the kinds {GEMM} and {DIRECT}",
        )
    device = replace(ahead.DEVICE, capability=capability)
    answer = supports(kernel.problem, device, schedule)
    if not answer:
        raise UsageError(
            "the kernels do not compute this",
            where=answer.reason,
            help="another schedule may do it; every runtime does it without the kernels",
        )
    return _compiled(kernel, capability, schedule)


@lru_cache(maxsize=256)
def _compiled(kernel: KernelSpec, capability: int, schedule: Schedule) -> Artifact:
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise MissingPartError(
            "triton is not installed, which compiles the kernels",
            help=install("tensorrt-plugin"),
        ) from error
    signature, constants, attributes, arguments = _signature(kernel, schedule)
    source = ASTSource(launch.kernel(schedule), signature, constants, attributes)
    options = {
        "num_warps": schedule.warps,
        "num_stages": schedule.stages,
        "ptx_version": PTX_VERSIONS[capability],
        "enable_fp_fusion": True,
    }
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    ptx = without_scratch(compiled.asm["ptx"], len(arguments))
    require_plain(compiled.metadata, ptx)
    return Artifact(
        name=compiled.metadata.name,
        ptx=ptx,
        arguments=arguments,
        grid=grid(kernel, schedule),
        output=output_sizes(kernel),
        threads=schedule.warps * 32,
        shared_bytes=compiled.metadata.shared,
        schedule=schedule,
        capability=capability,
    )


Signature = tuple[
    dict[str, str], dict[tuple[int], Any], dict[tuple[int], Any], tuple[Argument, ...]
]


def _signature(kernel: KernelSpec, schedule: Schedule) -> Signature:
    """Triton's types, constants and attributes by parameter, and what a host passes."""
    call = launch.Call(kernel.problem, schedule, kernel.activation)
    _, compiled = launch.launch_constants(call, kernel.wide, _x_vector(kernel))
    numbers = quantities(kernel, schedule)
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], Any] = {}
    arguments: list[Argument] = []
    for i, name in enumerate(launch.kernel(schedule).arg_names):
        value = numbers.get(name)
        if name in (*kernel.operands, "y"):
            signature[name] = POINTERS[kernel.dtype]
            attributes[(i,)] = [["tt.divisibility", ALIGNMENT]]
            arguments.append(Argument(name))
        elif value is not None and value.constant is None:
            signature[name] = "i32"
            if value.factor % ALIGNMENT == 0:
                attributes[(i,)] = [["tt.divisibility", ALIGNMENT]]
            arguments.append(Argument(name, value))
        else:
            signature[name] = "constexpr"
            constants[(i,)] = compiled.get(name) if value is None else value.constant
            _require_known(name, value, compiled)
    return signature, constants, attributes, tuple(arguments)


def _require_known(name: str, value: Formula | None, compiled: Mapping[str, Any]) -> None:
    # The compiler divides by constants itself, and by open sizes as the device does.
    absent = name in OPERANDS or name.endswith(("_mul", "_shift"))
    if value is None and name not in compiled and not absent:
        raise UsageError(
            "the kernel takes a number that no formula gives",
            where=name,
            help="please report this with the geometry",
        )


def _x_vector(kernel: KernelSpec) -> int:
    """Channels of x that one load may read at once."""
    problem = kernel.problem
    if not kernel.channels_last_in:
        return 1
    return largest_divisor(ALIGNMENT // problem.element_bytes, kernel.spec.in_per_group)
