"""Seeded ConvTranspose models over all that TensorRT's parser and builder tell apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

DTYPES = {
    "float32": (TensorProto.FLOAT, np.dtype(np.float32)),
    "float16": (TensorProto.FLOAT16, np.dtype(np.float16)),
    "bfloat16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
}
CROPS = (
    "none pads pads output_padding output_padding auto_pad auto_pad+output_padding "
    "output_shape output_shape auto_pad+output_shape"
).split()
BIASES = ("none", "constant", "constant", "input", "dequantized", "computed")
WEIGHTS = (
    "constant",
    "constant",
    "constant",
    "input",
    "cast",
    "int8",
    "int8 axis 0",
    "int8 axis 1",
)
OPEN = ("nothing", "nothing", "nothing", "batch", "sizes", "batch and sizes", "channels")


@dataclass(frozen=True)
class Geometry:
    """One model: node attributes, where its operands come from, what is left open."""

    ndim: int
    channels: tuple[int, int, int]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    sizes: tuple[int, ...]
    attributes: dict[str, Any]
    crop: str
    dtype: str
    bias: str
    weight: str
    open: str
    seed: int

    @property
    def kind(self) -> str:
        """What is special about it, the first that holds."""
        strided = max(self.strides) > 1 and max(self.dilations) > 1
        padding = any(self.attributes.get("output_padding", ()))
        checks = {
            "bfloat16": self.dtype == "bfloat16",
            "stride with dilation": strided,
            "open channel count": self.open == "channels",
            "output_shape, one axis": self.crop.endswith("output_shape") and self.ndim == 1,
            "output_shape, open sizes": self.crop.endswith("output_shape") and "size" in self.open,
            "output_shape under auto_pad": self.crop == "auto_pad+output_shape",
            "output_shape": self.crop == "output_shape",
            "output_padding under auto_pad": self.crop == "auto_pad+output_padding",
            "int32 bias behind DequantizeLinear": self.bias == "dequantized",
            "computed bias, output_padding": padding and self.bias in ("input", "computed"),
        }
        return next((name for name, holds in checks.items() if holds), "everything else")

    def input_shape(self, grow: int = 0) -> tuple[int, ...]:
        """Shape of x; `grow` more rows on open axes."""
        sizes = tuple(n + (grow if "sizes" in self.open else 0) for n in self.sizes)
        return (2, self.channels[0], *sizes)

    def model(self) -> onnx.ModelProto:
        """The model with input `x` and output `y`."""
        return _Maker(self).model()


def geometries(count: int, seed: int = 0) -> Iterator[Geometry]:
    """As many different draws as asked for; not all are valid ONNX."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        yield _draw(rng, number)


def _draw(rng: np.random.Generator, number: int) -> Geometry:
    def pick(values: Sequence[Any]) -> Any:
        return values[int(rng.integers(len(values)))]

    def column(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(v) for v in rng.integers(low, high + 1, ndim))

    ndim = pick((1, 2, 2, 3))
    group = pick((1, 1, 2, 3))
    c_in = group * pick((1, 1, 2, 3))
    c_out = group * pick((1, 2, 3))
    kernel = column(1, 5 if ndim < 3 else 3)
    strides = pick((column(1, 1), column(1, 3), column(2, 2), column(1, 4)))
    dilations = pick((column(1, 1), column(1, 1), column(1, 1), column(1, 3)))
    sizes = column(3, 7 if ndim < 3 else 4)
    crop = pick(CROPS)
    padding = tuple(int(rng.integers(0, s)) for s in strides)
    attributes = _crop(rng, crop, kernel, strides, dilations, sizes, padding)
    return Geometry(
        ndim=ndim,
        channels=(c_in, c_out, group),
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        sizes=sizes,
        attributes=attributes,
        crop=crop,
        dtype=pick(("float32", "float32", "float16", "bfloat16")),
        bias=pick(BIASES),
        weight=pick(WEIGHTS),
        open=pick(OPEN),
        seed=number,
    )


