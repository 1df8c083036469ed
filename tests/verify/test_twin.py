from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from convt_onnx.verify.session import Runner, Source
from convt_onnx.verify.twin import float32_twin, other_floats

from ..graph.building import array, braces, model, with_function
from .judging import random_feeds, run

NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "double": np.float64}
TEXT = """g (KIND[1,3,7] x, bool c) => (KIND[1,4,9] y) <KIND[1,3,7] h> {
  k = Constant <value = KIND[1] {2}> () h = Mul (x, k)
  y = If (c) <then_branch = t () => (KIND[1,4,9] p) { p = ConvTranspose (h, w) },
              else_branch = e () => (KIND[1,4,9] q) {
                f = Cast <to=1> (h) n = Cast <to=NUMBER> (f) q = ConvTranspose (n, w) }> }"""


def narrow(kind):
    number = str(getattr(TensorProto, kind.upper()))
    text = TEXT.replace("KIND[1] {2}", "float[1] {2}").replace("NUMBER", number)
    proto = model(text.replace("KIND", kind), opset=22, ir_version=10, w=array(3, 4, 3))
    # The text format has no bfloat16 values.
    for tensor in (proto.graph.initializer[0], proto.graph.node[0].attribute[0].t):
        values = numpy_helper.to_array(tensor).astype(NARROW[kind])
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return proto


def kinds(proto):
    """Every element type of tensors in the text of a model."""
    return set(re.findall(r"\b(float16|bfloat16|double|float)\[", onnx.printer.to_text(proto)))


@pytest.mark.parametrize("kind", NARROW)
def test_every_narrow_and_wide_float_becomes_float32(tmp_path, kind):
    proto = narrow(kind)
    before = proto.SerializeToString()
    assert other_floats(proto)
    twin = float32_twin(Source(proto, tmp_path)).proto
    assert not other_floats(twin)
    assert kinds(twin) == {"float"}
    assert proto.SerializeToString() == before, "the original stays as it was"
    casts = [n for n in twin.graph.node[-1].attribute[1].g.node if n.op_type == "Cast"]
    casts += [n for n in twin.graph.node[-1].attribute[0].g.node if n.op_type == "Cast"]
    assert [c.attribute[0].i for c in casts] == [TensorProto.FLOAT] * 2
    onnx.checker.check_model(twin, full_check=True)


@pytest.mark.parametrize("kind", NARROW)
def test_the_twin_runs_and_holds_the_same_weights(tmp_path, kind):
    proto = narrow(kind)
    twin = float32_twin(Source(proto, tmp_path)).proto
    before, after = (numpy_helper.to_array(p.graph.initializer[0]) for p in (proto, twin))
    assert after.dtype == np.float32
    np.testing.assert_array_equal(before.astype(np.float32), after)
    (y,) = run(twin, random_feeds(twin)).values()
    assert np.isfinite(y).all()


def test_a_float32_model_has_no_other_floats():
    assert not other_floats(
        model(TEXT.replace("KIND", "float").replace("NUMBER", "1"), w=array(3, 4, 3))
    )


def test_functions_are_searched(tmp_path):
    proto = with_function(
        "g (float[1,3,7] x) => (float[] y) { y = f.up (x) }",
        f"""up (x) => (y) {{ h = Cast <to=10> (x)
        v = Constant <value = float[3,4,3] {braces(array(3, 4, 3))}> () w = Cast <to=10> (v)
        z = ConvTranspose (h, w) y = Cast <to=1> (z) }}""",
    )
    assert other_floats(proto)
    twin = float32_twin(Source(proto, tmp_path)).proto
    assert not other_floats(twin)
    run(twin, random_feeds(twin))


def test_types_inside_of_sequences_are_found(tmp_path):
    proto = model("g (seq(float16[3]) s, int64 i) => (float16[3] y) { y = SequenceAt (s, i) }")
    assert other_floats(proto)
    assert not other_floats(float32_twin(Source(proto, tmp_path)).proto)


def test_external_weights_are_read_from_their_folder(tmp_path):
    weight = array(3, 4, 3).astype(np.float16)
    (tmp_path / "w.bin").write_bytes(weight.tobytes())
    proto = model("g (float16[1,3,7] x) => (float16[] y) { y = ConvTranspose (x, w) }")
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT16, dims=[3, 4, 3])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    twin = float32_twin(Source(proto, tmp_path)).proto
    found = numpy_helper.to_array(twin.graph.initializer[0])
    np.testing.assert_array_equal(found, weight.astype(np.float32))


def test_more_outputs_can_be_fetched_and_the_model_stays(tmp_path):
    proto = model("g (float[2] x) => (float[2] y) { h = Neg (x) y = Exp (h) }")
    before = proto.SerializeToString()
    values = Runner(Source(proto, tmp_path), ["h", "y", "h"]).run({"x": array(2)})
    assert sorted(values) == ["h", "y"]
    assert proto.SerializeToString() == before


def test_sequences_are_compared_element_by_element(tmp_path):
    proto = model(
        "g (float[2] x) => (seq(float[2]) y) { h = Neg (x) y = SequenceConstruct (x, h) }"
    )
    values = Runner(Source(proto, tmp_path)).run({"x": array(2)})
    np.testing.assert_array_equal(values["y[0]"], array(2))
    np.testing.assert_array_equal(values["y[1]"], -array(2))
