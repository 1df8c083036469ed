"""CT600 to CT629: decisions by measurement."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT601",
        "kept: measured to be the fastest form here",
        "Every form was timed in the target's runtime with the node's own sizes, in turn with the "
        "node as it is. None was faster by more than 3 % beyond doubt (sign test, 99 %).",
    ),
    Reason(
        "CT602",
        "measured to be faster",
        "Timed in the target's runtime with the node's own sizes, in turn with the node as it is, "
        "this form was faster by more than 3 %, beyond doubt (sign test, 99 %). With several "
        "sizes, it is so at the worst of them, or by the weights given.",
    ),
    Reason(
        "CT603",
        "put back: the whole model was not faster with it",
        "A form that wins alone may lose in its place, where neighbours change what a runtime can "
        "fuse or which layout it takes; and what a node takes in from around it may cost more "
        "inside, as a crop does that becomes pads. The whole model was timed in turn with the "
        "original, and the nodes that gain least were put back, with what stands around them, "
        "until it was faster.",
    ),
    Reason(
        "CT604",
        "not timed: the time for tuning ran out",
        "The form is what the cost model expects to be fastest. `--tune-seconds` gives more time; "
        "what was timed is kept, so that another run starts where this one ended.",
    ),
    Reason(
        "CT605",
        "not timed: the runtime does not run the node by itself",
        "The form is what the cost model expects to be fastest.",
    ),
    Reason(
        "CT606",
        "left as it was: the whole model is not faster otherwise",
        "The rewritten model was timed in turn with the original and was not faster beyond doubt, "
        "or gained less than the operators it adds may cost in a slower minute (1.25 us each), so "
        "the original was kept, byte for byte. `--no-tune` or `--form` rewrite it all the same.",
    ),
    Reason(
        "CT607",
        "the fastest measured form that the target can run",
        "The target does not run the node as it is; of the other forms this one was the fastest.",
    ),
)
