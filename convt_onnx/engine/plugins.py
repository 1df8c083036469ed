"""Plugins for a build: which kind, and their registration with the backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convt_onnx.engine.backend import Backend
from convt_onnx.engine.soname import ensure_library_name
from convt_onnx.errors import ConvtError, UsageError

# "python" needs this package where the engine runs; "aot" puts the kernels into the engine.
MODES = ("off", "auto", "python", "aot")


def choose_mode(backend: Backend, wanted: str, *, override: bool) -> str:
    """The kind of plugin: "off", "python" or "aot"; "auto" takes the latter where it exists.

    Raises:
        UsageError: There is no such mode, or the override needs another.
        MissingPartError: This version has no plugins of that kind.
    """
    if wanted not in MODES:
        raise UsageError(f"no plugin mode {wanted!r}", help=f"one of {', '.join(MODES)}")
    if override and wanted not in ("auto", "python"):
        raise UsageError(
            "the override needs the plugin that runs in Python",
            where=f"--override --plugin {wanted}",
            help="--override --plugin python",
        )
    if wanted in ("off", "python"):
        return wanted
    from convt_onnx.plugins.tensorrt.aot import require_aot

    try:
        require_aot(backend.module)
    except ConvtError:
        if wanted == "aot":
            raise
        return "python"
    return "python" if override else "aot"


def register(
    backend: Backend, mode: str, model: Path, *, override: bool, capability: int | None
) -> Any:
    """Register what the model's plugin nodes need; keep the result until the engine is built.

    Args:
        backend: Where.
        mode: What `choose_mode` gave.
        model: The file that will be parsed.
        override: Whether the plugin takes the place of the standard operator.
        capability: Compute capability to compile for ahead of time; the device's where None.

    Raises:
        UsageError, MissingPartError: The backend does not take them.
    """
    if mode == "off":
        return None
    ensure_library_name(backend)
    if mode == "aot":
        from convt_onnx.plugins.tensorrt.aot import register_aot

        return register_aot(backend.module, model, capability=capability)
    from convt_onnx.plugins.tensorrt.registering import register_nodes, register_override

    if override:
        return register_override(backend.module)
    return register_nodes(backend.module, model)


def problem(registration: Any) -> ConvtError | None:
    """Why a creator refused a node: TensorRT only says that it did."""
    found = getattr(registration, "problems", ())
    return found[0] if found else None
