"""The kernels as ahead-of-time plugins of TensorRT 10.9 and later: the engine holds their PTX.

NVIDIA's `tensorrt.plugin` asks a plugin for shapes, for combinations of formats with tactics, and
for each of these for PTX, a grid and int32 numbers as expressions. It passes the inputs' pointers,
the numbers, then y's pointer, and nothing else. The engine then needs neither Python nor Triton.

Each operator type of a model is a plugin of its own, without attributes: what the attributes say is
in the operator type's record. TensorRT-RTX does not have this interface.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from convt_onnx.errors import MissingPartError, UsageError
from convt_onnx.plugin_node import DOMAIN, PluginRecord
from convt_onnx.plugins.conv_transpose import ahead
from convt_onnx.plugins.conv_transpose.compile import Artifact, compile_ptx, sizes_of
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.ptx import require_capability
from convt_onnx.plugins.conv_transpose.quantities import output_sizes
from convt_onnx.plugins.tensorrt.driver import INT32_END, device_capability
from convt_onnx.plugins.tensorrt.formats import CHANNELS_LAST, LINEAR, name_of, takes
from convt_onnx.plugins.tensorrt.nodes import Model, records_of

# Versions whose quick plugins are broken; torch-TensorRT leaves them out too.
BROKEN = ("10.14.",)
TYPES = {"float32": "FP32", "float16": "FP16", "bfloat16": "BF16"}
# Names of `tensorrt.plugin`'s inputs.
ARGUMENTS = {"x": "X", "w": "W", "bias": "B", "slope": "S", "residual": "R"}


@dataclass(frozen=True, slots=True)
class Building:
    """What the engine is built for: a compute capability, and whether TF32 is allowed."""

    capability: int
    tf32: bool = False


# What the plugins that are registered build for; a process registers a name once.
_building: dict[str, Building] = {}


def require_aot(trt: Any) -> None:
    """Refuse a module without the interface, or a version in which it is broken.

    Raises:
        MissingPartError: It is one.
    """
    version = str(getattr(trt, "__version__", ""))
    parts = ("QuickPluginCreationRequest", "IPluginV3QuickAOTBuild")
    if not all(hasattr(trt, name) for name in parts):
        raise MissingPartError(
            "this TensorRT has no ahead-of-time plugins",
            where=f"{trt.__name__} {version}",
            help="TensorRT 10.9 has them; --plugin python works with 10.0 and TensorRT-RTX too",
        )
    if version.startswith(BROKEN):
        raise MissingPartError(
            "ahead-of-time plugins are broken in this TensorRT",
            where=f"version {version}",
            help="take 10.13, 10.15 or later, or --plugin python",
        )


def register_aot(
    trt: Any, model: Model, *, capability: int | None = None, tf32: bool = False
) -> tuple[str, ...]:
    """Register the plugin nodes of a model; the names of their operator types.

    Args:
        trt: The module tensorrt.
        model: The file, or the model in memory.
        capability: Compute capability to build for, as 80 for 8.0; the current device's by default.
            Hardware compatibility AMPERE_PLUS takes 80.
        tf32: Whether float32 products may be rounded to TF32.

    Raises:
        MissingPartError: This version has no such plugins, or no device is here to build for.
        UsageError: No PTX is made for the capability, or a node is not as written here.
    """
    require_aot(trt)
    chosen = capability if capability is not None else device_capability()
    if chosen is None:
        raise MissingPartError(
            "no device is here to build the plugin for", help="name a capability"
        )
    require_capability(chosen)
    records = records_of(model)
    register_records(records, Building(chosen, tf32))
    return tuple(records)


def register_records(records: Mapping[str, PluginRecord], building: Building) -> None:
    """Register plugins by operator type, or change what those of a name are built for."""
    trtp = importlib.import_module("tensorrt.plugin")
    for name, record in records.items():
        if name not in _building:
            _define(trtp, name, record)
        _building[name] = building


def _define(trtp: Any, name: str, record: PluginRecord) -> None:
    identity = f"{DOMAIN}::{name}"
    inputs = tuple(ARGUMENTS[n] for n in record.kernel().operands)
    tensors = dict.fromkeys(inputs, trtp.TensorDesc)

    def describe(*descs: Any) -> Any:
        return output_desc(trtp, record, descs[0])

    def combine(*arguments: Any) -> Any:
        found = combinations(record, _building[name], _known(arguments[0]))
        return [trtp.AutoTuneCombination(*c) for c in found]

    def implement(*arguments: Any) -> Any:
        *descs, outputs, tactic = arguments
        artifact = chosen_kernel(record, _building[name], descs[0], outputs[0], int(tactic))
        return launch_of(trtp, artifact, descs[0])

    result = tuple[str, str, trtp.KernelLaunchParams, trtp.SymExprs]
    outputs = {"outputs": tuple[trtp.TensorDesc]}
    trtp.register(identity)(_signed(describe, tensors, trtp.TensorDesc))
    trtp.autotune(identity)(_signed(combine, tensors | outputs, list[trtp.AutoTuneCombination]))
    trtp.aot_impl(identity)(_signed(implement, tensors | outputs | {"tactic": int}, result))


def _signed(function: Callable[..., Any], parameters: dict[str, Any], result: Any) -> Any:
    """The function with a signature, which is what tensorrt.plugin reads."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    given = [inspect.Parameter(n, kind, annotation=a) for n, a in parameters.items()]
    function.__signature__ = inspect.Signature(given, return_annotation=result)  # type: ignore[attr-defined]
    return function


