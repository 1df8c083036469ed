"""CT1xx: nodes that stay as they are."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT102",
        "the weight's shape is not known",
        "The weight is computed when the model runs and not even its shape is in the file, so "
        "the geometry of the node is unknown. Run shape inference on the model, or export it "
        "with static weight shapes.",
    ),
    Reason(
        "CT103",
        "the weight may be overridden by the caller",
        "The weight is an initializer that is also a graph input: a caller may feed another "
        "one, so it is treated as known at run time only, and kept. Remove it from the "
        "graph's inputs if nobody does.",
    ),
    Reason(
        "CT104",
        "weight computed at run time",
        "The weight depends on the model's inputs (a modulated convolution, for example). It "
        "would have to be repacked in every call, so the node was written in its canonical "
        "spelling and kept. A target without ConvTranspose repacks it all the same.",
    ),
    Reason(
        "CT105",
        "output_shape on an axis of unknown size",
        "output_shape fixes the output, so the crop depends on the input's size, and that is "
        "open. A target that has ConvTranspose gets the node as it is; others get a "
        "convolution and a Slice with computed bounds (opset 10 or later). Give the model "
        "static sizes, or export it with pads and output_padding, for a static crop.",
    ),
    Reason(
        "CT106",
        "attributes come from the function's caller",
        "The node stands in a model-local function and reads attributes of the call. Such "
        "functions are inlined first; this one could not be.",
    ),
    Reason(
        "CT107",
        "the bias's shape is not known",
        "The bias is computed when the model runs and its shape is not in the file.",
    ),
    Reason(
        "CT108",
        "no form that the target runs applies",
        "Each form was tried; `inspect --verbose` lists why each does not apply.",
    ),
    Reason("CT109", "skipped on request", "`--skip` named this node."),
)
