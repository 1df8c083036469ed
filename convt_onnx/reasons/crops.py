"""CT401 to CT419: a crop that stays behind a ConvTranspose."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT401",
        "the uncropped output is read elsewhere too",
        "Another node, or a subgraph, reads rows that the crop drops.",
    ),
    Reason(
        "CT402",
        "the uncropped output is an output of the graph",
        "It is a result of the model, function or subgraph and must keep all its rows.",
    ),
    Reason(
        "CT403",
        "the step of the Slice is not 1",
        "Pads drop rows at the two ends; they neither skip rows nor reverse them.",
    ),
    Reason(
        "CT404",
        "the crop is on the batch or channel axis",
        "Only spatial axes have pads. What a Slice does to other axes stays a Slice.",
    ),
    Reason(
        "CT405",
        "the bounds are known at run time only",
        "They depend on more than the sizes of tensors, or on operators that are not followed.",
    ),
    Reason(
        "CT406",
        "not the same rows for every input size",
        "The crop cannot be shown to drop the same number of rows at each end whatever the open "
        "sizes of the model are: a fixed end, the last rows alone, or the size of another tensor. "
        "Give the model static sizes to have it folded.",
    ),
    Reason(
        "CT407",
        "some input size leaves no row",
        "A Slice may return an empty tensor; a ConvTranspose that would do so is an error in "
        "ONNX Runtime.",
    ),
    Reason(
        "CT408",
        "the axes of the crop are not known, or named twice",
        "They are computed when the model runs, outside the rank, or do not fit the bounds.",
    ),
    Reason(
        "CT409",
        "the target takes no asymmetric pads",
        "The two ends of an axis would be cropped differently, in a way that output_padding does "
        "not make up for, so the crop stays outside.",
    ),
    Reason(
        "CT410",
        "the crop stands in another graph",
        "It is in a branch or a loop that reads the output from outside.",
    ),
    Reason(
        "CT411",
        "an operator in between depends on the position",
        "It has a value of its own for rows of the cropped axis, so it cannot be moved.",
    ),
    Reason(
        "CT412",
        "the uncropped size is computed elsewhere too",
        "The shape of the uncropped output is read by more than the bounds of the crop.",
    ),
    Reason(
        "CT413",
        "output_shape on an axis of unknown size",
        "The node has no pads yet that a crop could be added to; see CT105.",
    ),
    Reason(
        "CT414",
        "the rest of the crop has bounds that are not constant",
        "One axis could be folded, but the Slice would have to be written anew for the others.",
    ),
)
