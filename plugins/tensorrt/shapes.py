"""Sizes as TensorRT's expressions: + - * // with themselves and with ints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convt_onnx.errors import UsageError
from convt_onnx.plugin_node import PluginRecord
from convt_onnx.plugins.conv_transpose.compile import sizes_of
from convt_onnx.plugins.conv_transpose.quantities import output_sizes


@dataclass(frozen=True, slots=True)
class Dimension:
    """An IDimensionExpr with the builder and the module that it belongs to."""

    trt: Any
    builder: Any
    expression: Any

    def __add__(self, other: Dimension | int) -> Dimension:
        return self._joined("SUM", other)

    def __sub__(self, other: Dimension | int) -> Dimension:
        return self._joined("SUB", other)

    def __mul__(self, other: Dimension | int) -> Dimension:
        return self._joined("PROD", other)

    def __floordiv__(self, other: Dimension | int) -> Dimension:
        return self._joined("FLOOR_DIV", other)

    def _joined(self, name: str, other: Dimension | int) -> Dimension:
        operation = getattr(self.trt.DimensionOperation, name)
        right = self.builder.constant(other) if isinstance(other, int) else other.expression
        joined = self.builder.operation(operation, self.expression, right)
        return Dimension(self.trt, self.builder, joined)


def output_dims(trt: Any, record: PluginRecord, x: Any, builder: Any) -> Any:
    """DimsExprs of Y for those of X.

    Raises:
        UsageError: X has other channels or another rank than the weight says.
    """
    check_input(record, constant_sizes(x))
    dims = tuple(Dimension(trt, builder, x[i]) for i in range(len(x)))
    sizes: dict[str, Dimension | int] = sizes_of(dims)
    y = trt.DimsExprs(len(x))
    y[0], y[1] = x[0], builder.constant(record.spec.out_channels)
    formulas = output_sizes(record.kernel())[3 - record.spec.ndim :]
    for i, formula in enumerate(formulas):
        value = formula.evaluate(sizes)
        y[2 + i] = builder.constant(value) if isinstance(value, int) else value.expression
    return y


def constant_sizes(dims: Any) -> tuple[int | None, ...]:
    """The sizes that are known."""
    return tuple(
        int(dims[i].get_constant_value()) if dims[i].is_constant() else None
        for i in range(len(dims))
    )


def check_input(record: PluginRecord, sizes: tuple[int | None, ...]) -> None:
    """Refuse an x of other channels or of another rank.

    Raises:
        UsageError: It is one.
    """
    spec = record.spec
    if len(sizes) != 2 + spec.ndim or sizes[1] not in (None, spec.in_channels):
        shape = [spec.in_channels, *("?" * spec.ndim)]
        raise UsageError(
            "the plugin's input has the wrong shape",
            where=f"x is {list(sizes)}, the weight takes [N, {', '.join(map(str, shape))}]",
            help="export the model with the channels of its weight",
        )
