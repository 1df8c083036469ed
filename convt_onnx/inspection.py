"""What a model's ConvTranspose nodes are, what they cost, and what each target does with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from convt_onnx import model_io, pipeline
from convt_onnx.costs import Costs, node_costs
from convt_onnx.decide import Choice, decide, setting_for
from convt_onnx.decision import Decision
from convt_onnx.gaps import Gap, find_gaps
from convt_onnx.graph.epilogue import read_epilogue
from convt_onnx.graph.node import ConvTransposeNode, FoundNode, UnreadNode, find_nodes, read_node
from convt_onnx.graph.operands import ConstantOperand, Dim, QuantisedOperand
from convt_onnx.graph.quantised import integer_variants
from convt_onnx.passes.base import Context, Miss
from convt_onnx.placement import OffDevice, off_device
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.runtime_shapes import shapes_of
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.targets import TARGETS, Target, get_target
from convt_onnx.usual_sizes import usual_sizes
from convt_onnx.verify.inputs import InputShapes, check_shapes


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node. Shapes hold numbers, symbols or expressions of the input's symbols, or None."""

    path: str
    spec: ConvTransposeSpec | None
    dtype: str | None
    input_shape: tuple[Dim, ...] | None
    output_shape: tuple[Dim, ...] | None
    weight: str
    costs: Costs | None
    decisions: tuple[Decision, ...]
    misses: tuple[Miss, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A model: size in bytes, nodes in all graphs, and a report for each ConvTranspose.

    `off_device` names each node that a target's device leaves to another, as the file is;
    `input_shapes` are the sizes that nodes of open size are costed for, by input, and
    `assumed` tells whether any of them is a likely one;
    `gaps` what TensorRT would refuse or get wrong in it, `left_alone` what is a transposed
    convolution but not the standard operator.
    """

    path: Path
    ir_version: int
    opsets: dict[str, int]
    node_count: int
    bytes: int
    nodes: tuple[NodeReport, ...]
    off_device: tuple[OffDevice, ...] = ()
    left_alone: tuple[Miss, ...] = ()
    gaps: tuple[Gap, ...] = ()
    input_shapes: InputShapes = field(default_factory=dict)
    assumed: bool = False


def inspect(
    path: str | Path, targets: Sequence[str] = (), input_shapes: InputShapes | None = None
) -> Inspection:
    """Read a model and decide for each target; nothing is written.

    Weights that are computed from constants are folded first, as `optimize` does.

    Args:
        path: An ONNX file.
        targets: Names of targets; all by default.
        input_shapes: Sizes of the inputs that the model leaves open, by name, for costs alone;
            likely ones by default.

    Raises:
        ModelError, GeometryError, UsageError: The model, a node or a target is wrong.
    """
    chosen = [get_target(t) for t in targets] or list(TARGETS.values())
    loaded = model_io.load(Path(path))
    model = loaded.model
    check_shapes(model.graph, input_shapes or {})
    # Of the file as it is, before any pass.
    node_count = sum(1 for _ in model.graph.all_nodes())
    alone = tuple(Miss(name, "read", why) for name, why in integer_variants(model))
    away = tuple(o for target in chosen for o in off_device(model, target))
    context = Context(chosen[0], {}, Choice())
    gaps = tuple(_gaps(loaded, chosen))
    reports = _reports(loaded, context, chosen, input_shapes or {})
    return Inspection(
        path=Path(path),
        ir_version=model.ir_version,
        opsets=dict(model.opset_imports),
        node_count=node_count,
        bytes=loaded.proto_bytes + loaded.external_bytes,
        nodes=tuple(reports),
        off_device=away,
        left_alone=alone,
        gaps=gaps,
        input_shapes=context.usual.inputs,
        assumed=context.usual.assumed,
    )


def _gaps(loaded: model_io.LoadedModel, targets: Sequence[Target]) -> Iterator[Gap]:
    if loaded.has_conv_transpose:
        shapes = shapes_of(loaded)
        for target in targets:
            yield from find_gaps(loaded.model, shapes, target)


def _reports(
    loaded: model_io.LoadedModel, context: Context, targets: Sequence[Target], given: InputShapes
) -> list[NodeReport]:
    """Fold what any target has folded, then read and decide each node."""
    if not loaded.has_conv_transpose:
        return []
    passes = (*pipeline.PREPARATIONS, *pipeline.FOLDS)
    modified = pipeline.run(passes, loaded, context)
    context.usual = usual_sizes(loaded, context.shapes, given, changed=modified)
    predictors = [Predictor(t) for t in targets]
    version = loaded.model.ir_version
    return [_report(f, version, context, predictors) for f in find_nodes(loaded.model)]


def _expected(
    found: FoundNode, read: ConvTransposeNode | UnreadNode, predictor: Predictor
) -> Decision:
    """What a target does with a node where nothing is timed."""
    dtype = None if isinstance(read, UnreadNode) else read.dtype
    setting = setting_for(found.opset, predictor.target, dtype)
    decision = decide(read, predictor.target, setting, Choice())
    if isinstance(read, UnreadNode):
        return decision
    return predictor.applied(decision, read, setting)


def _report(
    found: FoundNode, ir_version: int, context: Context, predictors: Sequence[Predictor]
) -> NodeReport:
    shapes = found.visible(context.shapes)
    misses = tuple(m for m in context.misses if m.node == found.path)
    read = read_node(found.node, found.path, ir_version, shapes)
    if isinstance(read, ConvTransposeNode):
        read = context.usual.of(read, found)
    decisions = tuple(_expected(found, read, p) for p in predictors)
    x = found.node.inputs[0]
    if isinstance(read, ConvTransposeNode):
        epilogue = read_epilogue(read, ir_version, found.opset, shapes)
        decisions = tuple(replace(d, epilogue=epilogue) for d in decisions)
    if isinstance(read, UnreadNode):
        return NodeReport(found.path, None, None, None, None, "unknown", None, decisions, misses)
    input_shape = shapes.get((x.name if x is not None else "") or "")
    output_shape = shapes.get(read.output_name)
    return NodeReport(
        path=found.path,
        spec=read.spec,
        dtype=None if read.dtype is None else read.dtype.name,
        input_shape=None if input_shape is None else tuple(input_shape),
        output_shape=None if output_shape is None else tuple(output_shape),
        weight=_weight_kind(read),
        costs=node_costs(read),
        decisions=decisions,
        misses=misses,
    )


def _weight_kind(read: ConvTransposeNode) -> str:
    if isinstance(read.weight, ConstantOperand):
        return "constant"
    if isinstance(read.weight, QuantisedOperand):
        return "quantised"
    return "overridable" if read.weight.overridable else "run time"
