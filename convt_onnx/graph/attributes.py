"""The attributes of a ConvTranspose in the one spelling that runtimes agree on."""

from __future__ import annotations

from convt_onnx.graph.emitter import AttrValue
from convt_onnx.spec import ConvTransposeSpec


def canonical_attributes(spec: ConvTransposeSpec) -> dict[str, AttrValue]:
    """Every attribute written out; auto_pad and output_shape gone."""
    return {
        "kernel_shape": list(spec.kernel),
        "strides": list(spec.strides),
        "dilations": list(spec.dilations),
        "pads": [*spec.pads_begin, *spec.pads_end],
        "output_padding": list(spec.output_padding),
        "group": spec.group,
    }
