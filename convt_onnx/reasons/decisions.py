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
        "The form with the least work that the target can run was taken.",
    ),
    Reason(
        "CT203",
        "the target cannot run the node as it is",
        "The operator does not take this element type or these attributes there, so the form "
        "with the least work that it can run was taken.",
    ),
    Reason(
        "CT204",
        "another form is expected to be faster",
        "Measured on ONNX Runtime's CPU provider, nodes of this kind run faster in this form; "
        "benchmarks/forms_cpu.py prints the figures.",
    ),
    Reason("CT205", "forced on request", "`--form` named this node and this form."),
)
