"""Finding and reading nodes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from convt_onnx.errors import GeometryError
from convt_onnx.graph.node import ConvTransposeNode, UnreadNode, find_nodes, read_node
from convt_onnx.graph.operands import ConstantOperand, QuantisedOperand, RuntimeOperand

from .building import array, as_inputs, braces, model, with_function

W = array(3, 4, 5)
ONE = "g (float[1,3,7] x) => (float[] y) { [a] y = ConvTranspose <strides=[2]> (x, w) }"


def found(proto):
    return list(find_nodes(ir.from_proto(proto)))


def read(proto, shapes=None):
    graph = ir.from_proto(proto)
    (node,) = find_nodes(graph)
    return read_node(node.node, node.path, graph.ir_version, shapes or {})


def test_every_graph_is_searched_and_paths_are_unique():
    body = f"""up (a) => (p) {{ w = Constant <value = float[3,4,5] {braces(W)}> ()
    k = Constant <value = bool {{1}}> () u = ConvTranspose (a, w)
    p = If (k) <then_branch = t () => (q) {{ q = ConvTranspose (a, w) }},
                else_branch = e () => (r) {{ r = Identity (u) }}> }}"""
    main = """g (float[1,3,7] x, bool c) => (float[] y) {
      [n] y0 = ConvTranspose (x, w) [n] y1 = ConvTranspose (x, w)
      y = If (c) <then_branch = t () => (float[] s) { [n] s = ConvTranspose (x, w) },
                  else_branch = e () => (float[] z) { z = f.up (x) }> }"""
    nodes = found(with_function(main, body, function_opset=16, w=W))
    assert [n.path for n in nodes] == [
        "n",
        "n#2",
        "n#3",
        "f:up/ConvTranspose->u",
        "f:up/ConvTranspose->q",
    ]
    assert [n.opset for n in nodes] == [17, 17, 17, 16, 16]
    assert [n.in_function for n in nodes] == [False, False, False, True, True]
    assert [n.function_body for n in nodes] == [False, False, False, True, False]


def test_a_name_that_looks_like_ours():
    text = """g (float[1,3,7] x) => (float[] y, float[] z, float[] u) {
      [n] y = ConvTranspose (x, w) [n] z = ConvTranspose (x, w) [m] u = ConvTranspose (x, w) }"""
    proto = model(text, w=W)
    proto.graph.node[2].name = "n#2"
    paths = [n.path for n in found(proto)]
    assert paths[:2] == ["n", "n#2"]
    assert len(set(paths)) == 3


def test_shapes_of_the_main_graph_are_not_seen_in_a_function():
    body = f"""up (x) => (y) {{ w = Constant <value = float[3,4,5] {braces(W)}> ()
    y = ConvTranspose (x, w) }}"""
    main = "g (float[1,9,9] x, float[1,3,7] h) => (float[] y) { y = f.up (h) }"
    (node,) = found(with_function(main, body))
    assert node.visible({"x": (1, 9, 9)}) == {}


def test_a_node():
    node = read(model(ONE, w=W))
    assert isinstance(node, ConvTransposeNode)
    assert isinstance(node.weight, ConstantOperand)
    assert (node.path, node.x_name, node.output_name) == ("a", "x", "y")
    assert (node.batch, node.sizes, node.dtype) == (1, (7,), ir.DataType.FLOAT)
    assert node.spec.strides == (2,)


def test_inferred_shapes_fill_what_the_value_leaves_open():
    node = read(model(ONE.replace("1,3,7", "N,3,L"), w=W), {"x": ("N", 3, 9)})
    assert (node.batch, node.sizes) == (None, (9,))


def test_an_inferred_shape_of_another_rank_is_not_believed():
    node = read(model(ONE, w=W), {"x": (5, 5)})
    assert (node.batch, node.sizes) == (1, (7,))


def test_overridable_weights_are_known_at_run_time_only():
    node = read(as_inputs(model(ONE, w=W), "w"))
    assert isinstance(node.weight, RuntimeOperand)
    assert node.weight.overridable
    node = read(as_inputs(model(ONE, opset=8, ir_version=3, w=W), "w"))
    assert isinstance(node.weight, ConstantOperand)


@pytest.mark.parametrize(
    ("call", "scale", "axis"),
    [
        ("<axis=0> (q, s)", array(3), 0),
        ("<axis=-2> (q, s)", array(4), 1),
        ("(q, s)", array(4), 1),
        ("(q, s)", np.float32(1), None),
        ("<axis=0> (q, s)", array(1), None),
    ],
)
def test_a_quantised_weight(call, scale, axis):
    text = ONE.replace("[a]", f"w = DequantizeLinear {call} [a]")
    node = read(model(text, q=W.astype(np.int8), s=np.asarray(abs(scale))))
    assert isinstance(node.weight, QuantisedOperand)
    assert node.weight.axis == axis
    assert node.weight.shape == (3, 4, 5)


def test_a_scale_that_is_not_constant_is_not_a_quantised_weight():
    text = ONE.replace("[a]", "w = DequantizeLinear (q, s) [a]").replace("x)", "x, float s)", 1)
    assert isinstance(read(model(text, q=W.astype(np.int8))), UnreadNode)


@pytest.mark.parametrize(
    ("call", "integers", "scale", "zero"),
    [
        ("<axis=0>", W, 4, 4),
        ("<axis=3>", W, 3, 3),
        ("<axis=-4>", W, 5, 5),
        ("<axis=1>", W, 4, 3),
        ("", W, None, 4),
        ("", np.zeros(()), 4, 4),
    ],
)
def test_scales_that_fit_no_axis_are_not_a_quantised_weight(call, integers, scale, zero):
    text = ONE.replace("[a]", f"w = DequantizeLinear {call} (q, s, z) [a]")
    parts = {
        "q": integers.astype(np.int8),
        "s": np.float32(1) if scale is None else array(scale),
        "z": np.zeros(zero, np.int8),
    }
    assert isinstance(read(model(text, **{n: np.asarray(a) for n, a in parts.items()})), UnreadNode)


@pytest.mark.parametrize("name", ["x", "w", "b"])
def test_other_types_than_floats_are_refused(name):
    proto = model(ONE.replace("(x, w)", "(x, w, b)"), w=W, b=array(4))
    if name == "x":
        proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    for tensor in proto.graph.initializer:
        if tensor.name == name:
            values = onnx.numpy_helper.to_array(tensor).astype(np.int64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, name))
    with pytest.raises(GeometryError, match="computes floats") as caught:
        read(proto)
    assert f"node 'a', {name!r} is of type INT" in caught.value.where


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ONE.replace("(x, w)", "(x)"), "needs an input and a weight"),
        (ONE.replace("(x, w)", "(x, )"), "needs an input and a weight"),
        (ONE.replace("strides=[2]", "strides=2"), "strides must be of type INTS"),
        (ONE.replace("strides=[2]", "group=[1]"), "group must be of type INT"),
        (ONE.replace("strides=[2]", "auto_pad=1"), "auto_pad must be of type STRING"),
        (ONE.replace("strides=[2]", 'auto_pad="SAME"'), "auto_pad has an unknown value"),
        (ONE.replace("1,3,7", "1,2,7"), "channels differ"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_the_node(text, words):
    with pytest.raises(GeometryError, match=words) as caught:
        read(model(text, w=W))
    assert "node 'a'" in caught.value.where


@pytest.mark.parametrize(
    ("shape", "stride"),
    [("1,3,9223372036854775807", 2), ("1,3,7", 2**62), ("562949953421312,3,1", 2)],
)
def test_tensors_that_nothing_can_hold_are_refused(shape, stride):
    node = f"[up] y = ConvTranspose <strides=[{stride}]> (x, w)"
    text = f"g (float[{shape}] x) => (float[] y) {{ {node} }}"
    with pytest.raises(GeometryError, match="too large for any runtime") as caught:
        read(model(text, w=W))
    assert "'up'" in caught.value.where
    assert str(stride) in caught.value.where


@pytest.mark.parametrize("sizes", ["0,4,3", "4,0,3", "4,3,0"])
def test_empty_inputs_over_three_axes_are_refused(sizes):
    text = f"g (float[1,3,{sizes}] x) => (float[] y) {{ [up] y = ConvTranspose (x, w) }}"
    with pytest.raises(GeometryError, match="the input is empty") as caught:
        read(model(text, w=array(3, 4, 3, 3, 3)))
    assert "'up'" in caught.value.where


def test_other_empty_inputs_are_read():
    text = "g (float[{}] x) => (float[] y) {{ y = ConvTranspose (x, w) }}"
    for shape, kernel in (("1,3,0", (3,)), ("1,3,4,0", (3, 3)), ("0,3,4,4,4", (3, 3, 3))):
        node = read(model(text.format(shape), w=array(3, 4, *kernel)))
        assert isinstance(node, ConvTransposeNode)


def test_kernels_that_nothing_can_hold_are_refused():
    text = ONE.replace("(float[1,3,7] x)", f"(float[1,3,7] x, float[3,4,{2**40}] w)")
    with pytest.raises(GeometryError, match="kernel is too large for any runtime") as caught:
        read(model(text))
    assert "node 'a'" in caught.value.where
