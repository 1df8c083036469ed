"""CT421 to CT439: a Pad that stays beside a ConvTranspose."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT421",
        "the Pad does not write a constant",
        "Only zeros contribute nothing to a transposed convolution; reflected, repeated or "
        "wrapped rows do.",
    ),
    Reason(
        "CT422",
        "the Pad does not write zeros",
        "Its value is another constant, or is known at run time only.",
    ),
    Reason(
        "CT423",
        "the pads are known at run time only",
        "They are computed from the model's inputs, or come from the call of a function.",
    ),
    Reason(
        "CT424",
        "the Pad changes batch or channels",
        "A ConvTranspose has pads for its spatial axes alone.",
    ),
    Reason(
        "CT425",
        "the Pad adds rows and drops others",
        "Rows that are dropped from the input of a ConvTranspose take their taps with them, and "
        "rows dropped from its output may lie beside rows that are added.",
    ),
    Reason(
        "CT426",
        "no valid pads say it",
        "The folded node would need negative begin pads, or as much output_padding as the "
        "stride. Targets that get convolutions instead do not have that limit.",
    ),
    Reason(
        "CT427",
        "the padded rows would hold the bias",
        "Rows of output_padding hold the bias, where the Pad writes zeros.",
    ),
    Reason(
        "CT428",
        "the padded rows would hold values",
        "The ConvTranspose crops rows on the side where the Pad adds some: without the crop "
        "these rows hold what the convolution computes, not zeros.",
    ),
    Reason(
        "CT429",
        "the unpadded output is read elsewhere",
        "It is an output of the graph, or another node reads it too.",
    ),
    Reason(
        "CT430",
        "the crop depends on an open size",
        "output_shape fixes the output, so how much is cropped depends on the size of the input.",
    ),
)
