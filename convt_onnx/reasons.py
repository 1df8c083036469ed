"""Stable reason ids: why a node became what it is, why a form does not apply."""

from __future__ import annotations

from dataclasses import dataclass

from convt_onnx.errors import UsageError
from convt_onnx.suggest import did_you_mean


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason with the detail of one case."""

    id: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """What `convt-onnx explain ID` tells."""

    id: str
    title: str
    text: str


REASONS: dict[str, Reason] = {
    reason.id: reason
    for reason in (
        # Nodes that stay as they are.
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
        # Decisions.
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
        # Forms that do not apply.
        Reason(
            "CT301", "the stride is not 1", "`conv` is for stride 1; strided nodes have phases."
        ),
        Reason("CT302", "the stride is 1", "There is one phase only: `conv` is the form."),
        Reason(
            "CT303",
            "the kernel overlaps itself",
            "`gemm` needs a kernel extent (K-1)*d+1 of at most the stride, on every axis.",
        ),
        Reason(
            "CT304",
            "the crop is a multiple of the stride",
            "`phases` already absorbs such a crop into its pads; a wider window gains nothing.",
        ),
        Reason("CT305", "too many parts", "The form would need more nodes than is reasonable."),
        Reason("CT306", "the opset is too old", "An operator that the form needs came later."),
        Reason(
            "CT307",
            "too large to repack",
            "The strides or the kernel are so large that the packed weight would not fit.",
        ),
        Reason(
            "CT308",
            "negative begin pads",
            "ConvTranspose takes no negative pads; convolutions express them with larger pads.",
        ),
        Reason("CT309", "the dilation is 1", "There is no dilation to write into the weight."),
        Reason(
            "CT310",
            "output_padding is not below the stride",
            "Runtimes refuse that although it may be below the dilation; convolutions do not care.",
        ),
        Reason(
            "CT311",
            "element type not supported by the target",
            "Neither the operator nor a Cast to float32 around it keeps the values there.",
        ),
        Reason(
            "CT312",
            "the target has no such operator",
            "The form still holds a ConvTranspose, which the target does not have.",
        ),
    )
}


def get_reason(id: str) -> Reason:
    """The reason of that id, in any case.

    Raises:
        UsageError: There is none.
    """
    reason = REASONS.get(id.upper())
    if reason is None:
        raise UsageError(
            f"no reason {id!r}",
            where=f"known: {', '.join(REASONS)}",
            help=did_you_mean(id.upper(), REASONS),
        )
    return reason
