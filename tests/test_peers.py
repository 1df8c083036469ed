"""Other optimizers before and after convt-onnx; benchmarks/peers.py runs more models."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

ROOT = Path(__file__).parents[1]
MODELS = sorted((ROOT / "models").glob("*.onnx"))
PEERS = ("onnxslim", "onnxsim", "ort-basic", "ort-extended")
TARGETS = ("ort-cpu", "portable")
# A Mul along the width, which is as long as there are channels.
WIDTH_OF_CHANNELS = """<ir_version: 9, opset_import: ["" : 17]>
up (float[1,2,2,2] x) => (float[1,4,4,4] y)
<float[2,4,2,2] w = {5,-1,2,3,1,4,-3,2,7,-2,1,6,-5,3,2,-1,4,-6,2,1,3,5,-4,2,1,-3,6,2,-1,4,3,-2},
 float[4] m = {0.5,1,2,4}>
{ a = ConvTranspose <strides=[2,2]> (x, w)  y = Mul(a, m) }
"""


@pytest.fixture
def peers(load):
    return load("peers")


@pytest.fixture(params=PEERS)
def peer(request, peers):
    package = peers.PEERS[request.param][0]
    assert peers.available(request.param), f"{package} is not installed: pip install -e '.[test]'"
    return request.param


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_round_trip(path, peer, peers):
    lines = list(peers.round_trip(path, path.stem, peer, TARGETS))
    assert [(x.direction, x.target) for x in lines] == [
        (peers.ALONE, ""),
        *((d, target) for target in TARGETS for d in (peers.BEFORE, peers.AFTER)),
    ]
    for x in lines:
        assert x.outcome in ("same", "copied"), peers.text(x)


def test_a_multiplication_along_the_width(peer, peers, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(WIDTH_OF_CHANNELS), path)
    lines = list(peers.round_trip(path, "width", peer, TARGETS))
    # onnxslim folds it into the channels; that is laid at its door and at nobody else's.
    for x in lines:
        assert x.ok, peers.text(x)
        assert x.outcome == "same" or peer == "onnxslim", peers.text(x)


def test_a_peer_that_fails_is_said_so(peers, monkeypatch):
    def fail(source, output):
        raise IndexError("out of range\nat line 1")

    monkeypatch.setitem(peers.PEERS, "onnxslim", ("onnx", fail))
    alone, *rest = peers.round_trip(MODELS[0], "model", "onnxslim", ("portable",))
    assert alone.outcome == "peer fails: IndexError: out of range"
    assert [x.outcome for x in rest] == [
        "peer, as on the original: fails in the peer: IndexError: out of range"
    ]
    assert all(x.ok for x in rest)


def test_a_peer_that_breaks_our_output_is_not_ok(peers, monkeypatch):
    def spoil(source, output):
        model = onnx.load(source)
        if all(n.op_type != "ConvTranspose" for n in model.graph.node):
            raise ValueError("no such operator")
        onnx.save(model, output)

    monkeypatch.setitem(peers.PEERS, "onnxslim", ("onnx", spoil))
    lines = list(peers.round_trip(MODELS[0], "model", "onnxslim", ("portable",)))
    assert [x.ok for x in lines] == [True, True, False]
    assert lines[-1].outcome == "fails in the peer: ValueError: no such operator"
