"""Decide each node's form and write it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import onnx_ir as ir

from convt_onnx.capabilities import NATIVE, stays
from convt_onnx.decide import decide, setting_for
from convt_onnx.decision import Decision
from convt_onnx.forms import FORMS, Setting
from convt_onnx.forms.plugin import PLUGIN
from convt_onnx.graph.absorbing import absorb
from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.emitter import Emitter, NamePool
from convt_onnx.graph.epilogue import read_epilogue
from convt_onnx.graph.node import ConvTransposeNode, FoundNode, UnreadNode, find_nodes, read_node
from convt_onnx.lowering import write_form
from convt_onnx.passes.base import Pass
from convt_onnx.plugin_node.functions import add_functions
from convt_onnx.plugin_node.record import OVERLOAD
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.saturation import saturation
from convt_onnx.tuning.jobs import Weighed


class Lower(Pass):
    """Replaces each ConvTranspose by the form that was decided for it.

    Rules::

        1. a decision is made for every node, in graph order, before anything changes
        2. `keep` and nodes left alone are not touched (canonical-pads did what there is to do)
        3. any other form: its nodes take the node's place and its output's name;
           weights that nothing reads any more go
        4. element types that the target takes in neither operator are computed in float32
           between two Casts
        5. the plugin's node takes the place of a residual and an activation behind it too
        6. where the target needs it, a computed bias is added behind the node, and the channel
           count is written into the shape of the input
    """

    name = "lower"
    summary = "each node becomes the form that was decided for it"

    def run(self, model: ir.Model) -> Iterator[str]:
        """Decide, then rewrite."""
        found = list(find_nodes(model))
        self.context.choice.check({f.path for f in found})
        plans = list(self._plans(model, found))
        names = NamePool(model)
        cache: dict[Hashable, ir.Value] = {}
        functions: dict[ir.OperatorIdentifier, ir.Function] = {}
        for f, form, setting in plans:
            # Read again: an earlier rewrite may have replaced what this node reads.
            read = read_node(f.node, f.path, model.ir_version, f.visible(self.context.shapes))
            if isinstance(read, UnreadNode) or f.node.graph is None:
                continue
            emitter = Emitter(
                f.node.graph,
                opset=f.opset,
                inline_constants=f.function_body or model.ir_version < 4,
                names=names,
                prefix=f.path,
                cache=cache,
            )
            read = self._with_absorbed(model, f, read, form)
            write_form(emitter, read, form, setting, self.context.target)
            functions |= emitter.functions
            more = "" if read.absorbed is None else ", with what stands behind it"
            yield f"{f.path}: {form}{more}"
        remove_unused(cache.values())
        if functions:
            add_functions(model, functions)

    def _with_absorbed(
        self, model: ir.Model, f: FoundNode, read: ConvTransposeNode, form: str
    ) -> ConvTransposeNode:
        """The node with its epilogue, where the form computes that too."""
        if not FORMS[form].absorbs or read.late is not None:
            return read
        shapes = f.visible(self.context.shapes)
        absorbed = absorb(read, model.ir_version, f.opset, shapes)
        if absorbed is not None:
            # Its output is no longer a value of the model: it is compared end to end.
            self.context.nodes = [n for n in self.context.nodes if n.path != f.path]
        return replace(read, absorbed=absorbed)

    def _plans(
        self, model: ir.Model, found: Sequence[FoundNode]
    ) -> Iterator[tuple[FoundNode, str, Setting]]:
        weighed = [self._weighed(model, f) for f in found]
        decisions = [w.decision for w in weighed]
        if self.context.tuner is not None:
            decisions = self.context.tuner.decide(model, weighed)
        elif self.context.predictor is not None:
            decisions = [self._predicted(w, self.context.predictor) for w in weighed]
        for w, decision in zip(weighed, decisions, strict=True):
            self.context.decisions.append(decision)
            self._note_plugin_refusal(decision)
            if isinstance(w.read, ConvTransposeNode) and w.found.node.graph is model.graph:
                self.context.nodes.append(w.read)
            if decision.form is not None and not self._stays(decision.form, w):
                self._note_saturation(decision.form, w)
                yield w.found, decision.form, w.setting

    def _predicted(self, w: Weighed, predictor: Predictor) -> Decision:
        if isinstance(w.read, UnreadNode):
            return w.decision
        return predictor.applied(w.decision, w.read, w.setting)

    def _weighed(self, model: ir.Model, f: FoundNode) -> Weighed:
        """The node and what is expected of it."""
        shapes = f.visible(self.context.shapes)
        read = read_node(f.node, f.path, model.ir_version, shapes)
        if isinstance(read, ConvTransposeNode):
            read = self.context.usual.of(read, f)
        setting = self._setting(f, read, model.ir_version)
        decision = decide(read, self.context.target, setting, self.context.choice)
        if isinstance(read, ConvTransposeNode):
            epilogue = read_epilogue(read, model.ir_version, f.opset, shapes)
            fixed = None not in (read.batch, *read.sizes)
            inputs = "" if fixed else self.context.given_name
            decision = replace(decision, epilogue=epilogue, inputs=inputs)
        return Weighed(f, read, setting, decision)

    def _stays(self, form: str, w: Weighed) -> bool:
        if isinstance(w.read, UnreadNode):
            return True
        return stays(form, w.read, self.context.target, w.found.opset)

    def _note_saturation(self, form: str, w: Weighed) -> None:
        if form in NATIVE or not self.context.target.saturates or isinstance(w.read, UnreadNode):
            return
        risk = saturation(w.read)
        if risk is not None:
            self.context.saturating[w.found.path] = risk

    def _note_plugin_refusal(self, decision: Decision) -> None:
        for candidate in decision.candidates:
            if candidate.form == PLUGIN.name and candidate.refusal is not None:
                self.miss(decision.path, candidate.refusal.id, candidate.refusal.detail)

    def _setting(
        self, found: FoundNode, read: ConvTransposeNode | UnreadNode, ir_version: int
    ) -> Setting:
        dtype = None if isinstance(read, UnreadNode) else read.dtype
        naming = self.context.plugin_naming
        if naming == OVERLOAD and found.in_function:
            # ONNX Runtime does not find the overload that a function calls.
            naming = ""
        return setting_for(
            found.opset, self.context.target, dtype, ir_version=ir_version, plugin=naming
        )
