"""A thin convenience over onnxruntime.InferenceSession."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from convt_onnx.errors import UsageError
from convt_onnx.ort.provider import CUDA, keep_on_device, preload_libraries
from convt_onnx.ort.registration import Registration, register
from convt_onnx.suggest import did_you_mean
from convt_onnx.verify.session import one_line, onnxruntime

CPU = "CPUExecutionProvider"
# The kernels read and write 16 bytes at once.
ALIGNMENT = 16
# Kinds of devices in DLPack, https://dmlc.github.io/dlpack: kDLCPU, kDLCUDA, kDLCUDAHost.
DLPACK_CPU, DLPACK_CUDA, DLPACK_PINNED = 1, 2, 3


class Session:
    """A model in ONNX Runtime, with the custom-op library registered where it has plugin nodes.

        session = convt_onnx.Session("model.onnx")
        y = session.run({"x": x})["y"]

    Inputs are NumPy arrays, torch tensors, or anything that speaks DLPack; what lies on the GPU is
    read there. Outputs are torch tensors where an input is one, NumPy arrays otherwise; where an
    input is on the GPU they stay there, as an onnxruntime.OrtValue, which speaks DLPack, where no
    input is a torch tensor.

    Attributes:
        session: The onnxruntime.InferenceSession.
        registration: What became of the custom-op library.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        providers: Sequence[Any] | None = None,
        session_options: Any = None,
        library: str | os.PathLike[str] | None = None,
        tf32: bool = True,
        cuda_graph: bool = False,
    ) -> None:
        """Load a model.

        Args:
            model: A file.
            providers: As InferenceSession takes them. CUDA and CPU where the package has it, CPU
                alone otherwise.
            session_options: An onnxruntime.SessionOptions to add to.
            library: See `register`.
            tf32: Of the plugin's kernels and of the CUDA provider.
            cuda_graph: Capture a CUDA graph in the first runs and replay it after; sizes and
                addresses of inputs and outputs must then stay: bind them with `session`.

        Raises:
            MissingPartError: onnxruntime is not installed.
            UsageError: The library or the model does not load.
        """
        options = session_options or onnxruntime().SessionOptions()
        chosen = list(providers) if providers is not None else _providers(tf32, cuda_graph)
        self.registration = Registration(Path(), False, "the CUDA provider is not used")
        if CUDA in [p if isinstance(p, str) else p[0] for p in chosen]:
            if session_options is None:
                keep_on_device(options)
            self.registration = register(options, model, library=library, tf32=tf32)
        self.session = _load(model, options, chosen)
        self._inputs = {i.name: (i.type, i.shape) for i in self.session.get_inputs()}
        self._outputs = [o.name for o in self.session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Every output by name; a tensor's memory is the session's to write until it has run.

        Raises:
            UsageError: There is no such input, one is missing, cannot be read, or does not fit.
        """
        self._check(feeds)
        on_device = any(_on_cuda(v) for v in feeds.values())
        values = {n: self._read(n, v, on_device) for n, v in feeds.items()}
        binding = self.session.io_binding()
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name in self._outputs:
            binding.bind_output(name, "cuda" if on_device else "cpu")
        # The session has a stream of its own, which knows nothing of those that made the inputs.
        binding.synchronize_inputs()
        self.session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        wants_torch = any(_is_torch(v) for v in feeds.values())
        made = zip(self._outputs, binding.get_outputs(), strict=True)
        return {n: _output(v, wants_torch=wants_torch, on_device=on_device) for n, v in made}

    def _check(self, feeds: Mapping[str, Any]) -> None:
        for name in feeds:
            if name not in self._inputs:
                raise UsageError(f"no input {name!r}", help=did_you_mean(name, self._inputs))
        missing = [n for n in self._inputs if n not in feeds]
        if missing:
            raise UsageError(
                "an input is missing", where=", ".join(missing), help="give an array for each input"
            )
        away = [n for n, v in feeds.items() if _on_cuda(v)]
        if away and CUDA not in self.session.get_providers():
            raise UsageError(
                "an input is on the GPU, but the session runs on the CPU",
                where=", ".join(away),
                help="the CUDA provider comes with onnxruntime-gpu",
            )

    def _read(self, name: str, value: Any, on_device: bool) -> Any:
        """An input as the session takes it, of the model's type and shape."""
        try:
            read = _value(value, on_device)
        except (TypeError, ValueError, RuntimeError, BufferError) as error:
            raise UsageError(
                f"cannot read input {name!r}",
                where=f"{type(value).__name__}: {one_line(error)}",
                help="give a NumPy array, a torch tensor, or what speaks DLPack",
            ) from error
        kind, shape = self._inputs[name]
        given = read.shape()
        # ONNX Runtime gives no axes where the rank is open.
        fits = not shape or len(given) == len(shape)
        fixed = zip(given, shape, strict=False)
        if not fits or any(isinstance(w, int) and w != g for g, w in fixed):
            raise UsageError(
                f"the shape for input {name!r} does not fit",
                where=f"{list(given)}, the model has {shape}",
                help="the sizes must be those of the model where it fixes them",
            )
        if read.data_type() != kind:
            raise UsageError(
                f"the type for input {name!r} does not fit",
                where=f"{read.data_type()}, the model has {kind}",
                help="convert the array first",
            )
        return read


def _load(model: str | os.PathLike[str], options: Any, providers: Sequence[Any]) -> Any:
    try:
        return onnxruntime().InferenceSession(os.fspath(model), options, providers=providers)
    except Exception as error:  # onnxruntime's exceptions share no base of their own
        raise UsageError(
            "ONNX Runtime does not load the model",
            where=one_line(error),
            help="convt-onnx inspect tells what is in it",
        ) from error


def _providers(tf32: bool, cuda_graph: bool) -> list[Any]:
    if CUDA not in onnxruntime().get_available_providers():
        return [CPU]
    preload_libraries()
    options = {"use_tf32": str(int(tf32)), "enable_cuda_graph": str(int(cuda_graph))}
    return [(CUDA, options), CPU]


def _is_torch(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "torch"


def _on_cuda(value: Any) -> bool:
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return False
    kind = int(value.__dlpack_device__()[0])
    if kind not in (DLPACK_CPU, DLPACK_CUDA, DLPACK_PINNED):
        raise UsageError(
            "an input lies on an unknown device",
            where=f"DLPack kind {kind}",
            help="take one of the CPU or of CUDA",
        )
    return kind == DLPACK_CUDA


def _value(value: Any, on_device: bool) -> Any:
    """An OrtValue that shares the input's memory; NumPy arrays are copied to the GPU if need be."""
    ort = onnxruntime()
    if _is_torch(value):
        value = value.detach().contiguous()
        if value.is_cuda and value.data_ptr() % ALIGNMENT:
            value = value.clone()
        return ort.OrtValue.from_dlpack(value)
    if _on_cuda(value):
        return ort.OrtValue.from_dlpack(value)
    if not isinstance(value, np.ndarray):
        value = np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
    if value.dtype.hasobject:
        raise TypeError("an array of Python objects")
    array = np.asarray(value, order="C")
    return ort.OrtValue.ortvalue_from_numpy(array, *(("cuda", 0) if on_device else ()))


def _output(value: Any, *, wants_torch: bool, on_device: bool) -> Any:
    if wants_torch:
        import torch

        return torch.from_dlpack(value)
    return value if on_device else value.numpy()
