"""Seeds a module of another library and exports it with either of torch's exporters."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from convt_onnx.models.base import Module, example

Axes = Mapping[str, Mapping[int, tuple[str, int]]]
Call = Callable[..., Any]

OPSET = 18


class ExportError(Exception):
    """torch's exporter does not write the model."""


@dataclass(frozen=True, slots=True)
class Built:
    """A module and what it takes to export it.

    Attributes:
        module: Takes the inputs in order and returns tensors.
        inputs: Shape of each graph input.
        axes: By input, the axes that a dynamic export leaves open: name, and the size to verify at.
    """

    module: Adapted
    inputs: Mapping[str, tuple[int, ...]]
    axes: Axes

    def examples(self) -> tuple[Tensor, ...]:
        """Standard normal tensors."""
        return tuple(example(shape, i) for i, shape in enumerate(self.inputs.values()))

    def other_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes that a dynamic file was not exported at."""
        shapes = {}
        for name, shape in self.inputs.items():
            changed = {axis: size for axis, (_, size) in self.axes.get(name, {}).items()}
            shapes[name] = tuple(changed.get(i, size) for i, size in enumerate(shape))
        return shapes


class Adapted(Module):
    """A module of another library behind a forward of plain tensors.

    Args:
        module: The library's module.
        call: Calls it: the module, then a tensor for each graph input. It returns tensors.
        gain: Scale of the drawn weights, such that outputs are neither tiny nor saturated.
    """

    def __init__(
        self, module: nn.Module, call: Call = lambda module, *x: module(*x), gain: float = 1.0
    ) -> None:
        super().__init__()
        self.gain = gain
        self.module = module
        self.invoke = call

    def forward(self, *inputs: Tensor) -> Any:
        """What the call returns."""
        return self.invoke(self.module, *inputs)

    def draw(self, generator: torch.Generator) -> None:
        """Draw what torch's layers do not hold as their own weight: weight_norm in its old form."""
        for part in self.modules():
            if hasattr(part, "weight_g") and hasattr(part, "weight_v"):
                taps = part.weight_v[0].numel()
                if isinstance(part, nn.ConvTranspose1d):
                    taps = part.in_channels * part.kernel_size[0] // part.stride[0]
                part.weight_v.normal_(std=self.gain * taps**-0.5, generator=generator)
                norm = part.weight_v.flatten(1).norm(dim=1).reshape(part.weight_g.shape)
                scale = torch.empty(norm.shape).uniform_(0.7, 1.3, generator=generator)
                part.weight_g.copy_(norm * scale)


def prepare(build: Callable[[], Built]) -> Built:
    """Build, with every weight drawn from a seed, ready for inference."""
    torch.manual_seed(0)
    with _quiet():
        built = build()
    built.module.seeded(0)
    return built


def output_scale(built: Built) -> tuple[float, float]:
    """Standard deviation and largest magnitude, the smallest over the outputs."""
    with torch.no_grad():
        outputs = built.module(*built.examples())
    tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    return min(float(t.std()) for t in tensors), min(float(t.abs().max()) for t in tensors)


def export(built: Built, path: Path, exporter: str, *, dynamic: bool) -> None:
    """Write the model to `path`.

    Raises:
        ExportError: torch does not export it.
    """
    try:
        with _quiet(), torch.no_grad():
            (_dynamo if exporter == "dynamo" else _torchscript)(built, path, dynamic)
    except Exception as error:  # each step of torch's exporters raises classes of its own
        raise ExportError(_reason(error)) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps remarks and graphs of torch and the libraries off the terminal; errors still raise."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    sys.stdout.flush()
    terminal = os.dup(1)  # torch writes graphs that it cannot export past sys.stdout
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(terminal, 1)
        os.close(terminal)
        logging.disable(before)


def _dynamo(built: Built, path: Path, dynamic: bool) -> None:
    names = tuple({i: n for i, (n, _) in built.axes.get(x, {}).items()} for x in built.inputs)
    program = torch.onnx.export(
        built.module,
        built.examples(),
        dynamo=True,
        # One entry for the variable arguments of Adapted.forward.
        dynamic_shapes=(names,) if dynamic else None,
        input_names=list(built.inputs),
        opset_version=OPSET,
        verbose=False,
    )
    program.save(path, external_data=False)


def _torchscript(built: Built, path: Path, dynamic: bool) -> None:
    axes = {x: {i: n for i, (n, _) in open_axes.items()} for x, open_axes in built.axes.items()}
    torch.onnx.export(
        built.module,
        built.examples(),
        str(path),
        dynamo=False,
        dynamic_axes=axes if dynamic else None,
        input_names=list(built.inputs),
        opset_version=OPSET,
    )


def _reason(error: BaseException) -> str:
    """The first line of the innermost error."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else ''}"[:200]
