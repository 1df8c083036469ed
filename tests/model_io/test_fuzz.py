"""Damaged files give a ModelError or load; nothing else happens, and memory stays bounded."""

from __future__ import annotations

import resource

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper, parser

from convt_onnx.errors import ModelError
from convt_onnx.model_io import infer_shapes, load, save

TEXT = """<ir_version: 10, opset_import: ["" : 17, "f" : 1], metadata_props: ["k" : "v"]>
named (float[N,2,L] x, bool c) => (float[N,3,M] y, z)
<float[2,3,3] w = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17}, float[K] k>
{
  late = ConvTranspose <strides=[2], pads=[1,1]> (x, w)
  k = Constant <value = float[2] {1,2}> ()
  y = If (c) <then_branch = th () => (float[A,B,C] t) { s = Neg(late) t = Relu(s) },
    else_branch = el () => (float[A,B,C] e) { e = f.up(late) }>
  z = Identity(k)
}
<domain: "f", opset_import: ["" : 17]> up <alpha: float = 0.5> (a) => (b)
{ b = LeakyRelu <alpha: float = @alpha> (a) }"""
EXTRA_MIB = 300


def content() -> bytes:
    model = parser.parse_model(TEXT)
    raw = numpy_helper.from_array(np.arange(4, dtype=np.float16), "raw")
    outside = TensorProto(name="ext", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "e.bin", "offset": "0", "length": "8"}.items():
        outside.external_data.add(key=key, value=value)
    model.graph.initializer.extend([raw, outside])
    return model.SerializeToString()


CONTENT = content()


@st.composite
def damaged(draw) -> bytes:
    data = bytearray(CONTENT)
    for _ in range(draw(st.integers(0, 4))):
        position = draw(st.integers(0, len(data) - 1))
        data[position] = draw(st.integers(0, 255))
    start = draw(st.integers(0, len(data) - 1))
    stop = draw(st.integers(start, len(data)))
    cut = draw(st.sampled_from(["nothing", "tail", "middle", "twice"]))
    if cut == "tail":
        return bytes(data[:stop])
    if cut == "middle":
        return bytes(data[:start] + data[stop:])
    if cut == "twice":
        return bytes(data[:stop] + data[start:])
    return bytes(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "e.bin").write_bytes(b"12345678")
    return folder


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=damaged())
def test_damaged_files(folder, data):
    before = peak_mib()
    path = folder / "model.onnx"
    path.write_bytes(data)
    try:
        loaded = load(path)
        infer_shapes(loaded)
        save(loaded, loaded.model, folder / "out.onnx", force=True)
    except ModelError as error:
        assert error.what
    assert peak_mib() - before < EXTRA_MIB


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_the_undamaged_file_loads(folder):
    path = folder / "whole.onnx"
    path.write_bytes(CONTENT)
    assert load(path).has_conv_transpose
