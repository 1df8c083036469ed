"""The main job: what it changes and what it leaves as it was."""

from __future__ import annotations

import onnx
import pytest

from convt_onnx import OptimizeOptions, inspect, optimize
from convt_onnx.errors import UsageError
from convt_onnx.optimization import default_output

from .graph.building import array, initializer_names, model, write

TARGETS = ("ort-cpu", "portable")
ONE = "g (float[1,3,7] x) => (float[] y) { [a] y = ConvTranspose <strides=[2]> (x, w) }"
W = array(3, 4, 5)

# Attributes, input, weight, and sizes to run at besides those of the verification.
GEOMETRIES = {
    "1-D": ("strides=[2], pads=[1,2]", "float[1,3,7] x", (3, 4, 5), [(1, 3, 7)]),
    "1-D open": ("strides=[3], pads=[2,1]", "float[N,3,L] x", (3, 4, 5), [(1, 3, 1), (2, 3, 30)]),
    "1-D long": ("strides=[4], pads=[2,2]", "float[N,4,L] x", (4, 1, 16), [(1, 4, 2), (3, 4, 50)]),
    "2-D": ("strides=[2,2], pads=[1,1,1,1]", "float[2,3,5,4] x", (3, 4, 4, 4), [(2, 3, 5, 4)]),
    "2-D open": (
        'strides=[2,3], auto_pad="SAME_UPPER"',
        "float[N,3,H,W] x",
        (3, 4, 3, 5),
        [(1, 3, 1, 1), (2, 3, 9, 4)],
    ),
    "2-D equal strides, open": (
        "strides=[2,2], output_padding=[1,1]",
        "float[N,3,H,W] x",
        (3, 4, 3, 3),
        [(1, 3, 1, 2), (3, 3, 6, 5)],
    ),
    "2-D grouped, one open": (
        "strides=[2,1], group=3, dilations=[1,2]",
        "float[1,6,H,5] x",
        (6, 2, 3, 2),
        [(1, 6, 1, 5), (1, 6, 17, 5)],
    ),
    "2-D depthwise": (
        "strides=[2,2], group=4, pads=[1,1,1,1]",
        "float[N,4,H,W] x",
        (4, 1, 4, 4),
        [(2, 4, 1, 1), (1, 4, 8, 9)],
    ),
    "2-D kernel below stride": ("strides=[3,3]", "float[1,2,H,W] x", (2, 3, 2, 1), [(1, 2, 4, 5)]),
    "2-D stride 1": ("pads=[1,0,0,1]", "float[N,2,H,W] x", (2, 3, 3, 2), [(1, 2, 3, 3)]),
    "3-D open": (
        "strides=[2,1,2], pads=[0,1,0,1,0,1]",
        "float[N,2,D,H,W] x",
        (2, 3, 3, 2, 2),
        [(1, 2, 1, 2, 1), (2, 2, 3, 4, 5)],
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_right_at_every_size(optimized, name, target):
    attributes, x, weight, sizes = GEOMETRIES[name]
    group = int(attributes.partition("group=")[2][:1] or 1)
    text = f"g ({x}) => (float[] y) {{ y = ConvTranspose <{attributes}> (x, w, b) }}"
    found = optimized(model(text, w=array(*weight), b=array(weight[1] * group)), target)
    assert None not in found.forms.values()
    assert target == "ort-cpu" or "ConvTranspose" not in found.ops
    for size in sizes:
        found.check({"x": array(*size)})


@pytest.mark.parametrize("target", TARGETS)
def test_metadata_stays(optimized, target):
    proto = model(ONE, w=W)
    proto.producer_name, proto.producer_version = "torch", "2.13"
    proto.domain, proto.model_version, proto.doc_string = "d", 7, "doc"
    proto.graph.doc_string = "graph doc"
    for key in "zay":
        proto.metadata_props.add(key=key, value=key * 2)
    proto.opset_import.add(domain="other", version=3)
    found = optimized(proto, target)
    assert found.result.modified


@pytest.mark.parametrize("target", TARGETS)
def test_a_model_with_nothing_to_do_is_copied_byte_for_byte(tmp_path, target):
    proto = model("g (float[3] x) => (float[3] y) { y = Relu (x) }")
    # Fields in another order than any writer has them, and an empty one.
    tail = onnx.ModelProto(producer_name="p").SerializeToString()
    source = tmp_path / "m.onnx"
    source.write_bytes(tail + proto.SerializeToString() + b"\x1a\x00")
    result = optimize(source, options=OptimizeOptions(target=target))
    assert not result.modified
    assert result.verification is None
    assert result.decisions == ()
    assert result.output.read_bytes() == source.read_bytes()


def test_the_output_lies_beside_the_input(tmp_path):
    source = write(model(ONE, w=W), tmp_path, "deep.model.onnx")
    before = source.read_bytes()
    result = optimize(source)
    assert result.output == default_output(source) == tmp_path / "deep.model.convt.onnx"
    assert source.read_bytes() == before
    assert result.input_bytes == len(before)
    assert result.output_bytes == result.output.stat().st_size


def test_another_output(tmp_path):
    (tmp_path / "sub").mkdir()
    result = optimize(write(model(ONE, w=W), tmp_path), tmp_path / "sub" / "o.onnx")
    assert result.output == tmp_path / "sub" / "o.onnx"
    assert not default_output(tmp_path / "model.onnx").exists()


def test_existing_files_are_kept_unless_forced(tmp_path):
    source = write(model(ONE, w=W), tmp_path)
    out = default_output(source)
    out.write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists") as caught:
        optimize(source)
    assert "--force" in caught.value.help
    assert out.read_bytes() == b"mine"
    optimize(source, options=OptimizeOptions(force=True))
    assert onnx.load(out).graph.node


def test_the_input_is_never_written_over(tmp_path):
    source = write(model(ONE, w=W), tmp_path)
    before = source.read_bytes()
    with pytest.raises(UsageError, match="part of the input"):
        optimize(source, source, OptimizeOptions(force=True))
    assert source.read_bytes() == before


def test_a_dry_run_decides_and_verifies_and_writes_nothing(tmp_path):
    source = write(model(ONE, w=W), tmp_path)
    result = optimize(source, options=OptimizeOptions(target="portable", dry_run=True))
    assert result.output is None
    assert result.output_bytes is None
    assert result.verification.ok
    assert [d.path for d in result.decisions] == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_without_verification_nothing_runs(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    source = write(model(ONE, w=W), tmp_path)
    result = optimize(source, options=OptimizeOptions(target="portable", verify=False))
    assert result.verification is None
    assert result.output.exists()


def test_skipped_nodes_stay_exactly_as_they_are(optimized):
    text = """g (float[1,3,7] x) => (float[] y, float[] z) { w = Neg (v)
      [a] y = ConvTranspose <auto_pad="SAME_UPPER", strides=[2]> (x, w)
      [b] z = ConvTranspose <strides=[2]> (x, w) }"""
    proto = model(text, v=W)
    found = optimized(proto, skip=frozenset({"a"}))
    assert found.reasons["a"] == "CT109"
    assert found.forms["a"] is None
    (kept,) = (n for n in found.after.graph.node if n.op_type == "ConvTranspose")
    original = proto.graph.node[1]
    assert (kept.name, kept.input, kept.output) == (original.name, original.input, original.output)
    assert sorted(a.name for a in kept.attribute) == ["auto_pad", "strides"]
    assert "Neg" in found.ops
    found.check()


def test_every_node_gets_a_decision(optimized):
    text = """g (float[1,3,7] x, float[3,4,5] r) => (float[] y, float[] z, float[] u) {
      [a] y = ConvTranspose <strides=[2]> (x, w) [b] z = ConvTranspose <strides=[2]> (x, r)
      u = ConvTranspose (x, w) }"""
    found = optimized(model(text, w=W), "ort-cpu")
    assert list(found.reasons) == ["a", "b", "ConvTranspose->u"]
    assert found.reasons["b"] == "CT104"
    for decision in found.result.decisions:
        assert decision.target == "ort-cpu"
        assert decision.spec is not None
        assert {c.form for c in decision.candidates} >= {"keep", "phases", "conv"}
        assert all((c.work is None) != (c.refusal is None) for c in decision.candidates)


def test_progress_names_the_steps(tmp_path):
    steps = []
    optimize(write(model(ONE, w=W), tmp_path), progress=steps.append)
    assert steps[0] == "reading"
    assert steps[-1] == "writing"
    assert {"verifying", "lower", "fold-weights"} <= set(steps)


def test_inspect_decides_as_optimize_does(tmp_path):
    source = write(model(ONE, w=W), tmp_path)
    (node,) = inspect(source).nodes
    for decision in node.decisions:
        options = OptimizeOptions(target=decision.target, dry_run=True)
        (taken,) = optimize(source, options=options).decisions
        assert (taken.form, taken.reason) == (decision.form, decision.reason)
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_forms_by_node_and_for_all(optimized):
    text = """g (float[1,3,7] x) => (float[] y, float[] z, float[] u) {
      [a] y = ConvTranspose <strides=[2]> (x, w) [b] z = ConvTranspose <strides=[2]> (x, w)
      [c] u = ConvTranspose (x, w) }"""
    forms = {"all": "phases-split", "b": "overlap-add"}
    found = optimized(model(text, w=W), "ort-cpu", forms=forms)
    assert found.forms["a"] == "phases-split"
    assert found.forms["b"] == "overlap-add"
    assert found.forms["c"] not in ("phases-split", None)
    assert found.reasons["a"] == found.reasons["b"] == "CT205"
    assert found.reasons["c"] != "CT205"
    found.check()


@pytest.mark.parametrize("target", TARGETS)
def test_other_initializers_and_nodes_stay(optimized, target):
    text = ONE.replace("}", "idle = Neg (x) }")
    found = optimized(model(text, w=W, unused=array(2)), target)
    assert "unused" in initializer_names(found.after)
    assert "Neg" in found.ops


TWO = """g (float[1,3,7] x) => (float[] y) { [a] h = ConvTranspose <strides=[2]> (x, w)
  [b] y = ConvTranspose <strides=[3]> (h, v) }"""


@pytest.mark.parametrize(
    ("forms", "notes"),
    [
        ({"all": "gemm"}, []),
        ({"all": "conv"}, ["conv applies to none of 2 nodes: CT301 the stride is not 1"]),
        (
            {"all": "conv", "a": "phases"},
            ["conv applies to none of 2 nodes: CT301 the stride is not 1"],
        ),
        ({"a": "phases"}, []),
    ],
)
def test_a_form_that_applies_nowhere_is_a_note(tmp_path, forms, notes):
    source = write(model(TWO, w=array(3, 4, 5), v=array(4, 2, 3)), tmp_path)
    found = optimize(source, options=OptimizeOptions(target="portable", forms=forms)).notes
    assert len(found) == len(notes)
    assert all(n.startswith(start) for n, start in zip(found, notes, strict=True))
