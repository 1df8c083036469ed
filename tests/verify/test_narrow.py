from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from convt_onnx.verify.narrow import round_constants

from ..graph.building import array, model


def constants(proto, folder):
    round_constants(proto, folder)
    return {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}


def test_a_cast_constant_is_rounded(tmp_path):
    text = "g (bfloat16[3] x) => (bfloat16[3] y) { n = Cast <to=16> (c) y = Add (x, n) }"
    c = array(3)
    proto = model(text, opset=22, c=c)
    rounded = constants(proto, tmp_path)["n"]
    assert rounded.dtype == ml_dtypes.bfloat16
    assert np.array_equal(rounded, c.astype(ml_dtypes.bfloat16))
    assert not np.array_equal(rounded.astype(np.float32), c)
    assert [n.op_type for n in proto.graph.node] == ["Add"]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_dequantised_constants_are_rounded_as_onnxruntime_does(tmp_path, axis):
    import onnxruntime as ort

    count = () if axis is None else ((4, 3)[axis],)
    q = np.random.default_rng(0).integers(-128, 128, (4, 3)).astype(np.int8)
    s = np.linspace(0.011, 0.017, int(np.prod(count)), dtype=np.float16).reshape(count)
    z = np.full(count, 5, np.int8)
    attributes = "" if axis is None else f"<axis={axis}>"
    text = f"""g (float16[4,3] x) => (float16[4,3] y)
    {{ n = DequantizeLinear {attributes} (q, s, z) y = Add (x, n) }}"""
    proto = model(text, opset=19, q=q, s=s, z=z)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": np.zeros((4, 3), np.float16)})
    assert np.array_equal(constants(proto, tmp_path)["n"], wanted)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[3] x) => (float[3] y) { n = Cast <to=1> (c) y = Add (x, n) }",
        "g (float[3] c0) => (float16[3] y) { y = Cast <to=10> (c0) }",
        "g (float[3] x) => (float16[3] n) { n = Cast <to=10> (c) }",
    ],
    ids=["not narrow", "not constant", "a graph output"],
)
def test_others_stay(tmp_path, text):
    proto = model(text, c=array(3))
    before = onnx.ModelProto.FromString(proto.SerializeToString())
    round_constants(proto, tmp_path)
    assert proto == before
