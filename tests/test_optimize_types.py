"""Opsets, element types, and quantised weights."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from .graph.building import array, model
from .verify.judging import assert_close, oracle, random_feeds, run

TARGETS = ("ort-cpu", "portable")
IR_VERSIONS = [(8, 3), (9, 4), (10, 5), (11, 6), (14, 7), (18, 8), (20, 9), (22, 10), (24, 11)]
IR_VERSIONS += [(26, 12)]
W = array(3, 4, 4, 4)
ONE = """g (float[N,3,H,W] x) => (float[A,B,C,D] y)
{ [a] y = ConvTranspose <strides=[2,2], pads=[1,1,1,1]> (x, w, b) }"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("opset", [*range(1, 27)])
def test_opsets(optimized, target, opset):
    # The first IR version that knows the opset.
    ir_version = next(v for o, v in IR_VERSIONS if opset <= o)
    proto = model(ONE, opset=opset, ir_version=ir_version, w=W, b=array(4))
    if ir_version < 4:
        for tensor in proto.graph.initializer:
            value = onnx.helper.make_tensor_value_info(tensor.name, 1, tensor.dims)
            proto.graph.input.append(value)
    found = optimized(proto, target)
    assert found.forms["a"] is not None
    assert target == "ort-cpu" or "ConvTranspose" not in found.ops
    for size in ((1, 3, 4, 5), (2, 3, 1, 7)):
        found.check({"x": array(*size)})


@pytest.mark.parametrize("opset", [7, 8, 9])
def test_constants_of_ir_3_hold_what_the_opset_allows(optimized, opset):
    """Initializers would be inputs there, and Constant holds floats alone before opset 9."""
    proto = model(ONE, opset=opset, ir_version=3, w=W, b=array(4))
    for tensor in proto.graph.initializer:
        value = onnx.helper.make_tensor_value_info(tensor.name, 1, tensor.dims)
        proto.graph.input.append(value)
    found = optimized(proto, "ort-cpu", forms={"all": "phases"})
    constants = [n for n in found.after.graph.node if n.op_type == "Constant"]
    assert len(constants) > 4
    held = {n.attribute[0].t.data_type for n in constants}
    assert (onnx.TensorProto.INT64 in held) == (opset >= 9)
    found.check({"x": array(2, 3, 4, 5)})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("opset", [1, 6, 11, 26])
def test_opsets_with_open_sizes_in_three_dimensions(optimized, target, opset):
    text = """g (float[N,2,D,H,W] x) => (float[A,B,C,E,F] y)
    { [a] y = ConvTranspose <strides=[2,1,3], pads=[1,0,0,0,1,1]> (x, w) }"""
    found = optimized(model(text, opset=opset, w=array(2, 3, 3, 2, 4)), target)
    found.check({"x": array(2, 2, 2, 3, 4)})


def half(nodes, kind, outputs="float[A,B,C] y", **arrays):
    """Computes in `kind` between Casts: u -> x, z -> y."""
    number = getattr(onnx.TensorProto, kind.upper())
    text = f"""g (float[N,3,L] u) => ({outputs}) <{kind}[N,3,L] x>
    {{ x = Cast <to={number}> (u) {nodes} y = Cast <to=1> (z) }}"""
    dtype = getattr(ml_dtypes, kind, None) or np.dtype(kind)
    typed = {name: a.astype(dtype) for name, a in arrays.items()}
    return model(text, opset=22, ir_version=10, **typed)


NODE = "[a] z = ConvTranspose <strides=[2], pads=[1,2]> (x, w, b)"
PARTS = {"w": array(3, 4, 5), "b": array(4)}


@pytest.mark.parametrize("target", TARGETS)
def test_float16(optimized, target):
    found = optimized(half(NODE, "float16", **PARTS), target)
    feeds = random_feeds(found.before)
    assert_close(run(found.after, feeds), oracle(found.before, feeds), 2**-9)
    assert found.result.verification.arithmetic == "float32 twin"
    types = {t.data_type for t in found.after.graph.initializer}
    assert onnx.TensorProto.FLOAT not in types


def test_float16_from_end_to_end(optimized):
    text = ONE.replace("float", "float16")
    found = optimized(
        model(text, **{k: v.astype(np.float16) for k, v in [("w", W), ("b", W[0, :, 0, 0])]})
    )
    feeds = {"x": array(1, 3, 4, 5).astype(np.float16)}
    assert_close(run(found.after, feeds), oracle(found.before, feeds), 2**-9)


