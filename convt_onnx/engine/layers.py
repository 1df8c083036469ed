"""The layers of a network definition as plain records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from convt_onnx.engine.network import Network

# LayerType name: the class whose attributes such a layer has.
CLASSES = {
    "ACTIVATION": "IActivationLayer",
    "CAST": "ICastLayer",
    "CONCATENATION": "IConcatenationLayer",
    "CONSTANT": "IConstantLayer",
    "CONVOLUTION": "IConvolutionLayer",
    "CUMULATIVE": "ICumulativeLayer",
    "DECONVOLUTION": "IDeconvolutionLayer",
    "DEQUANTIZE": "IDequantizeLayer",
    "ELEMENTWISE": "IElementWiseLayer",
    "GATHER": "IGatherLayer",
    "MATRIX_MULTIPLY": "IMatrixMultiplyLayer",
    "NORMALIZATION": "INormalizationLayer",
    "PARAMETRIC_RELU": "IParametricReLULayer",
    "POOLING": "IPoolingLayer",
    "QUANTIZE": "IQuantizeLayer",
    "REDUCE": "IReduceLayer",
    "RESIZE": "IResizeLayer",
    "SCALE": "IScaleLayer",
    "SCATTER": "IScatterLayer",
    "SHUFFLE": "IShuffleLayer",
    "SLICE": "ISliceLayer",
    "SOFTMAX": "ISoftMaxLayer",
    "UNARY": "IUnaryLayer",
}
_NODE = re.compile(r"\[ONNX Layer: ([^\]\[]*)")


@dataclass(frozen=True, slots=True)
class ConvolutionGeometry:
    """A CONVOLUTION or DECONVOLUTION layer.

    Attributes:
        transposed: A deconvolution.
        kernel, strides, dilations, pre, post: One entry a spatial axis; `pre` and `post` are the
            explicit padding, which `padding` other than EXPLICIT_ROUND_DOWN replaces.
        groups: Number of groups.
        channels: Output channels.
        weights_from_input, bias_from_input: Whether the operand is a tensor of the network.
    """

    transposed: bool
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pre: tuple[int, ...]
    post: tuple[int, ...]
    padding: str
    groups: int
    channels: int
    weights_from_input: bool
    bias_from_input: bool


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. A size of -1 is open; `node` is the ONNX node that it comes from."""

    name: str
    kind: str
    node: str
    dtype: str
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    geometry: ConvolutionGeometry | None


def raw_layers(network: Network) -> Iterator[Any]:
    """The binding's layers, each as the class of its kind."""
    definition, module = network.definition, network.backend.module
    for i in range(definition.num_layers):
        layer = definition.get_layer(i)
        name = CLASSES.get(kind_of(network, layer))
        if name is not None and hasattr(module, name):
            layer.__class__ = getattr(module, name)
        yield layer


def kind_of(network: Network, raw: Any) -> str:
    """Kind of a layer; some classes have a `type` of their own, which hides it."""
    kind: str = network.backend.module.ILayer.type.__get__(raw).name
    return kind


def layers(network: Network) -> tuple[Layer, ...]:
    """Every layer, in order."""
    return tuple(_layer(raw, kind_of(network, raw)) for raw in raw_layers(network))


def _layer(raw: Any, kind: str) -> Layer:
    inputs = [raw.get_input(i) for i in range(raw.num_inputs)]
    outputs = [raw.get_output(i) for i in range(raw.num_outputs)]
    return Layer(
        name=raw.name,
        kind=kind,
        node=onnx_node(raw) or raw.name,
        dtype=outputs[0].dtype.name if outputs else "",
        inputs=tuple(_shape(t) for t in inputs if t is not None),
        outputs=tuple(_shape(t) for t in outputs),
        geometry=_geometry(raw, kind) if kind in ("CONVOLUTION", "DECONVOLUTION") else None,
    )


def onnx_node(raw: Any) -> str | None:
    """The node that the parser notes in a layer's metadata."""
    found = _NODE.search(getattr(raw, "metadata", "") or "")
    # Behind a bar stands the call of the function that the node is in.
    return found.group(1).split(" | ")[0].strip() if found else None


def _shape(tensor: Any) -> tuple[int, ...]:
    try:
        return tuple(tensor.shape)
    except (RuntimeError, ValueError):
        return ()


def _geometry(raw: Any, kind: str) -> ConvolutionGeometry:
    present = [raw.get_input(i) is not None for i in range(raw.num_inputs)]
    return ConvolutionGeometry(
        transposed=kind == "DECONVOLUTION",
        kernel=tuple(raw.kernel_size_nd),
        strides=tuple(raw.stride_nd),
        dilations=tuple(raw.dilation_nd),
        pre=tuple(raw.pre_padding),
        post=tuple(raw.post_padding),
        padding=raw.padding_mode.name,
        groups=raw.num_groups,
        channels=raw.num_output_maps,
        weights_from_input=len(present) > 1 and present[1],
        bias_from_input=len(present) > 2 and present[2],
    )
