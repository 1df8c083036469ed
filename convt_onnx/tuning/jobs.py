"""What is to be timed: nodes that are the same to a runtime, and the forms that they can take."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import prod
from typing import Any

import onnx_ir as ir

from convt_onnx._version import __version__
from convt_onnx.costs import costs_at, item_bytes
from convt_onnx.decision import Decision
from convt_onnx.forms import FORMS, Setting
from convt_onnx.graph.node import ConvTransposeNode, FoundNode, UnreadNode
from convt_onnx.graph.operands import operand_kind
from convt_onnx.graph.quantised import Grid
from convt_onnx.reasons import Refusal
from convt_onnx.targets import Target
from convt_onnx.tuning.choosing import Measured
from convt_onnx.tuning.extract import activation_behind
from convt_onnx.tuning.runtime import Runtime
from convt_onnx.tuning.sizes import Shape
from convt_onnx.tuning.times import FormTiming

# A form with more arithmetic than this many times the least is not timed.
MAX_WORK = 16
TOO_MUCH = f"over {MAX_WORK} times the work of the least"


@dataclass(frozen=True, slots=True)
class Weighed:
    """A node, and what is expected of it without any measurement."""

    found: FoundNode
    read: ConvTransposeNode | UnreadNode
    setting: Setting
    decision: Decision


@dataclass(slots=True)
class Job:
    """Nodes that are the same to the runtime, and their forms; the first is the one to beat."""

    node: ConvTransposeNode
    setting: Setting
    activation: ir.Node | None
    forms: tuple[str, ...]
    shapes: tuple[Shape, ...]
    work: int
    key: dict[str, Any]
    paths: list[str] = field(default_factory=list)

    @property
    def weight_bytes(self) -> int:
        """Of the node's own weight; forms pack it into as much or a few times more."""
        item = 4 if self.node.dtype is None else self.node.dtype.itemsize
        return int(prod(self.node.spec.weight_shape) * item)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The heats of a job, or why there are none."""

    heats: tuple[dict[str, Measured], ...] = ()
    cached: bool = False
    refusal: Refusal | None = None


def make_job(
    weighed: Weighed,
    read: ConvTransposeNode,
    shapes: tuple[Shape, ...],
    ir_version: int,
    runtime: Runtime,
    target: Target,
) -> Job:
    """What is to be timed for a node; the key holds everything that its times depend on."""
    works = {c.form: c.work for c in weighed.decision.candidates if c.work is not None}
    least = min(w.macs for w in works.values())
    forms = tuple(f for f, work in works.items() if work.macs <= MAX_WORK * least or f == "keep")
    activation = None if read.y_grid else activation_behind(read, ir_version)
    key = {
        "convt_onnx": __version__,
        "runtime": runtime.name,
        "device": runtime.device,
        "threads": runtime.threads,
        "target": target.name,
        "opset": weighed.setting.opset,
        "spec": asdict(read.spec),
        "dtype": None if read.dtype is None else read.dtype.name,
        "x_shapes": list(shapes),
        "weight": operand_kind(read.weight),
        "bias": operand_kind(read.bias),
        "grids": [_grid_key(read.x_grid), _grid_key(read.y_grid)],
        "behind": None if activation is None else activation.op_type,
        "forms": {f: [works[f].macs, works[f].elements] for f in forms},
    }
    return Job(read, weighed.setting, activation, forms, shapes, least, key)


def left_out(job: Job, decision: Decision) -> tuple[FormTiming, ...]:
    """The forms of a node that apply and are not timed, with the reason."""
    none = (None,) * len(job.shapes)
    return tuple(
        FormTiming(c.form, None, TOO_MUCH, none)
        for c in decision.candidates
        if c.work is not None and c.form not in job.forms
    )


def at_sizes(decision: Decision, x_shape: Shape, inputs: str) -> Decision:
    """A decision with the costs and the work of its forms at one shape of x.

    Args:
        decision: What is expected of a node, or was decided for it.
        x_shape: The shape.
        inputs: The set of the model's input sizes that makes it, where there are several.
    """
    spec = decision.spec
    if spec is None:
        return decision
    batch, _, *sizes = x_shape
    candidates = tuple(
        c if c.work is None else replace(c, work=FORMS[c.form].work(spec, batch, sizes))
        for c in decision.candidates
    )
    costs = costs_at(spec, batch, sizes, item_bytes(decision.dtype))
    return replace(decision, candidates=candidates, costs=costs, inputs=inputs, assumed_sizes=None)


def _grid_key(grid: Grid | None) -> list[Any] | None:
    return None if grid is None else [grid.dtype.name, grid.relu]
