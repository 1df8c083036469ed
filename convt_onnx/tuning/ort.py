"""ONNX Runtime as something to measure in."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import onnx

from convt_onnx.machine import cores, gpu, processor
from convt_onnx.ort.provider import CUDA, cuda_works, keep_on_device
from convt_onnx.plugin_node import DOMAIN
from convt_onnx.verify.session import (
    CHECK_HELP,
    SIZES_HELP,
    Arrays,
    RunError,
    Source,
    one_line,
    onnxruntime,
)

# Where a provider wants its inputs and outputs.
DEVICES = {"CPUExecutionProvider": "cpu", CUDA: "cuda"}


@dataclass(frozen=True, slots=True)
class OrtRuntime:
    """Sessions of one provider; what it does not take runs on the CPU provider.

    Inputs and outputs stay on the device (IOBinding). The threads of a session stop spinning with
    its run: several sessions take turns, and would otherwise run against the spinning of others.
    """

    provider: str
    threads: int
    name: str
    device: str

    def prepare(self, source: Source) -> None:
        """Compile the kernels of a model's plugin nodes."""
        if _has_plugins(source.proto):
            _register(onnxruntime().SessionOptions(), source.proto)

    def load(self, source: Source, feeds: Arrays) -> OrtTimed:
        """A session, its inputs bound; raises RunError where it does not load or run."""
        session = self._session(source)
        binding = session.io_binding()
        ort = onnxruntime()
        place = DEVICES[self.provider]
        try:
            for name, array in feeds.items():
                value = ort.OrtValue.ortvalue_from_numpy(array, place, 0)
                binding.bind_ortvalue_input(name, value)
            for output in session.get_outputs():
                binding.bind_output(output.name, place)
        except Exception as error:  # onnxruntime's exceptions share no base of their own
            raise RunError(
                "ONNX Runtime does not take the inputs", where=one_line(error), help=SIZES_HELP
            ) from error
        timed = OrtTimed(session, binding)
        timed.seconds(1)
        return timed

    def _session(self, source: Source) -> Any:
        ort = onnxruntime()
        options = ort.SessionOptions()
        if self.provider == CUDA:
            keep_on_device(options)
        options.intra_op_num_threads = self.threads
        options.add_session_config_entry("session.force_spinning_stop", "1")
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(source.folder.resolve())
        )
        providers = list(dict.fromkeys([self.provider, "CPUExecutionProvider"]))
        if _has_plugins(source.proto):
            _register(options, source.proto)
        try:
            data = source.proto.SerializeToString()
            return ort.InferenceSession(data, options, providers=providers)
        except Exception as error:  # protobuf's size limit, or any of onnxruntime's
            raise RunError(
                "ONNX Runtime does not load the model", where=one_line(error), help=CHECK_HELP
            ) from error


@dataclass(frozen=True, slots=True)
class OrtTimed:
    """A session and its bound inputs and outputs."""

    session: Any
    binding: Any

    def seconds(self, runs: int) -> float:
        """Mean wall seconds of a run; the outputs are complete when the clock stops."""
        session, binding = self.session, self.binding
        try:
            start = time.perf_counter()
            for _ in range(runs):
                session.run_with_iobinding(binding)
                binding.synchronize_outputs()
            return (time.perf_counter() - start) / runs
        except Exception as error:
            raise RunError(
                "ONNX Runtime does not run the model", where=one_line(error), help=SIZES_HELP
            ) from error


def _has_plugins(proto: onnx.ModelProto) -> bool:
    return any(f.domain == DOMAIN for f in proto.functions)


def _register(options: Any, proto: onnx.ModelProto) -> None:
    """Plugin nodes are timed as the kernels that they are written for."""
    from convt_onnx.ort.registration import register

    done = register(options, proto)
    if not done.registered:
        raise RunError(
            "plugin nodes would run as functions",
            where=done.why,
            help="convt-onnx doctor tells what the kernels need",
        )


def ort_runtime(provider: str, threads: int) -> OrtRuntime | None:
    """ONNX Runtime with that provider, None where either is absent or does not work."""
    try:
        import onnxruntime as ort
    except ImportError:
        return None
    if provider not in DEVICES or provider not in ort.get_available_providers():
        return None
    if provider == CUDA and not cuda_works():
        return None
    name = f"onnxruntime {ort.__version__} {provider}"
    return OrtRuntime(provider, threads, name, _device(provider))


def _device(provider: str) -> str:
    """The first GPU, or the processor and the cores that this process may use."""
    if provider == CUDA:
        return gpu()
    return f"{processor()}, {cores()} cores"
