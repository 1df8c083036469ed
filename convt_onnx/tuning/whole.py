"""The whole model against the original, in turn; nodes go back until it is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import onnx
import onnx_ir as ir

from convt_onnx.decision import Decision
from convt_onnx.errors import ConvtError
from convt_onnx.model_io import LoadedModel
from convt_onnx.passes.base import Context
from convt_onnx.passes.lower import Lower
from convt_onnx.plugin_node.record import DOMAIN
from convt_onnx.reasons import Refusal
from convt_onnx.tuning.choosing import Measured, choose, measured, undecided
from convt_onnx.tuning.nodes import NodeTuner
from convt_onnx.tuning.race import Limits, Race
from convt_onnx.tuning.times import Attempt, ModelTiming, speed
from convt_onnx.verify.inputs import Inputs
from convt_onnx.verify.session import Runner, Source

BEFORE, AFTER = "keep", "rewritten"
# A whole model has to gain anything at all, beyond doubt; more certainty of a draw is not needed.
MARGIN = 0.005
# Microseconds by which the call of an operator is longer in one state of a machine than in another:
# what a form adds around its arithmetic was seen to take twice as long from one minute to the next,
# the loops of the native node 1.4 times. A gain has to pay for that in each operator it adds.
OPERATOR_US = 1.25
# Passes whose changes cost and save nothing when the model runs.
FREE = frozenset({"canonical-pads"})
# Why a node was to stay as it is, whatever becomes of the rest of the model.
OWN_REASONS = frozenset({"CT465", "CT601", "CT604", "CT605"})


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A model that the passes have run on."""

    loaded: LoadedModel
    context: Context
    modified: bool


