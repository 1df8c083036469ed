"""One ConvTranspose node, read: geometry, operands, what is known of its sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from convt_onnx.errors import GeometryError
from convt_onnx.graph.limits import check_kernel, check_sizes, check_types
from convt_onnx.graph.operands import Dim, Operand, Shapes, read_operand
from convt_onnx.graph.quantised import Grid, input_grid, output_grid
from convt_onnx.late_crop import LateCrop, resolve_late
from convt_onnx.model_io.walk import is_conv_transpose
from convt_onnx.padding import Attributes, UnknownSizeError, resolve
from convt_onnx.plugin_node.record import DOMAIN
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.standard import opset_of


@dataclass(frozen=True, slots=True)
class Absorbed:
    """activation(y + residual) behind a node.

    Attributes:
        activation: As the kernels name it (`absorbing.KINDS`); None where there is none.
        parameters: alpha; for prelu one slope, or one a channel; for clip the two bounds.
        residual: What is added.
        last: The node that writes the result.
    """

    activation: str | None
    parameters: tuple[float, ...]
    residual: ir.Value | None
    last: ir.Node


@dataclass(frozen=True, slots=True)
class ConvTransposeNode:
    """A node whose geometry is known. Sizes are None where the model leaves them open.

    The names are kept apart: once the node is replaced, its values are no longer in the graph.
    `x_grid` and `y_grid` are what the input is dequantised from and the output quantised to.
    `open_channels`: the input's channel count is not in the model; it is the weight's.
    `absorbed`: what a form that computes more than the node replaces besides.
    `usual`: shape of x at the sizes that the user gave or that are likely, None where nothing says
    it; `usual_assumed`: whether any of those was not given.
    """

    node: ir.Node
    path: str
    x_name: str
    output_name: str
    spec: ConvTransposeSpec
    x: ir.Value
    weight: Operand
    bias: Operand | None
    dtype: ir.DataType | None
    batch: int | None
    sizes: tuple[int | None, ...]
    late: LateCrop | None = None
    x_grid: Grid | None = None
    y_grid: Grid | None = None
    open_channels: bool = False
    absorbed: Absorbed | None = None
    usual: tuple[int | None, ...] | None = None
    usual_assumed: bool = False

    def resolved(self, sizes: Sequence[int]) -> ConvTransposeSpec:
        """The geometry for input sizes: `spec`, and the late crop where there is one."""
        return self.spec if self.late is None else self.late.applied(self.spec, sizes)


@dataclass(frozen=True, slots=True)
class UnreadNode:
    """A node that must stay as it is, and why."""

    node: ir.Node
    path: str
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class FoundNode:
    """Where a ConvTranspose stands.

    Attributes:
        node: The node.
        path: A name that no other ConvTranspose of the model has.
        opset: Version of the standard operators there.
        function_body: Whether its graph is the body of a function, which holds no initializers.
        in_function: Whether it stands anywhere in a function, also in a subgraph there.
    """

    node: ir.Node
    path: str
    opset: int
    function_body: bool
    in_function: bool

    def visible(self, shapes: Shapes) -> Shapes:
        """The inferred shapes that hold where the node stands: a function has names of its own."""
        return {} if self.in_function else shapes


def find_nodes(model: ir.Model) -> Iterator[FoundNode]:
    """Every ConvTranspose of the main graph, subgraphs and functions."""
    seen: dict[str, int] = {}
    roots = [("", model.graph, model.opset_imports)]
    # The plugin's functions say what its nodes compute, for runtimes that do not know them.
    own = [f for f in model.functions.values() if f.domain != DOMAIN]
    roots += [(f"{f.domain}:{f.name}/", f.graph, f.opset_imports) for f in own]
    for prefix, graph, imports in roots:
        opset = opset_of(imports)
        for node in _walk(graph):
            if is_conv_transpose(node):
                path = prefix + (node.name or f"ConvTranspose->{node.outputs[0].name}")
                inside = graph is not model.graph
                body = inside and node.graph is graph
                yield FoundNode(node, _unique(path, seen), opset, body, inside)


def every_node(model: ir.Model) -> Iterator[ir.Node]:
    """Every node of the main graph, subgraphs and functions."""
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        yield from _walk(graph)


def _walk(graph: ir.Graph) -> Iterator[ir.Node]:
    """Nodes in order, subgraphs behind their node; onnx-ir's own iterator takes twice as long."""
    for node in graph:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                yield from _walk(attribute.as_graph())
            elif attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
                for subgraph in attribute.as_graphs():
                    yield from _walk(subgraph)


def _unique(path: str, seen: dict[str, int]) -> str:
    unique = path
    while unique in seen:
        seen[path] += 1
        unique = f"{path}#{seen[path]}"
    seen[unique] = 1
    return unique


def read_node(
    node: ir.Node, path: str, ir_version: int, shapes: Shapes
) -> ConvTransposeNode | UnreadNode:
    """Read a node; `shapes` adds inferred shapes by value name.

    Raises:
        GeometryError: The node is invalid, whatever its input; `where` names it.
    """
    try:
        return _read(node, path, ir_version, shapes)
    except GeometryError as error:
        where = f"node {path!r}" + (f", {error.where}" if error.where else "")
        raise GeometryError(error.what, where=where, help=error.help) from error