def test_bfloat16_runs_where_the_runtime_has_no_kernel(optimized):
    proto = half(NODE, "bfloat16", **PARTS)
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
        run(proto, random_feeds(proto))
    found = optimized(proto, "ort-cpu")
    assert found.ops.count("Cast") == 4
    feeds = random_feeds(proto)
    assert_close(run(found.after, feeds), oracle(proto, feeds), 2**-7)


def test_bfloat16_nodes_that_share_a_weight(optimized):
    nodes = """[a] z = ConvTranspose <strides=[2]> (x, w) [b] t = ConvTranspose (x, w)
    s = Cast <to=1> (t)"""
    outputs = "float[A,B,C] y, float[D,E,F] s"
    found = optimized(half(nodes, "bfloat16", outputs, w=PARTS["w"]), "ort-cpu")
    weights = [t for t in found.after.graph.initializer if t.name != "shape"]
    assert sum(list(t.dims) == [3, 4, 5] for t in weights) <= 1
    feeds = random_feeds(found.before)
    assert_close(run(found.after, feeds), oracle(found.before, feeds), 2**-7)


@pytest.mark.parametrize("kind", ["bfloat16", "double"])
def test_portable_models_keep_their_element_type(optimized, kind):
    found = optimized(half(NODE, kind, **PARTS), "portable")
    types = {t.data_type for t in found.after.graph.initializer} - {onnx.TensorProto.INT64}
    assert types == {getattr(onnx.TensorProto, kind.upper())}
    assert found.ops.count("Cast") == 2
    assert found.result.verification.arithmetic == "float32 twin"


