"""Choose a form for a node: what the target cannot run is out, then the expected time decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from convt_onnx.capabilities import NATIVE, needs_cast_island, target_refusal
from convt_onnx.costs import cost_shape, node_costs
from convt_onnx.decision import Candidate, Decision
from convt_onnx.errors import UsageError
from convt_onnx.forms import FORMS, Form, Setting, forms_for
from convt_onnx.forms.bands import written_by_bands
from convt_onnx.forms.plugin import PLUGIN, no_gain
from convt_onnx.forms.slices import written_by_slices
from convt_onnx.graph.node import ConvTransposeNode, UnreadNode
from convt_onnx.graph.operands import RuntimeOperand
from convt_onnx.heuristics import score
from convt_onnx.plugin_node.record import FUNCTION_IR_VERSION
from convt_onnx.reasons import REASONS, Refusal
from convt_onnx.saturation import saturation
from convt_onnx.suggest import did_you_mean
from convt_onnx.targets import Target

# Slice takes computed bounds from here on.
LATE_CROP_OPSET = 10


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user asked for: a form by node path (or `all`), and nodes to leave alone."""

    forms: Mapping[str, str] = field(default_factory=dict)
    skip: frozenset[str] = frozenset()

    def form_for(self, path: str) -> str | None:
        """The forced form of a node."""
        return self.forms.get(path, self.forms.get("all"))

    def check(self, paths: set[str]) -> None:
        """Raise UsageError where a form or a node does not exist."""
        for path, form in self.forms.items():
            if form not in FORMS:
                raise UsageError(
                    f"no form {form!r}",
                    where=f"--form {path}={form}",
                    help=did_you_mean(form, FORMS),
                )
        for path in [*(p for p in self.forms if p != "all"), *self.skip]:
            if path not in paths:
                raise UsageError(
                    f"no ConvTranspose node {path!r}",
                    where=f"the model has {len(paths)}",
                    help=did_you_mean(path, sorted(paths)) if paths else "inspect lists the nodes",
                )


def decide(
    node: ConvTransposeNode | UnreadNode, target: Target, setting: Setting, choice: Choice
) -> Decision:
    """The decision for one node by the rules; CT201 where they leave it open."""
    if isinstance(node, UnreadNode):
        return Decision(node.path, None, target.name, node.refusal)
    shape, assumed = cost_shape(node)
    risk = _risk(node, target, setting)
    candidates = tuple(
        _candidate(f, node, target, setting, shape, risk) for f in forms_for(setting)
    )
    form, reason = _choose(node, target, setting, choice, candidates)
    return Decision(
        path=node.path,
        form=form,
        target=target.name,
        reason=reason,
        spec=node.spec,
        dtype=None if node.dtype is None else node.dtype.name,
        candidates=candidates,
        assumed_sizes=shape[2:] if assumed else None,
        costs=node_costs(node),
        x=node.x_name,
        weight=node.weight.value.name or "",
        output=node.output_name,
    )


def _candidate(
    form: Form,
    node: ConvTransposeNode,
    target: Target,
    setting: Setting,
    shape: tuple[int, ...],
    risk: Refusal | None,
) -> Candidate:
    refusal = target_refusal(form.name, node, target, setting.opset)
    refusal = refusal or _check(form.name, node, target, setting)
    refusal = refusal or (None if form.name in NATIVE else risk)
    if refusal is not None:
        return Candidate(form.name, None, refusal)
    batch, _, *sizes = shape
    return Candidate(form.name, form.work(node.spec, batch, tuple(sizes)), None)


def _risk(node: ConvTransposeNode, target: Target, setting: Setting) -> Refusal | None:
    """Why convolutions are no choice where the target runs the node as it is, in floats."""
    if not target.saturates or target_refusal("keep", node, target, setting.opset) is not None:
        return None
    return saturation(node)


def _check(form: str, node: ConvTransposeNode, target: Target, setting: Setting) -> Refusal | None:
    """Why a form does not apply to a node, which it sees in float32 between two Casts."""
    if needs_cast_island(form, node, target, setting.opset):
        node = replace(node, dtype=ir.DataType.FLOAT)
    return FORMS[form].check(node, setting)


def setting_for(
    opset: int,
    target: Target,
    dtype: ir.DataType | None,
    *,
    ir_version: int = FUNCTION_IR_VERSION,
    plugin: str = "",
) -> Setting:
    """What the forms of one node may use; `plugin` is how the plugin's nodes are named."""
    # In an island it sees float32.
    lacks = dtype in target.depth_to_space_lacks and target.takes(dtype, opset, native=False)
    return Setting(
        opset,
        target.depth_to_space and not lacks,
        target.shape_ops,
        plugin,
        ir_version,
        target.mlas,
    )


def _choose(
    node: ConvTransposeNode,
    target: Target,
    setting: Setting,
    choice: Choice,
    candidates: tuple[Candidate, ...],
) -> tuple[str | None, Refusal]:
    if node.path in choice.skip:
        return None, Refusal("CT109")
    forced = choice.form_for(node.path)
    if forced is not None:
        refusal = _late_refusal(forced, node, setting, target)
        refusal = refusal or _check(forced, node, target, setting)
        if refusal is None:
            return forced, Refusal("CT205", forced)
        if node.path in choice.forms:
            raise _does_not_apply(node.path, forced, refusal)
    usable = {c.form: c.work for c in candidates if c.work is not None}
    if PLUGIN.name in usable:
        refusal = no_gain(node, setting.plugin)
        if refusal is None or "keep" not in usable:
            return PLUGIN.name, Refusal("CT540")
        return "keep", refusal
    if node.late is not None and (_runs_late(node, target) or setting.opset < LATE_CROP_OPSET):
        return None, Refusal("CT105", f"output_shape = {list(node.late.output)}")
    if not usable:
        return None, Refusal("CT108", f"target {target.name}")
    if "keep" not in usable:
        best = min(usable, key=lambda name: score(usable[name], target))
        return best, Refusal("CT203" if target.conv_transpose else "CT202")
    if len(usable) == 1:
        for refusal in (c.refusal for c in candidates):
            if refusal is not None and refusal.id == "CT465":
                return "keep", refusal
    if setting.mlas and (written_by_slices(node) or written_by_bands(node)):
        return "keep", Refusal("CT206")
    if isinstance(node.weight, RuntimeOperand):
        return "keep", Refusal("CT103" if node.weight.overridable else "CT104")
    return "keep", Refusal("CT201")


def _runs_late(node: ConvTransposeNode, target: Target) -> bool:
    """Whether the target runs a node whose crop depends on open sizes as it is."""
    auto_pad = node.node.attributes.get("auto_pad")
    same = auto_pad is not None and auto_pad.as_string().startswith("SAME")
    runs = target.conv_transpose and target.late_output_shape
    return runs and (target.same_auto_pad or not same)


def _late_refusal(
    form: str, node: ConvTransposeNode, setting: Setting, target: Target
) -> Refusal | None:
    if node.late is None:
        return None
    if form in NATIVE and target.late_output_shape:
        return Refusal("CT105", f"output_shape = {list(node.late.output)}")
    if setting.opset < LATE_CROP_OPSET:
        return Refusal("CT306", f"a computed Slice needs opset {LATE_CROP_OPSET}")
    return None


def _does_not_apply(path: str, form: str, refusal: Refusal) -> UsageError:
    return UsageError(
        f"form {form!r} does not apply to this node",
        where=f"node {path!r}: {REASONS[refusal.id].title} ({refusal.detail})",
        help=f"convt-onnx explain {refusal.id}",
    )
