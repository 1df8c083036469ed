"""Ahead-of-time PTX without a GPU: for engines that must run without Python or Triton.

The geometry and all spatial sizes are compiled in; the batch stays free. TensorRT passes pointers
and nothing else, so the kernel must have one entry, ask for no scratch memory (Triton declares two
pointers for it, which are cut off here), no cluster, and at most 48 KiB of shared memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from convt_onnx.errors import UsageError
from convt_onnx.plugins.conv_transpose import heuristics, launch
from convt_onnx.plugins.conv_transpose.activations import NONE, Activation
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import Schedule, program_count

SHARED_LIMIT = 49152
# PTX versions that the drivers of each generation's first toolkit read.
PTX_VERSIONS = {75: 80, 80: 80, 86: 80, 89: 80, 90: 80, 100: 87, 103: 88, 120: 87}
POINTERS = {"float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32"}


@dataclass(frozen=True, slots=True)
class Artifact:
    """One compiled kernel.

    `parameters` names what to pass, in order: pointers, the int32 `rows` (batch times
    `rows_per_image`), then y. The weight is packed by `packing_of(problem, schedule)` for a GEMM
    schedule and passed as it is for a direct one.
    """

    name: str
    ptx: str
    parameters: tuple[str, ...]
    schedule: Schedule
    threads: int
    shared_bytes: int
    rows_per_image: int
    programs_per_tile: int

    def grid(self, batch: int) -> int:
        """Programs to launch, along x."""
        return -(-batch * self.rows_per_image // self.schedule.block_m) * self.programs_per_tile


def aot_schedule(problem: Problem, capability: int) -> Schedule:
    """The heuristic's schedule within 48 KiB of shared memory; deterministic."""
    device = Device("ahead of time", capability, 132, SHARED_LIMIT)
    schedule = heuristics.choose(problem, device)
    while not heuristics.fits(problem, schedule, device) and schedule.block_m > 16:
        schedule = replace(schedule, block_m=schedule.block_m // 2)
    return schedule


def compile_ptx(
    problem: Problem,
    capability: int,
    *,
    bias: bool = True,
    residual: bool = False,
    activation: Activation = NONE,
    schedule: Schedule | None = None,
) -> Artifact:
    """PTX of one problem for one compute capability (75 ... 120), strides as contiguous.

    Raises:
        UsageError: The capability is not known, or the kernel does not keep to the limits.
    """
    if capability not in PTX_VERSIONS:
        raise UsageError(
            f"no PTX is made for compute capability {capability}",
            help="choose one of " + ", ".join(map(str, PTX_VERSIONS)),
        )
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    chosen = schedule or aot_schedule(problem, capability)
    call = launch.Call(problem, chosen, activation)
    signature, constants, attributes = _signature(call, bias, residual)
    source = ASTSource(launch.kernel(chosen), signature, constants, attributes)
    options = {
        "num_warps": chosen.warps,
        "num_stages": chosen.stages,
        "ptx_version": PTX_VERSIONS[capability],
        "enable_fp_fusion": True,
    }
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    parameters = tuple(n for n, kind in signature.items() if kind != "constexpr")
    ptx = _without_scratch(compiled.asm["ptx"], len(parameters))
    _check(compiled.metadata, ptx)
    one = replace(problem, batch=1)
    rows = launch.launch_sizes(replace(call, problem=one), (0,) * 5, (0,) * 5)[0]
    assert rows is not None
    return Artifact(
        compiled.metadata.name,
        ptx,
        parameters,
        chosen,
        chosen.warps * 32,
        compiled.metadata.shared,
        rows,
        program_count(one, chosen) // -(-rows // chosen.block_m),
    )


def contiguous_strides(
    batch_elements: int, sizes: tuple[int, int, int], channels: int, channels_last: bool
) -> tuple[int, int, int, int, int]:
    """Strides of [N, C, D, H, W]; `batch_elements` is C*D*H*W."""
    _, height, width = sizes
    if channels_last:
        return batch_elements, 1, height * width * channels, width * channels, channels
    return batch_elements, batch_elements // channels, height * width, width, 1


def _signature(
    call: launch.Call, bias: bool, residual: bool
) -> tuple[dict[str, str], dict[tuple[int], Any], dict[tuple[int], Any]]:
    problem = call.problem
    vector = 16 // problem.element_bytes
    x_vector = vector if problem.channels_last_in and not problem.spec.in_per_group % vector else 1
    _, compiled = launch.launch_constants(call, False, x_vector)
    present = (
        {"x", "w", "y"} | ({"bias"} if bias else set()) | ({"residual"} if residual else set())
    )
    if call.activation.kind == "prelu":
        present.add("slope")
    sizes = iter(launch.launch_sizes(call, *_strides(problem)))
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], Any] = {}
    for i, name in enumerate(launch.kernel(call.schedule).arg_names):
        if name in present:
            signature[name] = POINTERS[problem.dtype]
            attributes[(i,)] = [["tt.divisibility", 16]]
        elif name in compiled or name in ("bias", "residual", "slope"):
            signature[name], constants[(i,)] = "constexpr", compiled.get(name)
        else:
            value = next(sizes)
            free = name == "rows"
            signature[name] = "i32" if free else "constexpr"
            if not free:  # the compiler divides by constants well
                constants[(i,)] = None if name.endswith(("_mul", "_shift")) else value
    return signature, constants, attributes


def _strides(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...]]:
    spec, batch = problem.spec, max(problem.batch, 1)
    return (
        contiguous_strides(
            problem.in_elements // batch,
            problem.in_sizes,
            spec.in_channels,
            problem.channels_last_in,
        ),
        contiguous_strides(
            problem.out_elements // batch,
            problem.out_sizes,
            spec.out_channels,
            problem.channels_last_out,
        ),
    )


def _without_scratch(ptx: str, count: int) -> str:
    """The entry with its first `count` parameters; those cut off must not be used."""
    match = re.search(r"(\.entry\s+(\w+)\()(.*?)(\n?\))", ptx, re.DOTALL)
    if match is None:
        raise UsageError("the compiled kernel has no entry")
    parameters = [p.strip() for p in match.group(3).split(",") if p.strip()]
    for extra in parameters[count:]:
        name = extra.split()[-1].split("[")[0]
        if ptx.count(name) > 1:
            raise UsageError("the compiled kernel uses hidden scratch memory", where=name)
    kept = ",\n\t".join(parameters[:count])
    return ptx[: match.start()] + f"{match.group(1)}\n\t{kept}\n)" + ptx[match.end() :]


def _check(metadata: Any, ptx: str) -> None:
    scratch = getattr(metadata, "global_scratch_size", 0) or 0
    scratch += getattr(metadata, "profile_scratch_size", 0) or 0
    clusters = getattr(metadata, "num_ctas", 1)
    if metadata.shared > SHARED_LIMIT or scratch or clusters != 1 or ptx.count(".entry") != 1:
        raise UsageError(
            "the compiled kernel does not keep to the limits of ahead-of-time plugins",
            where=f"shared {metadata.shared}, scratch {scratch}, clusters {clusters}",
            help=f"give a schedule with smaller tiles (at most {SHARED_LIMIT} bytes shared)",
        )
