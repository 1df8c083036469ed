"""A stand-in for TensorRT's runtime and for CUDA, with host memory in place of a device's.

It models what `LoadedEngine` relies on: names, modes, types, profiles, addresses, one stream, and
that nothing may be read before the stream is synchronised. It computes y = 2 * x + sum(s).
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np


def engine_bytes(magic=b"ftrt", version=(10, 13, 2)) -> bytes:
    """What `read_header` reads, and nothing behind it."""
    return magic + bytes(20) + bytes([*version, 0]) + bytes(100)


class FakeCuda:
    """cuda.bindings.runtime over host memory; freed memory and unfinished copies are errors."""

    cudaError_t = SimpleNamespace(cudaSuccess=0)
    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)

    def __init__(self) -> None:
        self.memory: dict[int, ctypes.Array] = {}
        self.streams: set[int] = set()
        self.pending: list = []

    def cudaStreamCreate(self):
        self.streams.add(7)
        return 0, 7

    def cudaStreamDestroy(self, stream):
        self.streams.remove(stream)
        return (0,)

    def cudaStreamSynchronize(self, stream):
        assert stream in self.streams
        while self.pending:
            self.pending.pop(0)()
        return (0,)

    def cudaMalloc(self, count):
        block = ctypes.create_string_buffer(count)
        address = ctypes.addressof(block)
        self.memory[address] = block
        return 0, address

    def cudaFree(self, address):
        del self.memory[address]
        return (0,)

    def cudaMemcpy(self, to, source, count, kind):
        assert (to if kind == 1 else source) in self.memory
        ctypes.memmove(to, source, count)
        return (0,)


class FakeContext:
    def __init__(self, engine, cuda) -> None:
        self.engine, self.cuda = engine, cuda
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.profile = None

    def set_optimization_profile_async(self, number, stream):
        assert stream in self.cuda.streams
        self.profile = number

    def set_input_shape(self, name, shape):
        assert name != "s"
        self.shapes[name] = tuple(shape)

    def set_tensor_address(self, name, address):
        self.addresses[name] = address

    def get_tensor_shape(self, name):
        return (-1,) if self.engine.data_dependent else self.shapes["x"]

    def execute_async_v3(self, stream):
        assert stream in self.cuda.streams
        assert self.addresses.keys() == {"x", "s", "y"}
        assert self.addresses["s"] not in self.cuda.memory  # a shape stays on the host
        if self.engine.fails:
            return False
        self.cuda.pending.append(self._compute)
        return True

    def _compute(self):
        shape = self.shapes["x"]
        x = _view(self.addresses["x"], shape)
        s = _view(self.addresses["s"], (2,), ctypes.c_int64)
        _view(self.addresses["y"], shape)[...] = 2 * x + s.sum()


def _view(address, shape, kind=ctypes.c_float):
    count = int(np.prod(shape))
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), (count,)).reshape(
        shape
    )


class FakeEngine:
    num_io_tensors = 3
    num_optimization_profiles = 2
    names = ("x", "s", "y")

    def __init__(self, cuda, data_dependent=False, fails=False) -> None:
        self.cuda, self.data_dependent, self.fails = cuda, data_dependent, fails
        self.contexts: list[FakeContext] = []

    def get_tensor_name(self, i):
        return self.names[i]

    def get_tensor_mode(self, name):
        return "OUTPUT" if name == "y" else "INPUT"

    def get_tensor_dtype(self, name):
        return SimpleNamespace(name="INT64" if name == "s" else "FLOAT")

    def get_tensor_shape(self, name):
        return (2,) if name == "s" else (-1, 3)

    def get_tensor_location(self, name):
        return "HOST" if name == "s" else "DEVICE"

    def get_tensor_profile_shape(self, name, number):
        return ((1, 3), (2, 3), (4, 3)) if number == 0 else ((8, 3), (8, 3), (16, 3))

    def create_execution_context(self):
        self.contexts.append(FakeContext(self, self.cuda))
        return self.contexts[-1]


class FakeModule:
    """What of the module tensorrt a run needs."""

    __version__ = "10.13.2.6"
    __name__ = "tensorrt"
    TensorIOMode = SimpleNamespace(INPUT="INPUT", OUTPUT="OUTPUT")
    TensorLocation = SimpleNamespace(HOST="HOST", DEVICE="DEVICE")

    class ILogger:
        def __init__(self) -> None:
            pass

    def __init__(self, engine) -> None:
        self.engine = engine

    def Runtime(self, log):
        def deserialize(content):
            if self.engine is None:
                log.log(SimpleNamespace(name="ERROR"), "Version tag does not match.")
            return self.engine

        return SimpleNamespace(deserialize_cuda_engine=deserialize)
