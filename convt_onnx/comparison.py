"""What is different between two models, and what became of each ConvTranspose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from convt_onnx import model_io
from convt_onnx.errors import ConvtError
from convt_onnx.graph.counterparts import Counterpart, Region, counterpart, scopes
from convt_onnx.graph.counting import op_counts, op_name
from convt_onnx.graph.node import FoundNode, UnreadNode, find_nodes, read_node
from convt_onnx.graph.operands import Shapes
from convt_onnx.model_io import LoadedModel
from convt_onnx.model_io.walk import is_conv_transpose
from convt_onnx.runtime_shapes import shapes_of
from convt_onnx.spec import ConvTransposeSpec

# What ONNX takes where a ConvTranspose does not say it.
DEFAULTS = {"auto_pad": "NOTSET", "group": "1"}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model in numbers.

    Attributes:
        path: The file.
        bytes: Model and external data.
        ir_version, opsets: Versions; the domain of ONNX's own operators is the empty string.
        inputs, outputs: Type and shape of each by name, in words.
        nodes: Nodes of all graphs and functions.
        ops: The same by operator.
        initializers, initializer_bytes: Tensors that the file holds.
        functions: How many the model has.
    """

    path: Path
    bytes: int
    ir_version: int
    opsets: Mapping[str, int]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    nodes: int
    ops: Mapping[str, int]
    initializers: int
    initializer_bytes: int
    functions: int


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What became of one ConvTranspose of the first model.

    Attributes:
        path: Unique name of the node.
        status: "same"; "changed", still a ConvTranspose; "rewritten", none any more; "unknown"
            where the second model has no values of the same names around it.
        value: The value up to which both were compared.
        ops_before, ops_after: Operators that compute it, in order, from what both models have.
        spec_before, spec_after: Geometry of the node, where it is one and can be read.
        attributes: Attributes and inputs that differ, a line each.
        bytes_before, bytes_after: Constants that those operators read.
        note: Why nothing is known.
    """

    path: str
    status: str
    value: str = ""
    ops_before: tuple[str, ...] = ()
    ops_after: tuple[str, ...] = ()
    spec_before: ConvTransposeSpec | None = None
    spec_after: ConvTransposeSpec | None = None
    attributes: tuple[str, ...] = ()
    bytes_before: int = 0
    bytes_after: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Two models.

    Attributes:
        before, after: Each in numbers.
        nodes: One for each ConvTranspose of the first.
        added: ConvTransposes of the second that stand where the first has none.
        interface: Inputs and outputs that differ, a line each.
    """

    before: ModelFacts
    after: ModelFacts
    nodes: tuple[NodeChange, ...]
    added: tuple[str, ...]
    interface: tuple[str, ...]


def compare_files(before: str | Path, after: str | Path) -> ModelComparison:
    """Tell what is different in `after`; nothing is run and nothing is written.

    Args:
        before: An ONNX file.
        after: Another; best one that was made from the first.

    Raises:
        ModelError: A file cannot be read.
    """
    first, second = (model_io.load(Path(p)) for p in (before, after))
    shapes = [_shapes(loaded) for loaded in (first, second)]
    theirs = {id(f.node): f for f in find_nodes(second.model)}
    graphs = scopes(second.model)
    keys = {id(graph): scope for scope, graph in scopes(first.model).items()}
    changes, known = [], set()
    for found in find_nodes(first.model):
        graph = graphs.get(keys[id(found.node.graph)])
        pair = None if graph is None else counterpart(found.node, graph)
        kept = [] if pair is None else [n for n in pair.after.nodes if is_conv_transpose(n)]
        known |= {id(n) for n in kept}
        reading = (first.model.ir_version, second.model.ir_version)
        changes.append(_change(found, pair, [theirs[id(n)] for n in kept], shapes, reading))
    facts = [_facts(loaded) for loaded in (first, second)]
    return ModelComparison(
        before=facts[0],
        after=facts[1],
        nodes=tuple(changes),
        added=tuple(f.path for f in theirs.values() if id(f.node) not in known),
        interface=tuple(_interface(*facts)),
    )


def _shapes(loaded: LoadedModel) -> Shapes:
    if not loaded.has_conv_transpose:
        return {}
    try:
        return shapes_of(loaded)
    except ConvtError:
        return {}