@dataclass(slots=True)
class Trial:
    """Times a rewritten model in turn with the original.

    Attributes:
        tuner: Whose runtime, inputs and remaining time are used.
        original: The model as it was.
        forced: Whether the user asked for a change, so that the original is no way out.
        folds: Names of the passes that leave a reverted node's surroundings alone; none where the
            user asked for passes.
    """

    tuner: NodeTuner
    original: Source
    forced: bool
    folds: frozenset[str]

    def settle(self, first: Rewrite, again: Callable[[], Rewrite]) -> Rewrite | None:
        """The rewrite that is faster, None where the original is to be kept.

        Where the runtime does not run the original there is nothing to be faster than. Where the
        time ends before the first rewrite was timed, what is known of its nodes decides.

        Args:
            first: With every form that won by itself, and everything folded.
            again: Rewrites the original anew, without the nodes that the tuner has reverted.
        """
        rewrite, inputs = first, None
        while not _costs_the_same(rewrite):
            try:
                inputs = inputs or self._inputs()
                attempt = self._attempt(rewrite, inputs)
            except ConvtError:
                return rewrite
            left = self._revertible(rewrite.context)
            if attempt.faster or (self.forced and not left):
                self.tuner.models = attempt.models
                return rewrite
            self.tuner.attempts.append(attempt)
            if attempt.faster is None and rewrite is first:
                return rewrite
            if attempt.faster is None or not left:
                break
            back = frozenset(left[: (len(left) + 1) // 2])
            self.tuner.reverted |= back
            if self.folds:
                self.tuner.unfolded |= back
            rewrite = again()
        if self.forced:
            return rewrite
        self.tuner.reverted = frozenset()
        return None

    def _revertible(self, context: Context) -> list[str]:
        """Paths of nodes that could be as they were, those that gain least first."""
        lines = [line for name in self.folds for line in context.changes.get(name, ())]
        # A pass tells `path: what it did`, and a path may have a colon.
        folded = {line.rpartition(": ")[0] for line in lines}
        nodes = [
            d
            for d in context.decisions
            if d.path not in self.tuner.reverted and (d.path in folded or _has_other_form(d))
        ]
        return [d.path for d in sorted(nodes, key=_gain)]

    def _inputs(self) -> list[Inputs]:
        return [i for i, _ in self.tuner.inputs.run(Runner(self.original))]

    def _attempt(self, rewrite: Rewrite, inputs: Sequence[Inputs]) -> Attempt:
        source = Source(ir.to_proto(rewrite.loaded.model), self.original.folder)
        self.tuner.prepare(source)
        more = _operators(source.proto) - _operators(self.original.proto)
        changed = _changed(rewrite.context) + (f" ({more} operators more)" if more > 0 else "")
        if self.tuner.seconds_left() == 0:
            return Attempt(changed, (), None)
        # Half of what is left: there may be another try.
        share = self.tuner.seconds_left() / 2 / len(inputs)
        heats = []
        for one in inputs:
            self.tuner.tell("timing the whole model")
            with self.tuner.stopwatch():
                heats.append(self._heat(source, one, share))
        if any(map(undecided, heats)):
            return Attempt(changed, (), None)
        timings = (_model_timing(one, heat) for one, heat in zip(inputs, heats, strict=True))
        pick = choose(heats, self.tuner.weights(len(heats)), margin=MARGIN)
        faster = pick.form == AFTER and _pays(heats[pick.deciding], more)
        return Attempt(changed, tuple(t for t in timings if t is not None), faster)

    def _heat(self, source: Source, inputs: Inputs, seconds: float) -> dict[str, Measured]:
        load = self.tuner.runtime.load
        loaders = {
            BEFORE: partial(load, self.original, inputs.arrays),
            AFTER: partial(load, source, inputs.arrays),
        }
        race = Race(loaders, Limits(seconds), self.tuner.clock, margin=MARGIN, fresh=True)
        race.run()
        return measured(race)


def _operators(proto: onnx.ModelProto) -> int:
    """Nodes of a model but for constants, those of subgraphs and of each call of a function too.

    The plugin's nodes are one operator each: their functions say what they compute.
    """
    bodies = {(f.domain, f.name, f.overload): f for f in proto.functions if f.domain != DOMAIN}

    @cache
    def called(key: tuple[str, str, str]) -> int:
        return count(bodies[key].node)

    def count(nodes: Iterable[onnx.NodeProto]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            total += called(key) if key in bodies else node.op_type != "Constant"
            total += sum(count(a.g.node) for a in node.attribute if a.HasField("g"))
        return total

    return count(proto.graph.node)


def _pays(heat: dict[str, Measured], more: int) -> bool:
    """Whether the rewritten model gains enough for `more` operators than there were."""
    before, after = heat[BEFORE].time, heat[AFTER].time
    if before is None or after is None:
        return before is None
    return before.median_us - after.median_us > OPERATOR_US * max(0, more)


def _costs_the_same(rewrite: Rewrite) -> bool:
    """Whether nothing changed that counts when the model runs."""
    done = {name for name, lines in rewrite.context.changes.items() if lines}
    return done <= FREE


def _has_other_form(decision: Decision) -> bool:
    """Whether a node was given a form for speed, and could stay as it is."""
    return (
        decision.form not in (None, "keep")
        and decision.reason.id in ("CT602", "CT604", "CT605")
        and any(c.form == "keep" and c.work is not None for c in decision.candidates)
    )


def _gain(decision: Decision) -> float:
    if decision.before is None or decision.after is None:
        return 0.0
    return decision.before.median_us - decision.after.median_us


def left_as_it_was(context: Context) -> Context:
    """What to report where the original is kept."""
    decisions = [_left(d) for d in context.decisions]
    return replace(context, decisions=decisions, changes={}, nodes=[], saturating={})


def _left(decision: Decision) -> Decision:
    if decision.form is None:
        return decision
    own_reason = decision.form == "keep" and decision.reason.id in (
        "CT465",
        "CT601",
        "CT604",
        "CT605",
    )
    reason = decision.reason if own_reason else Refusal("CT606")
    return replace(decision, form=None, reason=reason, after=decision.before)


def _changed(context: Context) -> str:
    """The nodes of another form, and the passes that changed what stands around nodes."""
    count = sum(d.form not in (None, "keep") for d in context.decisions)
    forms = f"other forms of {count} node{'s' * (count != 1)}" if count else ""
    done = [n for n, lines in context.changes.items() if lines and n not in FREE | {Lower.name}]
    return " and ".join(filter(None, (forms, ", ".join(done)))) or "another spelling"


def _model_timing(inputs: Inputs, heat: dict[str, Measured]) -> ModelTiming | None:
    """None where the rewritten model does not run."""
    before, after = heat[BEFORE].time, heat[AFTER].time
    if before is None or after is None:
        return None
    return ModelTiming(inputs.words, before, after, speed(before, after))
