"""CT441 to CT459: a neighbour that stays behind a ConvTranspose."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT441",
        "the output is read elsewhere too",
        "Another node, or a subgraph, reads the output as it is before the neighbour.",
    ),
    Reason(
        "CT442",
        "the output is an output of the graph",
        "Its values before the neighbour are a result of the model, function or subgraph.",
    ),
    Reason(
        "CT443",
        "BatchNormalization in training mode",
        "It normalises by the statistics of its input, or something reads the statistics. "
        "Export the model in inference mode. Before opset 7, is_test = 1 says inference.",
    ),
    Reason(
        "CT444",
        "the operand is known at run time only",
        "It depends on the model's inputs, or comes from the call of a function.",
    ),
    Reason(
        "CT445",
        "the operand may be overridden by the caller",
        "It is an initializer that is also a graph input. Remove it from the graph's inputs if "
        "nobody feeds it.",
    ),
    Reason(
        "CT446",
        "weight or bias is not constant",
        "A scale goes into the weight and the bias, a summand into the bias; these are known at "
        "run time only, or the caller may override them.",
    ),
    Reason(
        "CT447",
        "weight or bias is quantised",
        "The scales of a weight and a bias take in a factor where their type holds the product, "
        "as with powers of two, and one factor goes with one scale. Others would be rounded, and "
        "a summand would put a float bias in the place of a quantised one.",
    ),
    Reason(
        "CT448",
        "the operand is not one value a channel",
        "Broadcasting aligns shapes at the last axis: a 1-D constant runs along the last spatial "
        "axis even when it is as long as there are channels. [C, 1, 1] in 2-D, [1, C, 1, 1] and "
        "a single value are per channel.",
    ),
    Reason(
        "CT449",
        "the output is the divisor",
        "c / y is not linear in y.",
    ),
    Reason(
        "CT450",
        "the folded values do not fit the element type",
        "They overflow, are not finite, or are so small that the type keeps fewer digits of them.",
    ),
    Reason(
        "CT451",
        "the slope is not one float32",
        "LeakyRelu has one slope, an attribute of 32 bits. A slope a channel stays a PRelu, and so "
        "does one of more axes than its input, which ONNX does not allow and ONNX Runtime takes.",
    ),
)
