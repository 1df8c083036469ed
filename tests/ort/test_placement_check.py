"""Proof from a profile of where nodes ran."""

from __future__ import annotations

import resource

import numpy as np
import onnxruntime as ort
import pytest

from convt_onnx.ort.placement_check import Placement, check_placement, read_profile

from ..graph.building import array, model
from .nodes import SPECS, Node, make_record

CPU = "CPUExecutionProvider"
TEXT = """g (float[N,3,L] x) => (float[] y, int64[] s)
  { [up] u = ConvTranspose <strides=[2]> (x, w) [act] y = Relu (u) [size] s = Shape (u) }"""


@pytest.fixture
def proto():
    return model(TEXT, w=array(3, 4, 5))


def test_names_the_provider_of_every_node(proto, tmp_path):
    found = check_placement(
        ort.SessionOptions(),
        proto.SerializeToString(),
        {"x": array(2, 3, 7).astype(np.float32)},
        [CPU],
        tmp_path,
    )
    ran = {(n.op_type, n.provider, n.sizes_only) for n in found.nodes}
    assert ran == {
        ("ConvTranspose", CPU, False),
        ("Relu", CPU, False),
        ("Shape", CPU, True),
    }
    assert found.strays == ()
    assert all(n.us >= 0 for n in found.nodes)
    assert list(tmp_path.iterdir()) == []


def event(name, op, provider, *outputs):
    arguments = {"op_name": op, "provider": provider, "output_type_shape": list(outputs)}
    return {"cat": "Node", "name": f"{name}_kernel_time", "dur": 3, "args": arguments}


def test_strays_are_named_with_a_reason_but_not_shape_arithmetic():
    cuda = "CUDAExecutionProvider"
    events = [
        {"cat": "Session", "name": "model_run", "dur": 9, "args": {}},
        event("up", "ConvTranspose", CPU, {"float": [2, 4, 17]}),
        event("copy", "MemcpyFromHost", cuda, {"float": [2, 4, 17]}),
        event("act", "Relu", cuda, {"float": [2, 4, 17]}),
        event("size", "Shape", CPU, {"int64": [3]}),
    ]
    nodes = read_profile(events)
    assert [n.name for n in nodes] == ["up", "copy", "act", "size"]
    strays = Placement(cuda, nodes).strays
    assert [(n.name, r.id, r.detail) for n, r in strays] == [
        ("up", "CT573", "ConvTranspose on CPUExecutionProvider"),
        ("copy", "CT573", "MemcpyFromHost on CUDAExecutionProvider"),
    ]


@pytest.mark.parametrize(
    ("output", "sizes"),
    [
        ({"int64": [4, 2]}, True),
        ({"int32": []}, True),
        ({"bool": [1]}, True),
        ({"int64": [2, 40]}, False),
        ({"uint32": [3]}, False),
        ({"int8": [1]}, False),
        ({"float": [1]}, False),
    ],
)
def test_a_few_integers_are_sizes(output, sizes):
    (node,) = read_profile([event("n", "Gather", CPU, output)])
    assert node.sizes_only == sizes
    assert len(Placement("CUDAExecutionProvider", (node,)).strays) == (not sizes)


def test_the_custom_op_is_in_the_profile(library, tmp_path):
    node = Node(make_record(SPECS["vocoder"]), (7,))
    found = check_placement(
        library.options(), node.model().SerializeToString(), node.feeds(), [CPU], tmp_path
    )
    assert "FusedConvTranspose" in [n.op_type for n in found.nodes]


def test_changing_sizes_leak_no_host_memory(library):
    """What the kernels of both providers do around their arithmetic."""
    record = make_record(SPECS["apart"])
    nodes = [Node(record, (h, w), n) for h, w, n in ((3, 4, 1), (2, 2, 2), (5, 3, 1))]
    options = library.options()
    session = ort.InferenceSession(nodes[0].model().SerializeToString(), options, providers=[CPU])
    feeds = [n.feeds() for n in nodes]
    first = [session.run(None, f)[0] for f in feeds]
    for i in range(2000):
        session.run(None, feeds[i % 3])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(8000):
        (got,) = session.run(None, feeds[i % 3])
    np.testing.assert_array_equal(got, first[7999 % 3])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown <= 1024, f"{grown} KiB"
