"""CT2xx: decisions."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT201",
        "kept: expected to be the fastest form here",
        "The node was written in its canonical spelling (explicit kernel_shape, pads and "
        "output_padding; auto_pad and output_shape gone), which every runtime reads the same "
        "way. No other form is expected to beat it on this target.",
    ),
    Reason(
        "CT202",
        "the target has no ConvTranspose",
        "Of the forms that the target can run the one with the least work was taken: "
        "multiply-adds, and every element that it moves counts as 16 of them (128 on "
        "TensorRT), since no times are known there.",
    ),
    Reason(
        "CT203",
        "the target cannot run the node as it is",
        "The operator does not take this element type or these attributes there, so the form "
        "with the least work that it can run was taken, weighed as for CT202.",
    ),
    Reason(
        "CT204",
        "another form is expected to be faster",
        "Nothing was timed. What the runtime does for each form was counted, and weighed with the "
        "times that benchmarks/calibrate.py measured: this form is expected to be faster by more "
        "than the table is usually wrong. Timing (`--tune`) knows better.",
    ),
    Reason("CT205", "forced on request", "`--form` named this node and this form."),
    Reason(
        "CT206",
        "kept: the form `slices` or `bands` wrote it",
        "The node computes slices over two axes that Col2Im adds up behind it, or stands for that "
        "Col2Im before opset 18, with a one for each tap in its weight; or it has the rows of a "
        "third axis as channels. No other form of it is looked for, so that a rewritten model "
        "stays as it is.",
    ),
)
