"""Memory and a stream of the CUDA device, through cuda-bindings."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from convt_onnx.errors import ConvtError, ExitCode, MissingPartError


class DeviceError(ConvtError):
    """A call of CUDA failed."""

    exit_code = ExitCode.CHECK_FAILED


def cuda_runtime() -> Any:
    """cuda.bindings.runtime, on a machine with a device.

    Raises:
        MissingPartError: It is not installed, or there is no device; `where` says which.
    """
    try:
        from cuda.bindings import runtime
    except ImportError as error:
        raise MissingPartError(
            "cuda-bindings is not installed, so no engine can be run",
            where=str(error),
            help="pip install cuda-bindings",
        ) from error
    try:
        result, count = runtime.cudaGetDeviceCount()
    except RuntimeError as error:
        raise _no_device(str(error).split(".")[0]) from error
    if result != runtime.cudaError_t.cudaSuccess or not count:
        raise _no_device(getattr(result, "name", str(result)))
    return runtime


def _no_device(why: str) -> MissingPartError:
    return MissingPartError(
        "there is no CUDA device here, so the engine cannot be run",
        where=why,
        help="an NVIDIA GPU that the engine was built for, with its driver",
    )


class Device:
    """One stream, and the memory that was asked for; freed at the end of a `with` block."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._kinds = runtime.cudaMemcpyKind
        self._stack = ExitStack()
        self.stream: int = 0

    def __enter__(self) -> Device:
        stream = self._call("cudaStreamCreate")
        self._stack.callback(self._call, "cudaStreamDestroy", stream)
        self.stream = int(stream)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def allocate(self, count: int) -> int:
        """Address of that many bytes."""
        address = int(self._call("cudaMalloc", max(count, 1)))
        self._stack.callback(self._call, "cudaFree", address)
        return address

    def upload(self, array: npt.NDArray[Any]) -> int:
        """Address of a copy of an array."""
        address = self.allocate(array.nbytes)
        kind = self._kinds.cudaMemcpyHostToDevice
        self._call("cudaMemcpy", address, array.ctypes.data, array.nbytes, kind)
        return address

    def download(self, address: int, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """An array of what stands there, after everything on the stream is done."""
        self._call("cudaStreamSynchronize", self.stream)
        array = np.empty(shape, dtype)
        kind = self._kinds.cudaMemcpyDeviceToHost
        self._call("cudaMemcpy", array.ctypes.data, address, array.nbytes, kind)
        return array

    def _call(self, name: str, *arguments: Any) -> Any:
        result, *values = getattr(self._runtime, name)(*arguments)
        if result != self._runtime.cudaError_t.cudaSuccess:
            raise DeviceError(
                f"{name} failed",
                where=getattr(result, "name", str(result)),
                help="nvidia-smi tells whether the device works and how much of its memory is free",
            )
        return values[0] if values else None
