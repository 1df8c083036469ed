"""Builds a seeded decoder and writes it as an ONNX file."""

from __future__ import annotations

import importlib
import io
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from convt_onnx.errors import MissingPartError, ModelError, UsageError, install
from convt_onnx.models.registry import get
from convt_onnx.models.sizes import Size

if TYPE_CHECKING:
    import onnx_ir as ir

Exporter: TypeAlias = Literal["dynamo", "torchscript"]
Opset: TypeAlias = Literal[17, 18]
Precision: TypeAlias = Literal["float32", "float16"]


@dataclass(frozen=True, slots=True)
class Built:
    """A decoder with drawn weights, and what it takes to run and to export it.

    Attributes:
        module: The `torch.nn.Module`, in evaluation mode.
        inputs: An example tensor for each graph input, in the order of the module's arguments.
        outputs: The names of the graph's outputs, in order.
        axes: By input or output, the names of the axes that may change at run time.
    """

    module: Any
    inputs: Mapping[str, Any]
    outputs: tuple[str, ...]
    axes: Mapping[str, Mapping[int, str]]


def build(
    name: str, size: str | Size = "tiny", *, seed: int = 0, dtype: Precision = "float32"
) -> Built:
    """Makes the torch module called `name`, its weights drawn from `seed`.

    Args:
        name: One of `names()`.
        size: A size's name, or its arguments, such as `{**get(name).size("tiny"), "batch": 2}`.
        seed: Seed of the weights; the example inputs do not depend on it.
        dtype: Type of weights and inputs.

    Raises:
        UsageError: There is no such name, size or type.
        MissingPartError: torch is not installed.
    """
    info = get(name)
    _require_choice("dtype", dtype, get_args(Precision))
    arguments = _arguments(name, size)
    _require_package("torch")
    import torch

    precision = getattr(torch, dtype)
    file = importlib.import_module(f"convt_onnx.models.{info.module}")
    module = file.build(**arguments).seeded(seed).to(precision)
    inputs = {key: tensor.to(precision) for key, tensor in file.inputs(**arguments).items()}
    return Built(module, inputs, file.OUTPUTS, file.AXES)


def export(
    name: str,
    path: str | os.PathLike[str],
    size: str | Size = "tiny",
    dynamic: bool = False,
    exporter: Exporter = "dynamo",
    opset: Opset = 18,
    seed: int = 0,
    dtype: Precision = "float32",
) -> Path:
    """Writes the decoder called `name` as an ONNX file, which appears whole or not at all.

    Weights of 1.5 GB and more go into a second file, `path` with `.data` appended. Neither tells
    of the machine that wrote it.

    Args:
        name: One of `names()`.
        path: The file to write or replace, in a folder that exists.
        size: A size's name, or its arguments.
        dynamic: Leaves batch and lengths open, where `ModelInfo.dynamic` says so.
        exporter: Which of torch's exporters writes it. "dynamo" folds BatchNorm and constants
            before it writes, "torchscript" leaves more to do.
        opset: Version of the standard operators; "dynamo" does not write 17 for every decoder.
        seed: Seed of the weights.
        dtype: Type of weights, inputs and outputs.

    Returns:
        The path written.

    Raises:
        UsageError: An argument does not fit, or the decoder has no dynamic export.
        MissingPartError: torch or onnxscript is not installed.
        ModelError: The exporter does not write this decoder in this opset.
    """
    path = Path(path)
    _require_export(name, path, dynamic, exporter, opset)
    built = build(name, _arguments(name, size, dynamic), seed=seed, dtype=dtype)
    _save(_graph(built, exporter, opset, dynamic), path)
    return path


def _require_export(name: str, path: Path, dynamic: bool, exporter: str, opset: int) -> None:
    info = get(name)
    _require_choice("exporter", exporter, get_args(Exporter))
    _require_choice("opset", opset, get_args(Opset))
    if dynamic and not info.dynamic:
        raise UsageError(f"{name} has no dynamic export", help="pass dynamic=False")
    if not path.parent.is_dir():
        raise UsageError(
            "the folder to write to does not exist",
            where=str(path.parent),
            help=f"mkdir -p {path.parent}",
        )
    _require_package("onnxscript")


def _graph(built: Built, exporter: Exporter, opset: int, dynamic: bool) -> ir.Model:
    with _quiet():
        model = (_dynamo if exporter == "dynamo" else _torchscript)(built, opset, dynamic)
    if model.opset_imports.get("") != opset:
        raise ModelError(
            f"torch's {exporter} exporter cannot write this decoder in opset {opset}",
            where=type(built.module).__name__,
            help="pass opset=18 or exporter='torchscript'",
        )
    return model


def _save(model: ir.Model, path: Path) -> None:
    from convt_onnx.models.writing import strip, write

    strip(model)
    write(model, path)


def _dynamo(built: Built, opset: int, dynamic: bool) -> ir.Model:
    import torch

    program = torch.onnx.export(
        built.module,
        kwargs=dict(built.inputs),
        dynamo=True,
        dynamic_shapes={name: built.axes[name] for name in built.inputs} if dynamic else None,
        output_names=list(built.outputs),
        opset_version=opset,
        verbose=False,
    )
    model: ir.Model = program.model
    return model


def _torchscript(built: Built, opset: int, dynamic: bool) -> ir.Model:
    import onnx
    import onnx_ir as ir
    import torch

    file = io.BytesIO()
    torch.onnx.export(
        built.module,
        tuple(built.inputs.values()),
        file,
        dynamo=False,
        dynamic_axes=built.axes if dynamic else None,
        input_names=list(built.inputs),
        output_names=list(built.outputs),
        opset_version=opset,
    )
    return ir.from_proto(onnx.load_from_string(file.getvalue()))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the exporters' remarks about themselves from the user; their errors still raise."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _arguments(name: str, size: str | Size, dynamic: bool = False) -> Size:
    arguments = get(name).size(size) if isinstance(size, str) else size
    # torch.export takes an axis of length one for a constant.
    return {**arguments, "batch": 2} if dynamic else arguments


def _require_choice(option: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        known = " or ".join(repr(choice) for choice in choices)
        raise UsageError(f"{option} cannot be {value!r}", help=f"pass {known}")


def _require_package(name: str) -> None:
    if find_spec(name) is None:
        raise MissingPartError(
            f"{name} is not installed, and decoders are built with it",
            help=install("models"),
        )