def output_desc(trtp: Any, record: PluginRecord, x: Any) -> Any:
    """TensorDesc of Y for that of X."""
    dims = tuple(x.shape_expr)
    formulas = output_sizes(record.kernel())[3 - record.spec.ndim :]
    sizes = [f.evaluate(sizes_of(dims)) for f in formulas]
    shape = trtp.ShapeExprs.from_tuple((dims[0], record.spec.out_channels, *sizes))
    return trtp.TensorDesc(shape, x.dtype)


def combinations(
    record: PluginRecord, building: Building, sizes: tuple[int | None, ...]
) -> list[tuple[str, str, list[int]]]:
    """Types, formats and tactics of inputs and output, as AutoTuneCombination takes them."""
    operands = record.kernel().operands
    types = ", ".join([TYPES[record.dtype]] * (len(operands) + 1))
    found = []
    for x, y in product(_formats(record, "in"), _formats(record, "out")):
        layout = {"x": x, "residual": y}
        layouts = ", ".join([*(layout.get(name, LINEAR) for name in operands), y])
        kernel = _kernel(record, building, x != LINEAR, y != LINEAR, sizes=sizes)
        count = len(ahead.schedules(kernel, record.schedule, building.capability))
        found.append((types, layouts, list(range(1, count + 1))))
    return found


def chosen_kernel(
    record: PluginRecord, building: Building, x: Any, y: Any, tactic: int
) -> Artifact:
    """The kernel for the formats of x and y (TensorDesc) and a tactic.

    Raises:
        UsageError: The profile has images that the plugin does not take.
    """
    last = [d.format is not None and name_of(d.format) != LINEAR for d in (x, y)]
    kernel = _kernel(record, building, *last, sizes=_known(x), wide=_is_wide(record, x.shape))
    found = ahead.schedules(kernel, record.schedule, building.capability)
    return compile_ptx(kernel, building.capability, found[max(tactic, 1) - 1])


def launch_of(trtp: Any, artifact: Artifact, x: Any) -> tuple[str, str, Any, Any]:
    """Name, PTX, launch parameters and numbers, as aot_impl returns them."""
    sizes = sizes_of(tuple(x.shape_expr))
    parameters = trtp.KernelLaunchParams()
    parameters.grid_x = artifact.grid.evaluate(sizes)
    parameters.block_x = artifact.threads
    parameters.shared_mem = artifact.shared_bytes
    numbers = artifact.numbers(sizes)
    extra = trtp.SymExprs(len(numbers))
    for i, number in enumerate(numbers):
        extra[i] = trtp.SymInt32(number)
    return artifact.name, artifact.ptx, parameters, extra


def _formats(record: PluginRecord, side: str) -> list[str]:
    spec = record.spec
    channels = spec.in_channels if side == "in" else spec.out_channels
    rank = 2 + spec.ndim
    return [
        name
        for name in (LINEAR, *CHANNELS_LAST)
        if takes(name, rank=rank, channels=channels, dtype=record.dtype)
    ]


def _kernel(
    record: PluginRecord,
    building: Building,
    last_in: bool,
    last_out: bool,
    *,
    sizes: tuple[int | None, ...],
    wide: bool = False,
) -> KernelSpec:
    return record.kernel(
        sizes,
        channels_last_in=last_in,
        channels_last_out=last_out,
        tf32=building.tf32,
        wide=wide,
    )


def _known(x: Any) -> tuple[int | None, ...]:
    """[N, *sizes] as far as they are constants."""
    exprs = tuple(x.shape_expr)
    known = tuple(e.constant_value() if e.is_constant else None for e in exprs)
    return (known[0], *known[2:])


def _is_wide(record: PluginRecord, shape: Any) -> bool:
    """Whether offsets need 64 bits anywhere in the profile."""
    largest: Sequence[int] = shape.max if shape.is_dynamic else tuple(shape)
    image = record.kernel().reach((1, *largest[2:]))
    if image >= INT32_END:
        raise UsageError(
            "the profile is outside the plugin's range",
            where=f"x {list(largest)}: {image} elements an image, less than 2^31 are possible",
            help="lower the maximum of the profile",
        )
    return image * largest[0] >= INT32_END
