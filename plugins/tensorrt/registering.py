"""The doors: what to call before a model is parsed or an engine is loaded.

Each returns a Registration, which must live until the engine is built or its last context is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convt_onnx.errors import ConvtError
from convt_onnx.plugin_node import FIXED_NAME
from convt_onnx.plugins.tensorrt.creators import STANDARD_NAME, register, unregister
from convt_onnx.plugins.tensorrt.nodes import Model, operator_types


@dataclass(frozen=True, slots=True)
class Registration:
    """Creators that are registered with a module."""

    trt: Any
    creators: tuple[Any, ...]

    @property
    def problems(self) -> tuple[ConvtError, ...]:
        """Why layers could not be made or profiles not be taken; ask after parsing and building."""
        return tuple(error for creator in self.creators for error in creator.problems)

    def close(self) -> None:
        """Take the creators back."""
        for creator in self.creators:
            unregister(self.trt, creator)


def register_nodes(trt: Any, model: Model, *, tf32: bool = False) -> Registration:
    """Creators for the plugin nodes of a model, and what `register_runtime` registers.

    Args:
        trt: The module tensorrt or tensorrt_rtx (with TensorRT-RTX,
            `engine.soname.ensure_library_name` goes before parsing).
        model: The file, or the model in memory.
        tf32: Whether float32 products may be rounded to TF32.

    Raises:
        UsageError: TensorRT does not take a creator.
    """
    names = sorted(operator_types(model) | {FIXED_NAME})
    return Registration(trt, tuple(register(trt, name, tf32=tf32) for name in names))


def register_runtime(trt: Any) -> Registration:
    """The creator that engines with the plugin need when they are loaded.

    Raises:
        UsageError: TensorRT does not take it.
    """
    return Registration(trt, (register(trt, FIXED_NAME),))


def register_override(trt: Any, *, tf32: bool = False) -> Registration:
    """A creator in the place of the standard ConvTranspose, for models that must stay as they are.

    The parser's flag ENABLE_PLUGIN_OVERRIDE makes it go before the parser's own. The weight is read
    as it is, without matrix instructions: right for every model, fast for few channels.

    Raises:
        UsageError: TensorRT does not take it.
    """
    creators = register(trt, STANDARD_NAME, "", tf32=tf32), register(trt, FIXED_NAME)
    return Registration(trt, creators)
