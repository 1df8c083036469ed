"""What no model may end with: more nodes around its ConvTransposes, or ones that could fold.

Over the models that come with the project, and over the shared corpus and cases where they are.
"""

from __future__ import annotations

import collections
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from onnx import inliner

from convt_onnx import OptimizeOptions, model_io, optimize, pipeline
from convt_onnx.decide import Choice
from convt_onnx.passes.base import Context
from convt_onnx.targets import get_target

from .shared_models import INVALID, SHARED, SLOW

ROOT = Path(__file__).parents[1]
# The others take some of these nodes apart again where they must.
TARGETS = ("ort-cpu", "portable")
# Single nodes: little stands around them.
UNITS = "unit"
FOLDERS = (ROOT / "models", SHARED / "cases", SHARED / "corpus")
MODELS = [
    pytest.param(path, marks=[pytest.mark.long] if path.stem in SLOW or UNITS in path.parts else [])
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.onnx"))
    if not path.parent.name.startswith(INVALID)
]
AROUND = ("Slice", "Pad", "BatchNormalization", "Mul", "Add")
CROPS = ("Slice", "Split", "Crop")
# Crops that stay directly behind a ConvTranspose, and why; no other model has any.
LEFT = {
    # To the size of a tensor that pooling has rounded.
    "paper_fcn8s_group__ts": {"CT406"},
    "fcn8s_fp16": {"CT406"},
}


def label(path):
    return path.parent.name[:3] if path.stem == "model" else path.stem


def inlined(proto):
    """Functions are inlined by a pass; a model without them is counted before and after."""
    return inliner.inline_local_functions(proto) if proto.functions else proto


def graphs(graph):
    """The graph and those of its branches and loops."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from graphs(inner)


def counts(proto):
    """Nodes by type; products of sizes are no Mul of the model's values."""
    proto = onnx.shape_inference.infer_shapes(inlined(proto))
    sizes = {
        v.name
        for g in graphs(proto.graph)
        for v in g.value_info
        if v.type.tensor_type.elem_type == onnx.TensorProto.INT64
    }
    nodes = [n for g in graphs(proto.graph) for n in g.node]
    return collections.Counter(
        n.op_type for n in nodes if n.op_type != "Mul" or n.output[0] not in sizes
    )


def folded(path, target):
    """A model before and after everything but the lowering, and what the passes said."""
    loaded = model_io.load(path)
    before = onnx.ModelProto()
    before.CopyFrom(loaded.proto)
    context = Context(get_target(target), {}, Choice())
    pipeline.run((*pipeline.PREPARATIONS, *pipeline.FOLDS), loaded, context)
    return before, ir.to_proto(loaded.model), context


def grown(before, after, kinds=AROUND):
    old, new = counts(before), counts(after)
    return {kind: (old[kind], new[kind]) for kind in kinds if new[kind] > old[kind]}


def readers(graph, name):
    return [n for n in graph.node if name in n.input]


def cropped(proto):
    """Crops right behind a ConvTranspose."""
    return [
        crop
        for graph in graphs(inlined(proto).graph)
        for node in graph.node
        if node.op_type == "ConvTranspose"
        for crop in readers(graph, node.output[0])
        if crop.op_type in CROPS and crop.input[0] == node.output[0]
    ]


def computed_from_constants(graph, name):
    """Whether nodes make a value, and nothing that the caller feeds or an outer graph has."""
    makers = {o: n for n in graph.node for o in n.output}
    constants = {t.name for t in graph.initializer} - {i.name for i in graph.input}
    if name not in makers or makers[name].op_type in ("Constant", "DequantizeLinear"):
        return False
    pending, seen = [name], set()
    while pending:
        current = pending.pop()
        if not current or current in seen or current in constants:
            continue
        seen.add(current)
        if current not in makers:
            return False
        pending += makers[current].input
    return True


@pytest.mark.parametrize("path", MODELS, ids=label)
def test_nothing_that_folds_is_left(path):
    before, after, context = folded(path, "ort-cpu")
    assert grown(before, after) == {}
    reasons = {m.reason.id for m in context.misses if m.pass_name == "fold-crops"}
    assert (reasons if cropped(after) else set()) == LEFT.get(path.stem, set())
    for graph in graphs(inlined(after).graph):
        for node in graph.node:
            if node.op_type == "ConvTranspose":
                assert not computed_from_constants(graph, node.input[1]), node.name


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", MODELS, ids=label)
def test_a_written_model_has_no_more_around_a_node_that_stays(path, target, tmp_path):
    options = OptimizeOptions(target=target, verify=False)
    result = optimize(path, tmp_path / "out.onnx", options)
    before = onnx.load(path, load_external_data=False)
    after = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    stays = all(d.form == "keep" for d in result.decisions)
    # A form may cut a window or add overlapping rows; none normalises or scales.
    assert grown(before, after, AROUND if stays else ("BatchNormalization", "Mul")) == {}


def test_the_corpus_has_what_is_promised():
    """Otherwise the tests above prove nothing."""
    if not SHARED.is_dir():
        pytest.skip("the shared corpus is not beside the checkout")
    found = collections.Counter()
    for parameter in MODELS:
        (path,) = parameter.values
        if path.stem in SLOW:
            continue
        proto = inlined(onnx.load(path, load_external_data=False))
        for graph in graphs(proto.graph):
            nodes = [n for n in graph.node if n.op_type == "ConvTranspose"]
            found["weights"] += sum(computed_from_constants(graph, n.input[1]) for n in nodes)
        found["crops"] += len(cropped(proto))
    assert found["weights"] >= 9, found
    assert found["crops"] > 20, found
