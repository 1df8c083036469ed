"""Every model of the shared corpus and cases becomes an engine, and its network is checked."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest

from convt_onnx.engine import BuildOptions, build_engine
from convt_onnx.engine.profiles import Profile, Range
from convt_onnx.errors import GeometryError, ModelError

from ..test_corpus import INVALID, MODELS, inputs_beside, label

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
NOT_SIMULATED = ("paper_demucs__dy", "gtcrn_speech_enhancement", "ppocrv4_det")
TOO_LARGE = ("candy_style_transfer",)
# Of the conformance grids one in this many is built for every change.
SPREAD = 3

pytestmark = pytest.mark.skipif(not MODELS, reason="the shared corpus is not beside the checkout")


def is_long(path: Path) -> bool:
    spread = "unit" in path.parts and zlib.crc32(path.stem.encode()) % SPREAD
    return path.stem in SLOW or bool(spread)


def parameters():
    paths = [p.values[0] for p in MODELS]
    return [pytest.param(p, marks=[pytest.mark.long] if is_long(p) else []) for p in paths]


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


@pytest.mark.parametrize("path", parameters(), ids=label)
def test_it_builds_and_means_the_same(rtx, path, tmp_path):
    ranges = profile(path)
    options = BuildOptions(
        backend="tensorrt-rtx",
        profiles=(ranges,) if ranges else (),
        inputs=inputs_beside(path),
    )
    out = tmp_path / "model.engine"
    if path.parent.name.startswith(INVALID):
        with pytest.raises(GeometryError):
            build_engine(path, out, options)
        return
    if path.stem in IMPOSSIBLE:
        with pytest.raises(ModelError) as error:
            build_engine(path, out, options)
        assert IMPOSSIBLE[path.stem] in error.value.where
        assert list(tmp_path.iterdir()) == []
        return
    result = build_engine(path, out, options)
    assert out.stat().st_size == result.bytes > 1000
    assert all(check.ok for check in result.checks)
    kept = [d for d in result.decisions if d.form in ("keep", "undilate")]
    deconvolutions = result.kinds.get("DECONVOLUTION", 0)
    assert deconvolutions == len(result.checks) or result.kinds.get("CONDITION")
    assert deconvolutions >= len(kept)
    if path.stem in (*NOT_SIMULATED, *TOO_LARGE):
        assert result.proof.ok is None
    else:
        assert result.proof.ok, result.proof.why