def _facts(loaded: LoadedModel) -> ModelFacts:
    model = loaded.model
    ops = op_counts(model)
    tensors = [
        value.const_value
        for graph in (model.graph, *model.graph.subgraphs())
        for value in graph.initializers.values()
        if value.const_value is not None
    ]
    return ModelFacts(
        path=loaded.path,
        bytes=loaded.proto_bytes + loaded.external_bytes,
        ir_version=model.ir_version,
        opsets=dict(model.opset_imports),
        inputs={v.name or "": _type_text(v) for v in model.graph.inputs},
        outputs={v.name or "": _type_text(v) for v in model.graph.outputs},
        nodes=sum(ops.values()),
        ops=ops,
        initializers=len(tensors),
        initializer_bytes=sum(t.nbytes for t in tensors),
        functions=len(model.functions),
    )


def _type_text(value: ir.Value) -> str:
    dtype = "?" if value.dtype is None else value.dtype.name
    if value.shape is None:
        return dtype
    dims = [str(d) if isinstance(d, int) else str(d.value or "?") for d in value.shape]
    return f"{dtype}[{','.join(dims)}]"


def _interface(before: ModelFacts, after: ModelFacts) -> Iterator[str]:
    for what, first, second in (
        ("input", before.inputs, after.inputs),
        ("output", before.outputs, after.outputs),
    ):
        for name in dict.fromkeys([*first, *second]):
            old, new = first.get(name), second.get(name)
            if old is None:
                yield f"{what} {name!r} is new: {new}"
            elif new is None:
                yield f"{what} {name!r} is gone: {old}"
            elif old != new:
                yield f"{what} {name!r}: {old} -> {new}"


def _change(
    found: FoundNode,
    pair: Counterpart | None,
    kept: Sequence[FoundNode],
    shapes: Sequence[Shapes],
    ir_versions: tuple[int, int],
) -> NodeChange:
    spec = _spec(found, shapes[0], ir_versions[0])
    if pair is None:
        why = "no value near it has the same name in both models"
        if found.in_function:
            why += ", as where a function was inlined"
        return NodeChange(found.path, "unknown", spec_before=spec, note=why)
    attributes = _differences(found.node, kept[0].node) if len(kept) == 1 else ()
    same = not attributes and len(pair.before.nodes) == len(pair.after.nodes) == 1
    status = "rewritten" if not kept else "same" if same else "changed"
    return NodeChange(
        path=found.path,
        status=status,
        value=pair.name,
        ops_before=tuple(op_name(n) for n in pair.before.nodes),
        ops_after=tuple(op_name(n) for n in pair.after.nodes),
        spec_before=spec,
        spec_after=_spec(kept[0], shapes[1], ir_versions[1]) if len(kept) == 1 else None,
        attributes=attributes,
        bytes_before=_constant_bytes(pair.before),
        bytes_after=_constant_bytes(pair.after),
    )


def _spec(found: FoundNode, shapes: Shapes, ir_version: int) -> ConvTransposeSpec | None:
    try:
        read = read_node(found.node, found.path, ir_version, found.visible(shapes))
    except ConvtError:
        return None
    return None if isinstance(read, UnreadNode) else read.spec


def _differences(before: ir.Node, after: ir.Node) -> tuple[str, ...]:
    lines = []
    for name in sorted({*before.attributes, *after.attributes}):
        old, new = (_attribute_text(n, name) for n in (before, after))
        if old != new:
            lines.append(f"{name}: {old} -> {new}")
    for i, what in enumerate(("x", "weight", "bias")):
        old_value, new_value = (n.inputs[i] if i < len(n.inputs) else None for n in (before, after))
        if not _equal(old_value, new_value):
            lines.append(f"{what}: {_operand_text(old_value)} -> {_operand_text(new_value)}")
    return tuple(lines)


def _attribute_text(node: ir.Node, name: str) -> str:
    if name not in node.attributes:
        return DEFAULTS.get(name, "-")
    value = node.attributes[name].value
    return str(list(value)) if isinstance(value, (list, tuple)) else str(value)


def _equal(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Constants by their content, other values by their names."""
    if a is None or b is None:
        return a is b
    if a.const_value is None or b.const_value is None:
        return a.const_value is b.const_value and a.name == b.name
    return _same_tensor(a.const_value, b.const_value)


def _same_tensor(a: ir.TensorProtocol, b: ir.TensorProtocol) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _operand_text(value: ir.Value | None) -> str:
    if value is None:
        return "-"
    if value.const_value is None:
        return repr(value.name)
    shape = ",".join(str(d) for d in value.const_value.shape)
    return f"{value.const_value.dtype.name}[{shape}]"


def _constant_bytes(region: Region) -> int:
    tensors = {
        id(v.const_value): v.const_value
        for node in region.nodes
        for v in node.inputs
        if v is not None and v.const_value is not None
    }
    return sum(t.nbytes for t in tensors.values())
