"""The whole model against the original, in turn; forms go back until it is faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from convt_onnx.decision import Decision
from convt_onnx.errors import ConvtError
from convt_onnx.model_io import LoadedModel
from convt_onnx.passes.base import Context
from convt_onnx.reasons import Refusal
from convt_onnx.tuning.choosing import Measured, choose, measured
from convt_onnx.tuning.nodes import NodeTuner
from convt_onnx.tuning.race import Limits, Race
from convt_onnx.tuning.runtime import Timed
from convt_onnx.tuning.times import ModelTiming, speed
from convt_onnx.verify.inputs import Inputs
from convt_onnx.verify.session import RunError, Runner, Source

BEFORE, AFTER = "keep", "rewritten"
# A whole model has to gain anything at all, beyond doubt; more certainty of a draw is not needed.
MARGIN = 0.005
# Passes whose changes cost and save nothing when the model runs.
FREE = frozenset({"canonical-pads"})


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
    """

    tuner: NodeTuner
    original: Source
    forced: bool

    def settle(self, first: Rewrite, again: Callable[[], Rewrite]) -> Rewrite | None:
        """The rewrite that is faster, None where the original is to be kept.

        Where the runtime does not run the original there is nothing to be faster than.

        Args:
            first: With every form that won by itself.
            again: Rewrites the original anew, without the forms that the tuner has reverted.
        """
        rewrite, reference = first, None
        while not _costs_the_same(rewrite):
            try:
                reference = reference or self._reference()
                faster = self._faster(rewrite, reference)
            except ConvtError:
                return rewrite
            left = revertible(rewrite.context.decisions)
            if faster or (self.forced and not left):
                return rewrite
            if not left:
                break
            self.tuner.reverted |= frozenset(left[: (len(left) + 1) // 2])
            rewrite = again()
        return rewrite if self.forced else None

    def _reference(self) -> list[tuple[Inputs, Timed]]:
        inputs = [i for i, _ in self.tuner.inputs.run(Runner(self.original))]
        return [(i, self.tuner.runtime.load(self.original, i.arrays)) for i in inputs]

    def _faster(self, rewrite: Rewrite, reference: Sequence[tuple[Inputs, Timed]]) -> bool:
        proto = ir.to_proto(rewrite.loaded.model)
        source = Source(proto, self.original.folder)
        # Half of what is left: there may be another try.
        share = self.tuner.seconds_left() / 2 / len(reference)
        heats, timings = [], []
        for inputs, before in reference:
            self.tuner.tell("timing the whole model")
            with self.tuner.stopwatch():
                after = self.tuner.runtime.load(source, inputs.arrays)
                race = Race(
                    {BEFORE: before, AFTER: after}, Limits(share), self.tuner.clock, margin=MARGIN
                )
                race.run()
            heats.append(measured(race))
            timings.append(_model_timing(inputs, heats[-1]))
        self.tuner.models = tuple(timings)
        return choose(heats, self.tuner.weights(len(heats)), margin=MARGIN).form == AFTER


def _costs_the_same(rewrite: Rewrite) -> bool:
    """Whether nothing changed that counts when the model runs."""
    done = {name for name, lines in rewrite.context.changes.items() if lines}
    return done <= FREE


def revertible(decisions: Sequence[Decision]) -> list[str]:
    """Paths of nodes that could stay as they are, those that gain least first."""
    nodes = [
        d
        for d in decisions
        if d.form not in (None, "keep")
        and d.reason.id in ("CT602", "CT604", "CT605")
        and any(c.form == "keep" and c.work is not None for c in d.candidates)
    ]
    return [d.path for d in sorted(nodes, key=_gain)]


def _gain(decision: Decision) -> float:
    if decision.before is None or decision.after is None:
        return 0.0
    return decision.before.median_us - decision.after.median_us


def left_as_it_was(context: Context) -> Context:
    """What to report where the original is kept."""
    return replace(context, decisions=[_left(d) for d in context.decisions], changes={}, nodes=[])


def _left(decision: Decision) -> Decision:
    if decision.form is None:
        return decision
    own_reason = decision.form == "keep" and decision.reason.id in ("CT601", "CT604", "CT605")
    reason = decision.reason if own_reason else Refusal("CT606")
    return replace(decision, form=None, reason=reason, after=decision.before)


def _model_timing(inputs: Inputs, heat: dict[str, Measured]) -> ModelTiming:
    before, after = heat[BEFORE].time, heat[AFTER].time
    if before is None or after is None:
        raise RunError("the rewritten model does not run", where=heat[AFTER].why)
    return ModelTiming(inputs.words, before, after, speed(before, after))