def _crop(
    rng: np.random.Generator,
    crop: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    sizes: Sequence[int],
    padding: tuple[int, ...],
) -> dict[str, Any]:
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    result: dict[str, Any] = {}
    if crop in ("pads", "output_padding"):
        pads = [int(rng.integers(0, max(e, 2))) for e in (*extents, *extents)]
        result["pads"] = pads if crop == "pads" or rng.random() < 0.5 else [0] * len(pads)
    if "output_padding" in crop:
        result["output_padding"] = list(padding)
    if "auto_pad" in crop:
        result["auto_pad"] = ("SAME_UPPER", "SAME_LOWER", "VALID")[int(rng.integers(3))]
    if "output_shape" in crop:
        full = [(n - 1) * s + e for n, s, e in zip(sizes, strides, extents, strict=True)]
        result["output_shape"] = [
            max(1, f - int(rng.integers(1 - s, 4))) for f, s in zip(full, strides, strict=True)
        ]
    return result


class _Maker:
    """Nodes, inputs and initializers of one model."""

    def __init__(self, geometry: Geometry) -> None:
        self.g = geometry
        self.rng = np.random.default_rng(geometry.seed)
        self.kind, self.dtype = DTYPES[geometry.dtype]
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def model(self) -> onnx.ModelProto:
        c_in, c_out, group = self.g.channels
        self.inputs.append(helper.make_tensor_value_info("x", self.kind, self._input_dims()))
        names = ["x", self._weight((c_in, c_out // group, *self.g.kernel))]
        if self.g.bias != "none":
            names.append(self._bias(c_out))
        attributes: dict[str, Any] = {
            "strides": self.g.strides,
            "dilations": self.g.dilations,
            "group": group,
        } | self.g.attributes
        self.nodes.append(helper.make_node("ConvTranspose", names, ["y"], "ct", **attributes))
        dims = [f"y{i}" for i in range(self.g.ndim + 2)]
        output = helper.make_tensor_value_info("y", self.kind, dims)
        graph = helper.make_graph(self.nodes, "g", self.inputs, [output], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)

    def _input_dims(self) -> list[int | str]:
        dims: list[int | str] = [*self.g.input_shape()]
        if "batch" in self.g.open:
            dims[0] = "N"
        if "sizes" in self.g.open:
            dims[2:] = [f"L{i}" for i in range(self.g.ndim)]
        if self.g.open == "channels":
            dims[1] = "C"
        return dims

    def _array(self, *shape: int) -> npt.NDArray[Any]:
        return (self.rng.standard_normal(shape) / np.sqrt(prod(shape[2:]) or 1)).astype(self.dtype)

    def _tensor(self, name: str, array: npt.NDArray[Any]) -> str:
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def _weight(self, shape: tuple[int, ...]) -> str:
        if self.g.weight == "constant":
            return self._tensor("w", self._array(*shape))
        if self.g.weight == "input":
            self.inputs.append(helper.make_tensor_value_info("w", self.kind, shape))
            return "w"
        if self.g.weight == "cast":
            self._tensor("w64", self._array(*shape).astype(np.float32))
            self.nodes.append(helper.make_node("Cast", ["w64"], ["w"], to=self.kind))
            return "w"
        integers = self.rng.integers(-127, 128, shape).astype(np.int8)
        axis = int(self.g.weight[-1]) if "axis" in self.g.weight else None
        count = () if axis is None else (shape[axis],)
        scale = (self.rng.uniform(0.5, 1.5, count) / 127).astype(self.dtype)
        names = [self._tensor("wq", integers), self._tensor("ws", np.asarray(scale))]
        attributes = {} if axis is None else {"axis": axis}
        self.nodes.append(helper.make_node("DequantizeLinear", names, ["w"], **attributes))
        return "w"

    def _bias(self, count: int) -> str:
        if self.g.bias == "constant":
            return self._tensor("b", self._array(count))
        if self.g.bias == "dequantized":
            integers = self.rng.integers(-1000, 1000, count).astype(np.int32)
            scale = np.asarray(0.001).astype(self.dtype)
            names = [self._tensor("bq", integers), self._tensor("bs", scale)]
            self.nodes.append(helper.make_node("DequantizeLinear", names, ["b"]))
            return "b"
        self.inputs.append(helper.make_tensor_value_info("b0", self.kind, (count,)))
        if self.g.bias == "input":
            return "b0"
        self.nodes.append(helper.make_node("Neg", ["b0"], ["b"]))
        return "b"