NARROW = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
BN = "y = BatchNormalization (u, scale, shift, mean, var)"
FOLDED = {
    "BatchNormalization": f"u = ConvTranspose <strides=[2,2]> (x, w) {BN}",
    "Mul": "u = ConvTranspose <strides=[2,2]> (x, w) y = Mul (u, c)",
    "weight_norm": """n = ReduceL2 <axes=[1,2,3]> (w) d = Div (w, n) v = Mul (d, gain)
        y = ConvTranspose <strides=[2,2]> (x, v)""",
    "five layers": " ".join(
        f"u{i} = ConvTranspose <pads=[1,1,1,1]> (h{i}, w)"
        f" n{i} = BatchNormalization (u{i}, scale, shift, mean, var) h{i + 1} = Relu (n{i})"
        for i in range(5)
    ).replace("h0", "x")
    + " y = Identity (h5)",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("name", FOLDED)
def test_narrow_weights_are_rounded_once_more_where_something_is_folded(
    optimized, name, kind, target
):
    parts = {
        n: abs(array(8, seed=i)) + 0.3 for i, n in enumerate(("scale", "shift", "mean", "var"))
    }
    parts |= {"w": array(8, 8, 3, 3) / 6, "c": array(8, 1, 1), "gain": abs(array(8, 1, 1, 1))}
    nodes = FOLDED[name]
    held = {n: a.astype(NARROW[kind]) for n, a in parts.items() if n in nodes}
    text = f"g ({kind}[N,8,H,W] x) => ({kind}[A,B,C,D] y) {{ {nodes} }}"
    opset = 22 if kind == "bfloat16" else 17
    if name == "weight_norm" and opset > 17:
        text, held["axes"] = text.replace(" <axes=[1,2,3]> (w)", " (w, axes)"), np.arange(1, 4)
    found = optimized(model(text, opset=opset, ir_version=10, **held), target)
    assert any("folded" in line for lines in found.result.changes.values() for line in lines)
    assert found.result.verification.ok


def test_double_is_left_alone_where_nothing_computes_it(optimized):
    found = optimized(half(NODE, "double", **PARTS), "ort-cpu")
    assert found.forms == {"a": None}
    assert found.reasons == {"a": "CT108"}


# Quantised weights.

AXES = {
    "tensor": (None, 1),
    "axis 0": (0, 1),
    "axis 1": (1, 1),
    "axis 0, grouped": (0, 2),
    "axis 1, grouped": (1, 2),
    "axis 0, depthwise": (0, 4),
    "axis 1, depthwise": (1, 4),
}
SPECS = {
    "phases": "strides=[2,2], pads=[1,1,1,1]",
    "odd kernel": "strides=[2,2], output_padding=[1,0]",
    "stride 1": "pads=[1,0,0,1]",
    "unequal": "strides=[3,2]",
}


def quantised(axis, group, attributes, kernel, zero_point, dtype=np.int8):
    info = np.iinfo(dtype)
    shape = (4, 8 // group if group < 4 else 1, *kernel)
    channels = 1 if axis is None else shape[axis]
    rng = np.random.default_rng(0)
    parts = {
        "q": rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype),
        "s": rng.uniform(0.01, 0.1, channels).astype(np.float32),
        "m": rng.integers(info.min // 4 + 1, info.max // 4, channels).astype(dtype),
        "b": array(shape[1] * group),
    }
    if axis is None:
        parts |= {"s": parts["s"][0], "m": parts["m"][0]}
    place = "" if axis is None else f"<axis={axis}>"
    text = f"""g (float[N,4,H,W] x) => (float[A,B,C,D] y) {{
      w = DequantizeLinear {place} (q, s{", m" if zero_point else ""})
      [a] y = ConvTranspose <group={group}, {attributes}> (x, w, b) }}"""
    if not zero_point:
        del parts["m"]
    return model(text, opset=21, ir_version=10, **{k: np.asarray(v) for k, v in parts.items()})


def assert_stays_quantised(found):
    """All of the weight's values are still integers, and no float tensor is as large."""
    before = next(t for t in found.before.graph.initializer if t.name == "q")
    size = int(np.prod(before.dims))
    floats = [t for t in found.after.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    assert all(np.prod(t.dims) < size for t in floats)
    integers = [t for t in found.after.graph.initializer if t.data_type == before.data_type]
    assert sum(int(np.prod(t.dims)) for t in integers) >= size
    assert "DequantizeLinear" in found.ops


@pytest.mark.parametrize("zero_point", [False, True])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", AXES)
def test_int8_weights_stay_quantised(optimized, name, spec, zero_point):
    axis, group = AXES[name]
    kernel = (4, 4) if spec == "phases" else (3, 3)
    found = optimized(quantised(axis, group, SPECS[spec], kernel, zero_point))
    assert "ConvTranspose" not in found.ops
    assert_stays_quantised(found)
    found.check({"x": array(2, 4, 3, 5)})


@pytest.mark.parametrize("form", ["phases", "phases-split", "overlap-add", "zero-insertion"])
@pytest.mark.parametrize("name", AXES)
def test_every_form_of_a_quantised_weight(optimized, name, form):
    axis, group = AXES[name]
    proto = quantised(axis, group, SPECS["phases"], (3, 3), True, np.uint8)
    found = optimized(proto, "ort-cpu", forms={"a": form})
    assert found.forms["a"] == form
    assert_stays_quantised(found)
    found.check({"x": array(1, 4, 3, 5)})


@pytest.mark.parametrize("target", TARGETS)
def test_a_model_that_quantises_inside(optimized, target):
    text = """g (float[N,3,H,W] x) => (float[A,B,C,D] y) {
      p = QuantizeLinear (x, s, z) h = DequantizeLinear (p, s, z)
      w = DequantizeLinear <axis=1> (q, r)
      [a] u = ConvTranspose <strides=[2,2], pads=[1,1,1,1]> (h, w)
      v = QuantizeLinear (u, t, z) y = DequantizeLinear (v, t, z) }"""
    parts = {
        "s": np.float32(0.02),
        "t": np.float32(0.05),
        "z": np.int8(3),
        "q": (40 * W).clip(-128, 127).astype(np.int8),
        "r": abs(array(4)) / 50 + np.float32(0.01),
    }
    proto = model(text, opset=21, ir_version=10, **{k: np.asarray(v) for k, v in parts.items()})
    found = optimized(proto, target)
    assert any("quantises inside" in n for n in found.result.verification.notes)
    assert found.ops.count("QuantizeLinear") >= 2
    # A last-bit difference may become one step of 0.05.
    feeds = {"x": array(1, 3, 5, 4)}
    wanted, got = oracle(proto, feeds)["y"], run(found.after, feeds)["y"]
    assert np.abs(wanted - got).max() <= 0.051
    assert np.mean(wanted != got) < 0.05


def test_a_quantised_bias(optimized):
    text = ONE.replace("[a]", "b = DequantizeLinear (i, s) [a]")
    i = np.array([10, -300, 5000, 7], np.int32)
    proto = model(text, opset=21, ir_version=10, w=W, i=i, s=np.asarray(np.float32(0.01)))
    found = optimized(proto)
    assert onnx.TensorProto.INT32 in {t.data_type for t in found.after.graph.initializer}
    found.check({"x": array(1, 3, 4, 5)})
