from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import ModelProto, helper, numpy_helper, parser

from convt_onnx.model_io import load, save, saving
from convt_onnx.model_io.walk import owners

from .conftest import files


@pytest.fixture
def rich(proto, write):
    """A model with everything that a rewrite must not touch."""
    text = """<ir_version: 10, opset_import: ["f" : 1, "" : 17], producer_name: "p",
      producer_version: "1", domain: "d", model_version: 7, doc_string: "model doc",
      metadata_props: ["z" : "1", "a" : "2"]>
    named (float[N,2,L] x, bool c) => (float[N,3,M] y, z)
    <float[2,3,3] w = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17}, float[N,3,M] late, float[K] k>
    {
      [first] late = ConvTranspose <strides=[2]> (x, w)
      k = Constant <value = float[2] {1,2}> ()
      y = If (c) <then_branch = th () => (float[A,B,C] t)
        <float[1] one = {1}, float[A,B,C] s> { s = Add(late, one) t = Relu(s) },
        else_branch = el () => (float[A,B,C] e) { e = f.up(late) }>
      z = Identity(k)
    }
    <domain: "f", opset_import: ["" : 17]> up <alpha: float = 0.5> (a) => (b)
    { b = LeakyRelu <alpha: float = @alpha> (a) }"""
    model = parser.parse_model(text)
    model.graph.doc_string = "graph doc"
    model.graph.metadata_props.add(key="z", value="1")
    model.graph.metadata_props.add(key="a", value="2")
    model.graph.node[0].doc_string = "node doc"
    model.graph.input[0].doc_string = "input doc"
    weight = model.graph.initializer[0]
    weight.doc_string = "weight doc"
    weight.metadata_props.add(key="z", value="1")
    weight.metadata_props.add(key="a", value="2")
    return write(model)


def plain(path: Path) -> ModelProto:
    """The model without empty domains that are spelt out, which onnx-ir leaves away."""
    model = ModelProto.FromString(path.read_bytes())
    for owner in owners(model):
        for node in owner.node:
            if not node.domain:
                node.ClearField("domain")
    return model


def test_a_round_trip_changes_nothing(rich, out):
    loaded = load(rich)
    saved = save(loaded, loaded.model, out, force=False)
    assert plain(out) == plain(rich)
    assert (saved.path, saved.bytes) == (out, out.stat().st_size)
    assert (saved.external_path, saved.external_bytes) == (None, 0)
    assert list(files(out.parent)) == ["new.onnx"]


def test_saving_twice_gives_the_same_bytes(rich, out):
    loaded = load(rich)
    save(loaded, loaded.model, out, force=False)
    before = out.read_bytes()
    save(loaded, loaded.model, out, force=True)
    assert out.read_bytes() == before


def test_new_files_get_ordinary_permissions(rich, out):
    loaded = load(rich)
    save(loaded, loaded.model, out, force=False)
    umask = os.umask(0)
    os.umask(umask)
    assert out.stat().st_mode & 0o777 == 0o666 & ~umask


def test_external_data_goes_to_one_file(external_model, out):
    loaded = load(external_model)
    saved = save(loaded, loaded.model, out, force=False)
    assert sorted(files(out.parent)) == ["new.onnx", "new.onnx.data"]
    assert saved.external_path == out.with_name("new.onnx.data")
    assert saved.external_bytes == saved.external_path.stat().st_size
    assert [str(t.const_value.location) for t in loaded.model.graph.initializers.values()] == [
        "w.bin",
        "sub/m.bin",
    ]
    again = load(out)
    assert again.external_files == (saved.external_path,)
    for name, value in loaded.model.graph.initializers.items():
        np.testing.assert_array_equal(
            again.model.graph.initializers[name].const_value.numpy(), value.const_value.numpy()
        )


