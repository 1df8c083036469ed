"""Is each deconvolution of a network the one that the model asks for?

The parser turns pads, output_padding, auto_pad and output_shape into the padding of a layer, in
some cases into another one than ONNX Runtime computes (see convt_onnx.reasons.tensorrt). Here the
layer is compared with the node's canonical meaning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from convt_onnx import model_io
from convt_onnx.engine.layers import ConvolutionGeometry, Layer
from convt_onnx.engine.simulate_convolution import same_padding
from convt_onnx.graph.node import ConvTransposeNode, find_nodes, read_node
from convt_onnx.runtime_shapes import shapes_of
from convt_onnx.spec import ConvTransposeSpec


@dataclass(frozen=True, slots=True)
class LayerCheck:
    """One deconvolution against its node; `problems` is empty where they agree."""

    node: str
    layer: str
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the layer computes what the node means."""
        return not self.problems


def read_nodes(path: Path) -> list[ConvTransposeNode]:
    """The readable ConvTranspose nodes of a file, in graph order."""
    loaded = model_io.load(path)
    if not loaded.has_conv_transpose:
        return []
    shapes = shapes_of(loaded)
    found = find_nodes(loaded.model)
    read = [read_node(f.node, f.path, loaded.model.ir_version, f.visible(shapes)) for f in found]
    return [n for n in read if isinstance(n, ConvTransposeNode)]


def check_layers(
    layers: Sequence[Layer], nodes: Sequence[ConvTransposeNode]
) -> tuple[LayerCheck, ...]:
    """Compare every deconvolution that comes from a known node.

    Args:
        layers: Of the parsed network.
        nodes: Of the model that was parsed.
    """
    by_node: dict[str, list[Layer]] = defaultdict(list)
    for layer in layers:
        by_node[layer.node].append(layer)
    return tuple(_check_all(by_node, nodes))


def _check_all(
    by_node: dict[str, list[Layer]], nodes: Sequence[ConvTransposeNode]
) -> Iterator[LayerCheck]:
    for node in nodes:
        # The parser names a node without a name after its output.
        name = node.node.name or f"node_of_{node.output_name}"
        own = by_node.get(name, [])
        position = next((i for i, x in enumerate(own) if x.kind == "DECONVOLUTION"), None)
        if position is None:
            continue
        layer = own.pop(position)
        grown = next((x for x in own[position:] if x.kind == "SLICE"), None)
        if grown is not None:
            own.remove(grown)
        yield LayerCheck(node.path, layer.name, tuple(_problems(node, layer, grown)))


def _problems(node: ConvTransposeNode, layer: Layer, grown: Layer | None) -> Iterator[str]:
    g = layer.geometry
    if g is None:
        raise AssertionError("only deconvolutions are checked")
    spec = node.spec
    if node.late is not None:
        yield "output_shape on an input of unknown size"
        return
    yield from _different_attributes(spec, g)
    got = _effective(spec, g)
    if got.pads_begin != spec.pads_begin:
        yield f"crops {list(got.pads_begin)} rows at the begin, not {list(spec.pads_begin)}"
    result = (grown or layer).outputs[0]
    if None not in node.sizes:
        sizes = spec.output_sizes([n for n in node.sizes if n is not None])
        if result[2 : 2 + spec.ndim] != sizes:
            yield f"makes {list(result[2 : 2 + spec.ndim])} rows, not {list(sizes)}"
    elif any(spec.output_padding) and grown is None:
        yield "drops output_padding"
    elif not any(spec.output_padding) and got.pads_end != spec.pads_end:
        yield f"crops {list(got.pads_end)} rows at the end, not {list(spec.pads_end)}"
    if any(spec.output_padding) and g.bias_from_input:
        yield "leaves the bias out of the rows that output_padding adds"


def _different_attributes(spec: ConvTransposeSpec, g: ConvolutionGeometry) -> Iterator[str]:
    """A 1-D node is lifted to 2-D: its further axis must do nothing."""
    lifted = (1,) * (len(g.kernel) - spec.ndim)
    wanted = {
        "kernel": (g.kernel, spec.kernel + lifted),
        "strides": (g.strides, spec.strides + lifted),
        "groups": (g.groups, spec.group),
        "channels": (g.channels, spec.out_channels),
    }
    for name, (got, want) in wanted.items():
        if got != want:
            yield f"{name} {got}, not {want}"
    dilations = zip(g.dilations, (*spec.dilations, *lifted), g.kernel, strict=True)
    if any(d != want for d, want, k in dilations if k > 1):
        yield f"dilations {g.dilations}, not {spec.dilations + lifted}"
    if any(g.pre[spec.ndim :]) or any(g.post[spec.ndim :]):
        yield "crops an axis that the node does not have"


def _effective(spec: ConvTransposeSpec, g: ConvolutionGeometry) -> ConvTransposeSpec:
    """The node's geometry with the crop that the layer makes."""
    if g.padding.startswith("SAME"):
        return same_padding(spec, upper=g.padding == "SAME_UPPER")
    pads = list(zip(g.pre[: spec.ndim], g.post[: spec.ndim], strict=True))
    return spec.with_pads(pads, spec.output_padding)
