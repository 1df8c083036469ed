"""Which provider ran each node: read from the session's own profile, not from what was expected."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convt_onnx.reasons import Refusal
from convt_onnx.verify.session import onnxruntime

# ONNX Runtime's own copies between devices: what a node on another provider costs besides.
COPIES = frozenset({"MemcpyToHost", "MemcpyFromHost"})
# What shapes are computed in, and more numbers than any shape or list of pads has.
SIZE_TYPES = frozenset({"int64", "int32", "bool"})
MAX_SIZES = 64


@dataclass(frozen=True, slots=True)
class RanNode:
    """A node as the session ran it.

    Attributes:
        name, op_type: As the session's optimised graph has them.
        provider: Where it ran.
        us: Time of one run on the calling thread.
        sizes_only: Whether it makes nothing but a few integers: shape arithmetic, which ONNX
            Runtime keeps on the CPU on purpose.
    """

    name: str
    op_type: str
    provider: str
    us: float
    sizes_only: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """What ran where.

    Attributes:
        provider: The one that should run everything.
        nodes: Every node that ran.
    """

    provider: str
    nodes: tuple[RanNode, ...]

    @property
    def strays(self) -> tuple[tuple[RanNode, Refusal], ...]:
        """Nodes that another provider ran, and copies between devices; not shape arithmetic."""
        away = (
            n
            for n in self.nodes
            if not n.sizes_only and (n.provider != self.provider or n.op_type in COPIES)
        )
        return tuple((n, Refusal("CT573", f"{n.op_type} on {n.provider}")) for n in away)


def check_placement(
    session_options: Any,
    model: str | Path | bytes,
    feeds: Mapping[str, Any],
    providers: Sequence[Any],
    folder: Path,
) -> Placement:
    """Run a model once under its profiler.

    Args:
        session_options: As the application makes them (see `provider.keep_on_device`); profiling
            is switched on in it.
        model: A file, or its bytes.
        feeds: Inputs by name: NumPy arrays, or onnxruntime.OrtValue for types that NumPy lacks.
        providers: As InferenceSession takes them; the first one should run everything.
        folder: Where ONNX Runtime may write its profile; the file is removed.

    Raises:
        MissingPartError: onnxruntime is not installed.
    """
    ort = onnxruntime()
    session_options.enable_profiling = True
    session_options.profile_file_prefix = str(folder / "placement")
    source = model if isinstance(model, bytes) else str(model)
    session = ort.InferenceSession(source, session_options, providers=list(providers))
    values = {n: _value(v) for n, v in feeds.items()}
    session.run_with_ort_values([o.name for o in session.get_outputs()], values)
    path = Path(session.end_profiling())
    try:
        events = json.loads(path.read_text())
    finally:
        path.unlink(missing_ok=True)
    first = providers[0]
    return Placement(first if isinstance(first, str) else first[0], read_profile(events))


def read_profile(events: Sequence[Mapping[str, Any]]) -> tuple[RanNode, ...]:
    """The nodes in a profile, in the order in which they ran."""
    return tuple(
        RanNode(
            str(e["name"]).removesuffix("_kernel_time"),
            str(e["args"]["op_name"]),
            str(e["args"]["provider"]),
            float(e["dur"]),
            _sizes_only(e["args"]),
        )
        for e in events
        if e.get("cat") == "Node" and e.get("args", {}).get("provider")
    )


def _sizes_only(arguments: Mapping[str, Any]) -> bool:
    made = [kv for output in arguments.get("output_type_shape", ()) for kv in output.items()]
    few = (kind in SIZE_TYPES and math.prod(shape) <= MAX_SIZES for kind, shape in made)
    return bool(made) and all(few)


def _value(value: Any) -> Any:
    return (
        onnxruntime().OrtValue.ortvalue_from_numpy(value)
        if isinstance(value, np.ndarray)
        else value
    )
