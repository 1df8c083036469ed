"""Run an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from convt_onnx.engine.backend import Backend, load_backend
from convt_onnx.engine.device import Device, cuda_runtime
from convt_onnx.engine.header import EngineHeader, read_header
from convt_onnx.engine.log import cause, make_log
from convt_onnx.engine.profiles import Range, shape_text
from convt_onnx.errors import ConvtError, ExitCode, MissingPartError, UsageError
from convt_onnx.suggest import did_you_mean

Arrays = Mapping[str, npt.NDArray[Any]]
DTYPES: dict[str, Any] = {
    "FLOAT": np.float32,
    "HALF": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "INT8": np.int8,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}


class RunEngineError(ConvtError):
    """TensorRT loaded the engine and did not run it."""

    exit_code = ExitCode.CHECK_FAILED


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of an engine; -1 for an open size."""

    name: str
    is_input: bool
    dtype: Any
    shape: tuple[int, ...]
    on_host: bool


class LoadedEngine:
    """An engine on the device.

    Args:
        path: The file.

    Raises:
        UsageError: It is no engine, of another version, or has a tensor that no array holds.
        MissingPartError: Its library or a device is missing.
    """

    def __init__(self, path: Path) -> None:
        content = _read(path)
        header = read_header(content, str(path))
        self.backend = load_backend(header.backend)
        self._runtime = cuda_runtime()
        self._trt = self.backend.module
        self._keep = _register_plugins(self.backend)
        self._log = make_log(self.backend)
        # The runtime must live as long as the engine.
        self._loader = self._trt.Runtime(self._log)
        self._engine = self._loader.deserialize_cuda_engine(content)
        if self._engine is None:
            raise _refusal(self.backend, header, self._log, path)
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        self.tensors = tuple(self._tensor(name) for name in names)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What must be given."""
        return tuple(t for t in self.tensors if t.is_input)

    def run(self, feeds: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Outputs by name.

        Args:
            feeds: An array for each input; converted to the input's type.

        Raises:
            UsageError: An input is missing, or its shape outside of every profile.
            RunEngineError: TensorRT does not run it.
        """
        arrays = {t.name: _array(t, feeds) for t in self.inputs}
        context = self._engine.create_execution_context()
        with Device(self._runtime) as device:
            profile = self._profile(arrays)
            context.set_optimization_profile_async(profile, device.stream)
            for tensor in self.inputs:
                array = arrays[tensor.name]
                if not tensor.on_host:
                    context.set_input_shape(tensor.name, array.shape)
                address = array.ctypes.data if tensor.on_host else device.upload(array)
                context.set_tensor_address(tensor.name, address)
            places = {}
            for tensor in self.tensors:
                if not tensor.is_input:
                    shape = self._output_shape(context, tensor)
                    size = int(np.prod(shape)) * np.dtype(tensor.dtype).itemsize
                    places[tensor.name] = (device.allocate(size), shape, tensor.dtype)
                    context.set_tensor_address(tensor.name, places[tensor.name][0])
            if not context.execute_async_v3(device.stream):
                raise RunEngineError(
                    f"{self.backend.title} does not run the engine",
                    where=cause(self._log),
                    help="build it again on this machine; nvidia-smi tells how much memory is free",
                )
            return {name: device.download(*place) for name, place in places.items()}

    def _tensor(self, name: str) -> Tensor:
        engine, trt = self._engine, self._trt
        kind = engine.get_tensor_dtype(name).name
        if kind not in DTYPES:
            raise UsageError(
                f"the engine has a tensor of type {kind}, which no array holds",
                where=f"tensor {name!r}",
                help="run this engine with trtexec or a program of its own",
            )
        return Tensor(
            name=name,
            is_input=engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT,
            dtype=DTYPES[kind],
            shape=tuple(engine.get_tensor_shape(name)),
            on_host=engine.get_tensor_location(name) == trt.TensorLocation.HOST,
        )

    def _profile(self, arrays: Arrays) -> int:
        """The first profile that holds every shape."""
        first: tuple[str, Range] | None = None
        for number in range(self._engine.num_optimization_profiles):
            misfit = self._misfit(arrays, number)
            if misfit is None:
                return number
            first = first or misfit
        if first is None:
            raise AssertionError("an engine has a profile")
        name, held = first
        shape = ",".join(map(str, arrays[name].shape))
        raise UsageError(
            f"input {name!r} is outside of the engine's profiles",
            where=f"{name}:{shape}, the engine takes {shape_text(held.min)} "
            f"to {shape_text(held.max)}",
            help=f"build it with --min {name}:… --max {name}:… that hold this shape",
        )

    def _misfit(self, arrays: Arrays, number: int) -> tuple[str, Range] | None:
        for tensor in self.inputs:
            if tensor.on_host:
                continue
            shapes = self._engine.get_tensor_profile_shape(tensor.name, number)
            held = Range(*(tuple(s) for s in shapes))
            if not held.holds(arrays[tensor.name].shape):
                return tensor.name, held
        return None

    def _output_shape(self, context: Any, tensor: Tensor) -> tuple[int, ...]:
        shape = tuple(context.get_tensor_shape(tensor.name))
        if any(n < 0 for n in shape):
            raise RunEngineError(
                f"the size of output {tensor.name!r} depends on the data",
                where=f"shape {list(shape)}",
                help="run this engine with trtexec or a program of its own",
            )
        return shape


def _read(path: Path) -> bytes:
    help = "convt-onnx build MODEL writes an engine"
    if path.exists() and not path.is_file():
        raise UsageError(f"cannot read {path}", where="it is not a regular file", help=help)
    try:
        return path.read_bytes()
    except OSError as error:
        where = error.strerror or str(error)
        raise UsageError(f"cannot read {path}", where=where, help=help) from error


def _register_plugins(backend: Backend) -> Any:
    from convt_onnx.plugins.tensorrt.registering import register_runtime

    return register_runtime(backend.module)


def _refusal(backend: Backend, header: EngineHeader, log: Any, path: Path) -> ConvtError:
    if header.version != backend.version[:3]:
        return UsageError(
            f"the engine was built with version {header.version_text}, "
            f"and {backend.title} is installed",
            where=str(path),
            help="build it again, or with --version-compatible for later versions",
        )
    return MissingPartError(
        f"{backend.title} does not load the engine here",
        where=cause(log) or str(path),
        help="it runs on the kind of GPU that it was built for",
    )


def _array(tensor: Tensor, feeds: Arrays) -> npt.NDArray[Any]:
    if tensor.name not in feeds:
        raise UsageError(
            f"no array for input {tensor.name!r}",
            where=f"given: {', '.join(feeds) or 'nothing'}",
            help=did_you_mean(tensor.name, feeds),
        )
    return np.ascontiguousarray(feeds[tensor.name], dtype=tensor.dtype)