def test_replaced_weights(external_model, out):
    loaded = load(external_model)
    values = loaded.model.graph.initializers
    large, small = np.ones((100, 100), np.float16), np.full((2, 3, 3), 2, np.float32)
    values["m"].const_value = ir.tensor(large, name="m")
    values["w"].const_value = ir.tensor(small, name="w")
    save(loaded, loaded.model, out, force=False)
    again = load(out).model.graph.initializers
    assert isinstance(again["m"].const_value, ir.ExternalTensor)
    assert isinstance(again["w"].const_value, ir.serde.TensorProtoTensor)
    np.testing.assert_array_equal(again["m"].const_value.numpy(), large)
    np.testing.assert_array_equal(again["w"].const_value.numpy(), small)


def test_new_weights_of_an_inline_model_stay_inline(proto, write, out):
    loaded = load(write(proto))
    large = ir.tensor(np.ones((2, 3, 300), np.float32), name="w")
    loaded.model.graph.initializers["w"].const_value = large
    saved = save(loaded, loaded.model, out, force=False)
    assert saved.external_path is None
    assert saved.bytes > large.nbytes


def test_no_data_file_when_nothing_is_external_any_more(external_model, out):
    loaded = load(external_model)
    for value in loaded.model.graph.initializers.values():
        value.const_value = ir.tensor(np.zeros(3, np.float32), name=value.name)
    saved = save(loaded, loaded.model, out, force=False)
    assert (saved.external_path, saved.external_bytes) == (None, 0)
    assert list(files(out.parent)) == ["new.onnx"]


def test_large_inline_models_go_external(proto, write, out, monkeypatch):
    matrix = np.arange(1000, dtype=np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(matrix, "m"))
    monkeypatch.setattr(saving, "INLINE_LIMIT_BYTES", 4000)
    loaded = load(write(proto))
    saved = save(loaded, loaded.model, out, force=False)
    assert saved.external_bytes == 4000
    again = load(out).model.graph.initializers
    np.testing.assert_array_equal(again["m"].const_value.numpy(), matrix)
    assert isinstance(again["w"].const_value, ir.serde.TensorProtoTensor)


def test_shared_data_is_written_once(proto, write, external, out):
    write(bytes(8000), "w.bin")
    for name in ("a1", "a2"):
        proto.graph.initializer.append(external(name, [2000], location="w.bin"))
    loaded = load(write(proto))
    assert save(loaded, loaded.model, out, force=False).external_bytes == 8000


def test_large_tensors_start_on_a_page(proto, write, external, out):
    data = np.random.default_rng(0).bytes(3 * 2**20 + 5)
    write(data, "w.bin")
    proto.graph.initializer.append(external("odd", [5], location="w.bin", length=5))
    proto.graph.initializer[-1].data_type = 2
    proto.graph.initializer.append(external("large", [3 * 2**18], location="w.bin", offset=5))
    loaded = load(write(proto))
    save(loaded, loaded.model, out, force=False)
    again = load(out).model.graph.initializers
    assert again["large"].const_value.offset == 4096
    assert again["large"].const_value.tobytes() == data[5:]


def test_external_tensors_everywhere(proto, write, external, out):
    values = np.arange(6, dtype=np.float32)
    write(values.tobytes(), "w.bin")
    tensors = [external("k", [2], location="w.bin", offset=8 * i) for i in range(3)]
    inner = helper.make_graph([], "g", [], [], [tensors[0]])
    inner.output.add(name="k")
    proto.graph.node.append(
        helper.make_node("Nest", ["x"], ["n0"], domain="own", then_branch=inner)
    )
    proto.graph.node.append(helper.make_node("Constant", [], ["n1"], value=tensors[1]))
    constant = helper.make_node("Constant", [], ["n2"], value=tensors[2])
    opset = helper.make_opsetid("", 17)
    proto.functions.add(name="f", domain="f", output=["n2"], node=[constant], opset_import=[opset])
    loaded = load(write(proto))
    save(loaded, loaded.model, out, force=False)
    model = load(out).model
    (function,) = model.functions.values()
    found = [
        model.graph[2].attributes["then_branch"].value.initializers["k"].const_value,
        model.graph[3].attributes["value"].value,
        function[0].attributes["value"].value,
    ]
    np.testing.assert_array_equal(np.concatenate([t.numpy() for t in found]), values)
    assert loaded.model.graph[3].attributes["value"].value.location == "w.bin"
