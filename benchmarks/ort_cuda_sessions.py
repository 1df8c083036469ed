"""Sessions with everything bound, and interleaved medians of their runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from convt_onnx.ort.provider import CUDA, preload_libraries
from convt_onnx.ort.registration import register

preload_libraries()
CPU = "CPUExecutionProvider"
NUMPY = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}
Arrays = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bound:
    """A session whose inputs and outputs stay on the device."""

    session: Any
    binding: Any

    def run(self) -> None:
        """One run; back when its results are there."""
        self.session.run_with_iobinding(self.binding)

    def outputs(self) -> list[Any]:
        """The results of the last run."""
        return [np.asarray(o.numpy(), np.float64) for o in self.binding.get_outputs()]


def providers(provider: str, *, tf32: bool, graph: bool) -> list[Any]:
    """As InferenceSession takes them."""
    if provider == CPU:
        return [CPU]
    options = {"use_tf32": str(int(tf32)), "enable_cuda_graph": str(int(graph))}
    return [(CUDA, options), CPU]


def options_for(library: Path | None, plugin: Path | None, *, tf32: bool) -> Any:
    """Session options, with a custom-op library that has the kernels, or the cached one.

    Args:
        library: Has the kernels inside: the model, which takes seconds to read, is not asked.
        plugin: A model with plugin nodes, whose kernels are in the user's cache folder.
        tf32: Whether TF32 is allowed.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if library is not None or plugin is not None:
        done = register(
            options,
            *([] if plugin is None else [plugin]),
            library=library,
            tf32=tf32,
            cpu_kernel=CUDA not in ort.get_available_providers(),
        )
        if not done.registered:
            raise RuntimeError(f"plugin nodes run as functions: {done.why}")
    return options


def opened(
    path: Path,
    provider: str,
    *,
    library: Path | None = None,
    plugin: Path | None = None,
    tf32: bool = True,
    graph: bool = False,
) -> Any:
    """A session that has not run yet; raises RuntimeError where the provider does not start."""
    session = ort.InferenceSession(
        str(path),
        options_for(library, plugin, tf32=tf32),
        providers=providers(provider, tf32=tf32, graph=graph),
    )
    if session.get_providers()[0] != provider:
        raise RuntimeError(f"the session runs on {session.get_providers()}")
    return session


def bound(session: Any, feeds: Arrays) -> Bound:
    """The session with these inputs, outputs at addresses that stay; warm."""
    place = "cuda" if session.get_providers()[0] == CUDA else "cpu"
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array, place, 0))
    for output in session.get_outputs():
        if all(isinstance(d, int) for d in output.shape):
            value = ort.OrtValue.ortvalue_from_shape_and_type(
                output.shape, NUMPY[output.type], place, 0
            )
            binding.bind_ortvalue_output(output.name, value)
        else:
            binding.bind_output(output.name, place)
    made = Bound(session, binding)
    for _ in range(3):  # memory, algorithms, then the capture of a graph
        made.run()
    return made


def inputs_of(path: Path, seed: int = 0) -> Arrays:
    """Seeded values for every input, which must have fixed sizes."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for i in onnx.load(path, load_external_data=False).graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        integers = np.issubdtype(kind, np.integer)
        values = rng.integers(0, 8, shape) if integers else rng.standard_normal(shape)
        feeds[i.name] = np.asarray(values).astype(kind)
    return feeds


def interleaved_us(sessions: Sequence[Bound], seconds: float) -> list[dict[str, float]]:
    """Median and quartiles of one run of each, in microseconds; blocks of runs take turns."""
    times: list[list[float]] = [[] for _ in sessions]
    single = max(_block(s, 2) for s in sessions)
    runs = max(1, min(20, int(0.002 / single)))
    rounds = max(7, int(seconds / (single * runs * len(sessions))))
    for _ in range(min(rounds, 60)):
        for session, found in zip(sessions, times, strict=True):
            found.append(_block(session, runs) * 1e6)
    return [_summary(t) for t in times]


def _block(session: Bound, runs: int) -> float:
    start = time.perf_counter()
    for _ in range(runs):
        session.run()
    return (time.perf_counter() - start) / runs


def _summary(times: Sequence[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(times, n=4)
    return {"us": median, "low": low, "high": high}
