"""Launching a compiled kernel through the CUDA driver, with cuda-bindings."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from convt_onnx.errors import ConvtError, ExitCode, MissingPartError, install
from convt_onnx.plugins.conv_transpose.compile import Artifact
from convt_onnx.plugins.conv_transpose.formula import Formula

INT32_END = 1 << 31
# Where no device is present, as in a build of TensorRT-RTX on a CPU.
ASSUMED_CAPABILITY = 80


class DriverError(ConvtError):
    """A call of the CUDA driver failed."""

    exit_code = ExitCode.CHECK_FAILED


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel with everything but its pointers.

    `arguments` are the names of pointers and the values of int32 numbers, in order.
    """

    function: Any = field(repr=False)
    grid: int
    threads: int
    shared_bytes: int
    arguments: tuple[str | int, ...]


def prepare(artifact: Artifact, sizes: Mapping[str, int]) -> Launch:
    """Load a kernel into the current context and compute its numbers.

    Args:
        artifact: The kernel.
        sizes: By the names of `formula.SIZES`.

    Raises:
        DriverError: The driver does not take the kernel, or a number has more than 31 bits.
        MissingPartError: cuda-bindings is not installed.
    """
    arguments = tuple(
        a.name if a.value is None else _number(a.name, a.value, sizes) for a in artifact.arguments
    )
    return Launch(
        _function(_context(), artifact.ptx, artifact.name),
        _number("grid", artifact.grid, sizes),
        artifact.threads,
        artifact.shared_bytes,
        arguments,
    )


def launch(prepared: Launch, pointers: Mapping[str, int], stream: int) -> None:
    """Put the kernel on a stream; nothing is allocated, nothing waited for.

    Args:
        prepared: Kernel and numbers.
        pointers: Device addresses by operand.
        stream: A CUstream.

    Raises:
        DriverError: The driver refuses the launch.
    """
    arguments = prepared.arguments
    values = tuple(pointers[a] if isinstance(a, str) else a for a in arguments)
    types = tuple(ctypes.c_void_p if isinstance(a, str) else ctypes.c_int for a in arguments)
    call(
        "cuLaunchKernel",
        prepared.function,
        *(prepared.grid, 1, 1),
        *(prepared.threads, 1, 1),
        prepared.shared_bytes,
        stream,
        (values, types),
        0,
    )


def device_capability() -> int | None:
    """Compute capability of the current device, or of the first one; None where there is none."""
    try:
        driver = _driver()
    except (MissingPartError, DriverError):
        return None
    result, device = driver.cuCtxGetDevice()
    if result != driver.CUresult.CUDA_SUCCESS:
        result, device = driver.cuDeviceGet(0)
    if result != driver.CUresult.CUDA_SUCCESS:
        return None
    attribute = driver.CUdevice_attribute
    major, minor = (
        call("cuDeviceGetAttribute", getattr(attribute, name), device)
        for name in (
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
        )
    )
    return int(major) * 10 + int(minor)


def _number(name: str, formula: Formula, sizes: Mapping[str, int]) -> int:
    value = int(formula.evaluate(sizes))
    if not 0 <= value < INT32_END:
        raise DriverError(
            "the sizes are too large for the plugin",
            where=f"{name} = {value}",
            help="the kernels count in int32: smaller inputs, or an engine without the plugin",
        )
    return value


@lru_cache(maxsize=512)
def _function(context: int, ptx: str, name: str) -> Any:
    """The kernel, loaded once a context."""
    module = call("cuModuleLoadData", ptx.encode() + b"\0")
    return call("cuModuleGetFunction", module, name.encode())


def _context() -> int:
    return int(call("cuCtxGetCurrent"))


def call(name: str, *arguments: Any) -> Any:
    """A function of the driver: its value, where it has one.

    Raises:
        DriverError: It fails.
        MissingPartError: There is no driver.
    """
    driver = _driver()
    result, *values = getattr(driver, name)(*arguments)
    if result != driver.CUresult.CUDA_SUCCESS:
        text = driver.cuGetErrorString(result)[1]
        raise DriverError(
            f"{name} failed",
            where=text.decode() if isinstance(text, bytes) else str(result),
            help="nvidia-smi tells whether the device works and how much of its memory is free",
        )
    return values[0] if values else None


@lru_cache(maxsize=1)
def _driver() -> Any:
    """The driver's functions, initialised.

    Raises:
        MissingPartError: cuda-bindings is not installed, or no driver is.
        DriverError: The driver does not start.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise MissingPartError(
            "cuda-bindings is not installed, which launches the plugin's kernels",
            help=install("tensorrt-plugin"),
        ) from error
    try:
        (result,) = driver.cuInit(0)
    except RuntimeError as error:
        raise MissingPartError(
            "the CUDA driver is not installed, so the plugin cannot run here",
            where=str(error).split(".")[0],
            help="engines with the plugin can be built here, not run",
        ) from error
    if result != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(
            "the CUDA driver does not start",
            where=str(result),
            help="nvidia-smi tells whether the driver and the device work",
        )
    return driver