def _operands(node: ir.Node) -> tuple[ir.Value, ir.Value, ir.Value | None]:
    """Input, weight, and bias where there is one."""
    given = node.inputs
    x, w, b = (given[i] if i < len(given) else None for i in range(3))
    if x is None or w is None:
        raise GeometryError(
            "ConvTranspose needs an input and a weight",
            where=f"inputs = {[v and v.name for v in given]}",
            help="export the model again: X and W must be connected, only B is optional",
        )
    return x, w, b


def _read(
    node: ir.Node, path: str, ir_version: int, shapes: Shapes
) -> ConvTransposeNode | UnreadNode:
    x, w, b = _operands(node)
    check_types((x, w, b))
    refs = [a.name for a in node.attributes.values() if a.is_ref()]
    if refs:
        return UnreadNode(node, path, Refusal("CT106", ", ".join(refs)))
    weight = read_operand(w, ir_version, shapes)
    if weight is None:
        return UnreadNode(node, path, Refusal("CT102", f"weight {w.name!r}"))
    bias = None if b is None else read_operand(b, ir_version, shapes)
    dims = _dims(x, shapes)
    known = (None,) * len(weight.shape) if dims is None else dims
    spec, late = _geometry(node, weight, bias, known)
    check_kernel(spec)
    if b is not None and bias is None:
        return UnreadNode(node, path, Refusal("CT107", f"bias {b.name!r}"))
    if None not in known[2:]:
        check_sizes(spec, known[0] or 1, [n for n in known[2:] if n is not None])
    dtype = x.dtype or w.dtype
    return ConvTransposeNode(
        node=node,
        path=path,
        x_name=x.name or "",
        output_name=node.outputs[0].name or "",
        spec=spec,
        x=x,
        weight=weight,
        bias=bias,
        dtype=dtype,
        batch=known[0],
        sizes=known[2:],
        late=late,
        x_grid=input_grid(x, ir_version),
        y_grid=output_grid(node, dtype, ir_version),
        open_channels=dims is not None and dims[1] is None,
    )


def _geometry(
    node: ir.Node, weight: Operand, bias: Operand | None, known: Sequence[int | None]
) -> tuple[ConvTransposeSpec, LateCrop | None]:
    """Its geometry; `known` is the input's shape with its open sizes as None."""
    attributes = read_attributes(node)
    channels = known[1] if len(known) > 1 else None
    bias_shape = None if bias is None else bias.shape
    try:
        spec = resolve(
            attributes, weight.shape, known[2:], in_channels=channels, bias_shape=bias_shape
        )
    except UnknownSizeError:
        return resolve_late(attributes, weight.shape, in_channels=channels, bias_shape=bias_shape)
    return spec, None


def _dims(x: ir.Value, shapes: Shapes) -> tuple[int | None, ...] | None:
    """Static sizes of a value; an inferred shape fills what the value itself leaves open."""
    own: Sequence[Dim] | None = None
    if x.shape is not None:
        own = [d if isinstance(d, int) else None for d in x.shape]
    inferred = shapes.get(x.name or "")
    if own is None or (inferred is not None and len(inferred) != len(own)):
        own = inferred if own is None else own
        inferred = None
    if own is None:
        return None
    merged = [
        d if isinstance(d, int) else (inferred[i] if inferred is not None else None)
        for i, d in enumerate(own)
    ]
    return tuple(d if isinstance(d, int) else None for d in merged)


def read_attributes(node: ir.Node) -> Attributes:
    """The node's attributes as they are written.

    Raises:
        GeometryError: An attribute has the wrong type.
    """
    auto_pad, group = "NOTSET", 1
    if "auto_pad" in node.attributes:
        auto_pad = _typed(node, "auto_pad", ir.AttributeType.STRING).as_string() or "NOTSET"
    if "group" in node.attributes:
        group = _typed(node, "group", ir.AttributeType.INT).as_int()
    return Attributes(
        kernel_shape=_ints(node, "kernel_shape"),
        strides=_ints(node, "strides"),
        dilations=_ints(node, "dilations"),
        pads=_ints(node, "pads"),
        output_padding=_ints(node, "output_padding"),
        output_shape=_ints(node, "output_shape"),
        auto_pad=auto_pad,
        group=group,
    )


def _typed(node: ir.Node, name: str, wanted: ir.AttributeType) -> ir.Attr:
    attribute = node.attributes[name]
    if attribute.type != wanted:
        raise GeometryError(
            f"{name} must be of type {wanted.name}",
            where=f"{name} has type {attribute.type.name}",
            help="set it with onnx.helper.make_node, which types what it is given",
        )
    return attribute


def _ints(node: ir.Node, name: str) -> tuple[int, ...] | None:
    if name not in node.attributes:
        return None
    return tuple(_typed(node, name, ir.AttributeType.INTS).as_ints()) or None
