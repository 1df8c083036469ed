"""Each ConvTranspose against the oracle."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convt_onnx.graph.node import find_nodes, read_node
from convt_onnx.verify import Source, VerifyOptions, nodes, verify

from ..graph.building import array, model
from .judging import random_feeds

TEXT = """g (float[1,3,7] x) => (float[A,B,C] y) {
  h = Relu (x) [a] u = ConvTranspose <strides=[2]> (h, w, b) [c] y = ConvTranspose (u, v) }"""
PARTS = {"w": array(3, 4, 5), "b": array(4), "v": array(4, 2, 3)}


def read_nodes(proto):
    graph = ir.from_proto(proto)
    return [read_node(f.node, f.path, graph.ir_version, {}) for f in find_nodes(graph)]


def checks(folder, original, rewritten=None, feeds=None):
    sources = [Source(p, folder) for p in (original, rewritten or original)]
    feeds = random_feeds(original) if feeds is None else feeds
    return list(nodes.check_nodes(*sources, read_nodes(original), feeds))


def test_right_nodes(tmp_path):
    proto = model(TEXT, **PARTS)
    found = checks(tmp_path, proto)
    assert [c.path for c in found] == ["a", "c"]
    for c in found:
        assert c.ok
        assert 0 < c.error <= c.bound < 1e-3 * c.scale
        assert c.original_error == c.error
    assert [c.channels for c in found] == [4, 2]


def test_many_nodes_are_fetched_in_several_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(nodes, "NODES_AT_ONCE", 1)
    assert [c.path for c in checks(tmp_path, model(TEXT, **PARTS))] == ["a", "c"]


@pytest.mark.parametrize("wrong", ["w", "b", "v"])
def test_a_wrong_weight_is_found_at_its_node(tmp_path, wrong):
    original = model(TEXT, **PARTS)
    rewritten = model(TEXT, **{**PARTS, wrong: PARTS[wrong] + np.float32(1e-3)})
    found = {c.path: c.ok for c in checks(tmp_path, original, rewritten)}
    assert found == {"a": wrong == "v", "c": wrong != "v"}


def test_another_shape_is_found(tmp_path):
    original = model(TEXT, **PARTS)
    rewritten = model(TEXT.replace("strides=[2]", "strides=[2], pads=[1,0]"), **PARTS)
    (first, second) = checks(tmp_path, original, rewritten)
    assert not first.ok
    assert first.error == np.inf
    assert second.ok, "its own input is what it got"


def test_run_time_weights_are_read_out(tmp_path):
    text = """g (float[1,3,7] x, float[3,4,5] k, float[4] j) => (float[A,B,C] y)
    <float[3,4,5] w, float[4] b>
    { w = Neg (k) b = Neg (j) [a] y = ConvTranspose (x, w, b) }"""
    original = model(text)
    assert checks(tmp_path, original)[0].ok
    wrong = model(text.replace("Neg (k)", "Identity (k)"))
    # What the node got is what is judged: the difference is its weight's, not its own.
    assert checks(tmp_path, original, wrong)[0].ok
    wrong = model(text.replace("(x, w, b)", "(x, w)"))
    assert not checks(tmp_path, original, wrong)[0].ok


def test_inputs_weights_and_constants_as_operands(tmp_path):
    text = """g (float[3,4,5] w) => (float[A,B,C] y) { [a] y = ConvTranspose (k, w) }"""
    assert checks(tmp_path, model(text, k=array(1, 3, 7)))[0].ok


@pytest.mark.parametrize("axis", [0, 1, None])
def test_quantised_weights(tmp_path, axis):
    text = """g (float[1,3,7] x) => (float[A,B,C] y)
    { w = DequantizeLinear AXIS (q, s, z) [a] y = ConvTranspose (x, w) }"""
    count = {0: 3, 1: 4, None: 1}[axis]
    parts = {
        "q": (50 * array(3, 4, 5)).astype(np.int8),
        "s": abs(array(count)) + 0.1,
        "z": np.arange(1, count + 1).astype(np.int8),
    }
    if axis is None:
        parts |= {"s": parts["s"][0], "z": parts["z"][0]}
    proto = model(text.replace("AXIS", "" if axis is None else f"<axis={axis}>"), **parts)
    assert checks(tmp_path, proto)[0].ok
    wrong = model(
        text.replace("AXIS", "" if axis is None else f"<axis={axis}>"),
        **{**parts, "z": parts["z"] + np.int8(1)},
    )
    assert not checks(tmp_path, proto, wrong)[0].ok


@pytest.mark.parametrize("group", [1, 2, 8])
@pytest.mark.parametrize("budget", [1, 100, 400])
def test_a_large_node_is_checked_in_part(tmp_path, monkeypatch, group, budget):
    text = f"""g (float[3,8,7] x) => (float[A,B,C] y)
    {{ [a] y = ConvTranspose <group={group}, strides=[2]> (x, w, b) }}"""
    parts = {"w": array(8, 24 // group, 3), "b": array(24)}
    proto = model(text, **parts)
    monkeypatch.setattr(nodes, "MAX_MACS", budget)
    (check,) = checks(tmp_path, proto)
    assert check.ok
    assert 0 < check.channels < 24
    wrong = model(text, **{**parts, "b": parts["b"] + np.float32(0.01)})
    assert not checks(tmp_path, proto, wrong)[0].ok


def test_nan_that_comes_in_is_not_the_nodes_fault(tmp_path):
    proto = model(TEXT.replace("Relu", "Sqrt"), **PARTS)
    feeds = {"x": array(1, 3, 7)}
    assert all(c.ok for c in checks(tmp_path, proto, feeds=feeds))
    wrong = model(TEXT.replace("Relu", "Sqrt"), **{**PARTS, "b": PARTS["b"] + np.float32(0.01)})
    feeds["x"][:] = abs(feeds["x"])
    feeds["x"][0, 0, -1] = -1
    found = {c.path: c.ok for c in checks(tmp_path, proto, wrong, feeds)}
    assert found == {"a": False, "c": True}


def test_nan_that_the_node_makes_is(tmp_path):
    original = model(TEXT, **PARTS)
    rewritten = model(TEXT, **{**PARTS, "b": np.array([0, np.nan, 0, 0], np.float32)})
    assert not checks(tmp_path, original, rewritten)[0].ok


def test_an_original_that_does_not_run_is_judged_by_the_oracle(tmp_path):
    # ONNX Runtime takes no output_padding of a stride or more.
    text = """g (float[1,3,7] x) => (float[A,B,C] y)
    { [a] y = ConvTranspose <strides=[2], dilations=[3], output_padding=[2]> (x, w) }"""
    w = array(3, 4, 3)
    original = model(text, w=w)
    # The same with a kernel of two more taps, of which the last holds only zeros.
    equal = text.replace("dilations=[3], output_padding=[2]", "pads=[0, 0]")
    spread = np.zeros((3, 4, 9), np.float32)
    spread[:, :, :7:3] = w
    rewritten = model(equal, w=spread)
    found = read_nodes(original)
    sources = [Source(p, tmp_path) for p in (original, rewritten)]
    result = verify(*sources, VerifyOptions(), found)
    assert result.ok
    assert result.outputs == ()
    assert any("judged by the oracle alone" in n for n in result.notes)
    assert [c.original_error for c in result.nodes] == [None]
    flipped = Source(model(equal, w=spread[:, :, ::-1]), tmp_path)
    assert not verify(sources[0], flipped, VerifyOptions(), found).ok
