"""Expected times of a node's forms, and the form that they speak for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod

from convt_onnx.collector import collect_after
from convt_onnx.costs import cost_shape
from convt_onnx.decision import Decision
from convt_onnx.forms import Setting
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import operand_kind
from convt_onnx.prediction.cuda_rules import by_rule
from convt_onnx.prediction.features import node_features
from convt_onnx.prediction.table import cost_table
from convt_onnx.prediction.vectors import Vectors, vectors_here
from convt_onnx.reasons import Refusal
from convt_onnx.targets import Target

# The reason of a decision that neither a rule nor a user made.
OPEN = "CT201"


@dataclass(slots=True)
class Predictor:
    """Predicts for one target; equal nodes once.

    Attributes:
        target: Where the model is to run; what ONNX Runtime's CPU provider does is computed, of
            its CUDA provider a few rules are known.
        threads: Threads that it may use; 0 is its default.
        vectors: The processor that it is to run on.
    """

    target: Target
    threads: int = 0
    vectors: Vectors = field(default_factory=vectors_here)
    _known: dict[str, dict[str, float]] = field(default_factory=dict)

    def applied(
        self,
        decision: Decision,
        node: ConvTransposeNode,
        setting: Setting,
        x_shape: Sequence[int] | None = None,
    ) -> Decision:
        """An open decision by expected times, any other one as it is.

        Args:
            decision: What the rules say.
            node: The node.
            setting: What its forms may use.
            x_shape: Sizes to predict for; those of the model or the user, or assumed ones.
        """
        if decision.reason.id != OPEN:
            return decision
        if self.target.provider == "CUDAExecutionProvider":
            return by_rule(decision, node)
        if self.target.provider != "CPUExecutionProvider":
            return decision
        expected = self._expected(decision, node, setting, x_shape or cost_shape(node)[0])
        if "keep" not in expected:
            return decision
        candidates = tuple(
            replace(c, expected_us=expected.get(c.form)) for c in decision.candidates
        )
        decision = replace(decision, candidates=candidates)
        best = min(expected, key=lambda form: expected[form])
        switch = cost_table(self.vectors).switch(self.threads)
        if best == "keep" or not switch.pays(expected["keep"], expected[best]):
            return decision
        return replace(decision, form=best, reason=Refusal("CT204"))

    def _expected(
        self,
        decision: Decision,
        node: ConvTransposeNode,
        setting: Setting,
        x_shape: Sequence[int],
    ) -> dict[str, float]:
        """Microseconds by form, of those that can be predicted."""
        works = {c.form: asdict(c.work) for c in decision.candidates if c.work is not None}
        kinds = [operand_kind(node.weight), node.bias is not None, str(node.dtype)]
        key = json.dumps([asdict(node.spec), kinds, setting.opset, list(x_shape), works])
        if key not in self._known:
            pairs = self._predicted(list(works), node, setting, x_shape)
            self._known[key] = dict(pairs)
            collect_after(4 * prod(node.spec.weight_shape) * len(works))
        return self._known[key]

    def _predicted(
        self,
        forms: Sequence[str],
        node: ConvTransposeNode,
        setting: Setting,
        x_shape: Sequence[int],
    ) -> Iterator[tuple[str, float]]:
        for form in forms:
            counts = node_features(node, form, setting, self.target, x_shape, self.vectors)
            if counts is not None:
                yield form, cost_table(self.vectors).micros(counts, self.threads)
