"""What was decided for a node, and why."""

from __future__ import annotations

from dataclasses import dataclass

from convt_onnx.costs import Costs
from convt_onnx.forms import Work
from convt_onnx.graph.epilogue import Epilogue
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.tuning.times import Timing


@dataclass(frozen=True, slots=True)
class Candidate:
    """One form weighed for one node: what it costs, or why it is out.

    `expected_us` is by the cost model, in microseconds; None where it was not asked.
    """

    form: str
    work: Work | None
    refusal: Refusal | None
    expected_us: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for one node.

    Attributes:
        path: Unique name of the node.
        form: Form taken; None where the node was left exactly as it was.
        target: Target it was taken for.
        reason: Stable id and detail.
        spec: Canonical geometry, None where it is unknown.
        dtype: Element type as ONNX names it.
        candidates: Every form with its cost or the reason why it is out.
        assumed_sizes: Sizes that the costs were computed for, where the model leaves them open.
        costs: FLOPs and bytes of one call at the sizes that it was timed with, else those of the
            model, else assumed ones.
        inputs: Of several sets of input sizes the one that costs, the work of the candidates and
            times are of, as `x:1,3,64,64`; empty where there is one, or the node's sizes are fixed.
        x, output: Names of the node's input and output values.
        epilogue: Activation and residual behind the node, or why none was recognised.
        before, after: Time of the node as it was and in this form, alone; None where not timed.
    """

    path: str
    form: str | None
    target: str
    reason: Refusal
    spec: ConvTransposeSpec | None = None
    dtype: str | None = None
    candidates: tuple[Candidate, ...] = ()
    assumed_sizes: tuple[int, ...] | None = None
    costs: Costs | None = None
    inputs: str = ""
    x: str = ""
    weight: str = ""
    output: str = ""
    epilogue: Epilogue | Refusal | None = None
    before: Timing | None = None
    after: Timing | None = None

    @property
    def rewritten(self) -> bool:
        """Whether the node is no longer a ConvTranspose."""
        return self.form not in (None, "keep")
