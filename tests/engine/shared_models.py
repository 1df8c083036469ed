"""What TensorRT makes of the shared models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from convt_onnx.engine.profiles import Profile, Range

from ..shared_models import inputs_beside

# TensorRT has no unsigned inputs, and not the operator of ONNX Runtime's own that takes its pads
# from an input.
IMPOSSIBLE = {
    "opset_compliance_11": "input 'bitshift_a'",
    "contrib_ConvTransposeWithDynamicPads": "ConvTransposeWithDynamicPads",
}
# Some seconds each, or loops that the simulation has no rules for.
SLOW = """diffusers_oobleck_decoder__ts paper_melgan_wnold__tsraw transformers_mimi_decoder__dy
transformers_sam_mask_decoder__ts transformers_seamless_hifigan__ts gtcrn_speech_enhancement
ppocrv4_det candy_style_transfer melgan_int8_qdq snac_decoder__ts paper_vae_decoder__dy""".split()


def profile(path: Path) -> Profile:
    """Ranges for open inputs: the sizes of the arrays beside the model, or likely ones."""
    proto = onnx.load(path, load_external_data=False)
    constants = {t.name for t in proto.graph.initializer}
    beside = inputs_beside(path)
    given = {}
    if beside is not None:
        with np.load(beside) as arrays:
            given = {n.removeprefix("in_"): arrays[n].shape for n in arrays.files}
    result = {}
    for value in proto.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in constants or all(d.HasField("dim_value") for d in dims):
            continue
        likely = tuple(
            d.dim_value if d.HasField("dim_value") else (1 if axis == 0 else 32)
            for axis, d in enumerate(dims)
        )
        shape = tuple(int(n) for n in given.get(value.name, likely))
        result[value.name] = Range(shape, shape, shape)
    return result
