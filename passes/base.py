"""What every pass shares: a name, a summary, and what it did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from convt_onnx.decide import Choice
from convt_onnx.decision import Decision
from convt_onnx.gaps import Gap
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import Shapes
from convt_onnx.placement import OffDevice
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.reasons import Refusal
from convt_onnx.targets import Target
from convt_onnx.tuning.nodes import NodeTuner
from convt_onnx.usual_sizes import UsualSizes
from convt_onnx.verify.inputs import InputShapes


@dataclass(frozen=True, slots=True)
class Miss:
    """A pass that nearly applied to a node, and why it did not."""

    node: str
    pass_name: str
    reason: Refusal


@dataclass(slots=True)
class Context:
    """What a run knows and what its passes add.

    Attributes:
        target: Where the model is to run.
        shapes: Inferred shapes by value name.
        given: Sizes of the model's inputs that the user gave, by name.
        given_name: Those sizes in words, where they are one of several sets.
        usual: Shapes at those sizes, for costs alone.
        choice: What the user asked for.
        dequantize: Whether quantised weights become float ones.
        off_device: The nodes that the target's device would not run as they were.
        gaps: What the target would refuse or get wrong in the model as it was read.
        decisions: One for each ConvTranspose, filled by the pass that lowers them.
        nodes: The nodes of the main graph as they were before that, for verification.
        changes: What each pass did, by pass name.
        misses: What a pass saw and refused.
        saturating: Nodes by path that became convolutions which may saturate, and why.
        plugin: Whether nodes of the plugin may be written, as the target names them.
        tuner: Decides by measurement, where something can be timed.
        predictor: Decides by expected times otherwise; without one, the rules alone do.
    """

    target: Target
    shapes: Shapes
    choice: Choice
    decisions: list[Decision] = field(default_factory=list)
    nodes: list[ConvTransposeNode] = field(default_factory=list)
    changes: dict[str, list[str]] = field(default_factory=dict)
    misses: list[Miss] = field(default_factory=list)
    saturating: dict[str, Refusal] = field(default_factory=dict)
    dequantize: bool = False
    off_device: tuple[OffDevice, ...] = ()
    gaps: tuple[Gap, ...] = ()
    tuner: NodeTuner | None = None
    predictor: Predictor | None = None
    plugin: bool = False
    given: InputShapes = field(default_factory=dict)
    given_name: str = ""
    usual: UsualSizes = field(default_factory=UsualSizes)

    @property
    def plugin_naming(self) -> str:
        """How nodes of the plugin are named; empty where none is to be in the model."""
        return self.target.plugin if self.plugin else ""

    @property
    def unfolded(self) -> frozenset[str]:
        """Paths of nodes that take in nothing from around them."""
        return self.choice.skip | (self.tuner.unfolded if self.tuner else frozenset())

    @property
    def change_count(self) -> int:
        """Changes of all passes so far."""
        return sum(len(lines) for lines in self.changes.values())


class Pass(ir.passes.InPlacePass):
    """An in-place pass that reports its changes to the context."""

    name = ""
    summary = ""
    # Whether it makes values whose shapes nobody has inferred yet.
    makes_values = False

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run on the whole model; modified if any change was reported."""
        # A pass may run again; what it refused then is what counts.
        self.context.misses = [m for m in self.context.misses if m.pass_name != self.name]
        changes = list(self.run(model))
        self.context.changes.setdefault(self.name, []).extend(changes)
        return ir.passes.PassResult(model, modified=bool(changes))

    def miss(self, node: str, id: str, detail: str = "") -> None:
        """Record why the pass leaves a node alone that looks as if it could apply."""
        self.context.misses.append(Miss(node, self.name, Refusal(id, detail)))

    def run(self, model: ir.Model) -> Iterator[str]:
        """Change the model and yield one line for each change."""
        raise AssertionError(f"{type(self).__name__} does nothing")
