"""A custom-op library with the kernels of given models inside."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from convt_onnx.ort.registration import device_capabilities, open_library
from convt_onnx.plugins.conv_transpose.ptx import require_capability
from convt_onnx.plugins.onnxruntime import build
from convt_onnx.plugins.onnxruntime.wanted import compile_texts, wanted_kernels

DRIVER = "libcuda.so.1"
# PTX for 8.0 runs on every later device; 9.0 has matrix instructions of its own.
DEFAULT_CAPABILITIES = (80, 90)


@dataclass(frozen=True, slots=True)
class BuiltLibrary:
    """What is in a library; `bytes` is its size.

    `without_nodes`: those of the models that have no plugin node.
    """

    path: Path
    capabilities: tuple[int, ...]
    kernels: int
    bytes: int
    without_nodes: tuple[Path, ...] = ()


def build_library(
    output: Path,
    models: Sequence[Path],
    capabilities: Sequence[int] = (),
    ort_include: Path | None = None,
    *,
    processes: int = 1,
    progress: Callable[[str], None] = lambda step: None,
) -> BuiltLibrary:
    """Compile the kernels of the models' plugin nodes and build a library around them.

    Args:
        output: Where to put the library.
        models: Files with plugin nodes, as `optimize --target ort-cuda --plugin` writes them.
        capabilities: Compute capabilities, 90 for 9.0; those of this machine by default, else
            DEFAULT_CAPABILITIES.
        ort_include: Folder of onnxruntime_c_api.h, to compile against it.
        processes: That compile kernels at the same time.
        progress: Called with the name of each step.

    Raises:
        MissingPartError: There is no C compiler, or a model needs kernels and there is no Triton.
        ModelError, UsageError: A model or a capability is wrong, or the compiler fails.
    """
    build.find_compiler()
    for capability in capabilities:
        require_capability(capability)
    progress("reading models")
    by_model = {model: wanted_kernels([model]) for model in models}
    wanted = list(dict.fromkeys(chain.from_iterable(by_model.values())))
    chosen = tuple(capabilities) or _of_this_machine() or DEFAULT_CAPABILITIES
    progress(f"compiling {len(wanted) * len(chosen)} kernels")
    texts = compile_texts(wanted, chosen, processes=processes)
    progress("building the library")
    build.build(output, texts, ort_include)
    without = tuple(model for model, kernels in by_model.items() if not kernels)
    return BuiltLibrary(output, chosen, len(texts), output.stat().st_size, without)


def _of_this_machine() -> tuple[int, ...]:
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return ()
    return tuple(device_capabilities(open_library(build.cached_library())))
