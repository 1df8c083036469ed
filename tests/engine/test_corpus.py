"""Every model of the shared corpus and cases becomes an engine, and its network is checked."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from convt_onnx.engine import BuildOptions, build_engine
from convt_onnx.errors import GeometryError, ModelError

from ..shared_models import INVALID, MODELS, inputs_beside, label
from .shared_models import IMPOSSIBLE, SLOW, profile

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
