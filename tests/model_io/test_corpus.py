"""Real models load, keep their bytes on a round trip, and get shapes."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import ModelProto

from convt_onnx.model_io import infer_shapes, load, save
from convt_onnx.model_io.walk import owners

from ..shared_models import SHARED

CORPUS = SHARED / "corpus"
# Its nodes are out of order; ONNX Runtime and load() sort them.
UNSORTED = {"fcn8s_fp16.onnx"}

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is absent")


@pytest.mark.parametrize("group", ["trained", "architectures", "unit"])
def test_round_trips(group, tmp_path):
    paths = sorted((CORPUS / group).rglob("*.onnx"))
    assert paths
    for path in paths:
        loaded = load(path)
        out = tmp_path / "out.onnx"
        save(loaded, loaded.model, out, force=True)
        before, after = plain(path), plain(out)
        if path.name in UNSORTED:
            before, after = (sorted_nodes(model) for model in (before, after))
        assert before == after, path


@pytest.mark.parametrize("group", ["trained", "architectures"])
def test_shapes(group):
    paths = sorted((CORPUS / group).rglob("*.onnx"))
    assert len(paths) > 2
    for path in paths:
        loaded = load(path)
        shapes = infer_shapes(loaded)
        assert {value.name for value in loaded.proto.graph.input} <= shapes.keys(), path
        sizes = {size for shape in shapes.values() for size in shape}
        assert not any(isinstance(size, str) and size.startswith("unk__") for size in sizes), path


def plain(path: Path) -> ModelProto:
    """The model without empty domains and zeros spelt out, which onnx-ir leaves away."""
    model = ModelProto.FromString(path.read_bytes())
    if not model.model_version:
        model.ClearField("model_version")
    for owner in owners(model):
        for node in owner.node:
            if not node.domain:
                node.ClearField("domain")
    return model


def sorted_nodes(model: ModelProto) -> ModelProto:
    model.graph.node.sort(key=lambda node: node.name)
    return model
