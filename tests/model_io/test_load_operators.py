"""Nodes that are not what their operators take."""

from __future__ import annotations

import onnx
import pytest

from convt_onnx.model_io import load

HEAD = "g (float[1,1,5] x, bool c) => (y) <float[1,2,3] w = {0,1,2,3,4,5}> "


def session(path):
    ort = pytest.importorskip("onnxruntime")
    ort.set_default_logger_severity(4)
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("y = ConvTranspose (x)", "has 1 inputs where its operator takes 2 to 3"),
        ("y = ConvTranspose (x, , w)", "lacks input 1"),
        ("y = ConvTranspose (x, w, w, w)", "4 inputs"),
        ("y, z = ConvTranspose (x, w)", "2 outputs where its operator takes 1"),
        ("y = ConvTranspose <auto_pad=1> (x, w)", "auto_pad must be of type STRING"),
        ('y = ConvTranspose <pads=["a"]> (x, w)', "pads must be of type INTS"),
        ("y = ConvTranspose <group=1.0> (x, w)", "group must be of type INT"),
        ("a = ConvTranspose (x, w) y = Transpose <perm=1> (a)", "perm must be of type INTS"),
        ("a = ConvTranspose (x, w) y = Mul (a)", "1 inputs where its operator takes 2"),
        ("a = ConvTranspose (x, w) y = Mul (, a)", "lacks input 0"),
        ("y = Concat <axis=0> ()", "0 inputs where its operator takes 1 or more"),
        ("y = Cast (x)", "lacks the attribute 'to'"),
        ("y = If (c) <then_branch = t () => (a) { a = Relu (x) }>", "lacks the attribute 'else_br"),
        ("y = Constant ()", "0 attributes"),
        (
            "y = If (c) <then_branch = t () => (a) { a = Relu (x) },"
            "else_branch = e () => (b) { b = Relu (x, x) }>",
            "2 inputs",
        ),
    ],
)
def test_nodes_that_onnx_runtime_refuses(body, words, write, check_refused):
    path = write(f"{HEAD} {{ {body} }}")
    check_refused(path, words)
    with pytest.raises(Exception, match=r"ONNXRuntimeError"):
        session(path)


def test_a_constant_of_two_values(write, check_refused):
    path = write(HEAD + "{ y = Constant <value_int=1, value_float=1.0> () }")
    check_refused(path, "2 attributes where it has one")


@pytest.mark.parametrize(
    "body",
    [
        "y = ConvTranspose (x, w, )",
        "a = Clip (x, , ) y = Relu (a)",
        "a, = Dropout (x) y = Relu (a)",
        "y = Crop <border=[0, 0, 0, 0]> (x)",
        "y = own.ConvTranspose <auto_pad=1> ()",
    ],
)
def test_what_operators_leave_open(body, write):
    assert load(write(f"{HEAD} {{ {body} }}")).model.graph.outputs


@pytest.mark.parametrize(
    ("op_type", "domain", "inputs", "attributes"),
    [
        ("Crop", "", [], {}),
        ("Crop", "", ["x"], {"border": 1}),
        ("ImageScaler", "", ["x"], {"bias": 1.0}),
        ("DequantizeLinear", "com.microsoft", ["x"], {}),
    ],
)
def test_operators_without_a_schema(
    op_type, domain, inputs, attributes, proto, write, check_refused
):
    node = onnx.helper.make_node(op_type, inputs, ["z"], domain=domain, **attributes)
    proto.graph.node.append(node)
    check_refused(write(proto), op_type)


def test_a_model_s_own_function_of_a_standard_name(proto, write):
    relu = onnx.helper.make_node("Relu", ["x"], ["o"])
    opset = onnx.helper.make_opsetid("", 17)
    function = onnx.helper.make_function("", "Add", ["x"], ["o"], [relu], [opset])
    proto.functions.append(function)
    proto.graph.node.append(onnx.helper.make_node("Add", ["x"], ["z"]))
    assert load(write(proto)).model.functions


def test_functions_count_by_their_own_operator_set(proto, write, check_refused):
    # Until opset 12 Squeeze had its axes as an attribute.
    node = onnx.helper.make_node("Squeeze", ["x", "axes"], ["o"])
    opset = onnx.helper.make_opsetid("", 13)
    function = onnx.helper.make_function("f", "f", ["x", "axes"], ["o"], [node], [opset])
    proto.functions.append(function)
    assert load(write(proto))
    proto.functions[0].opset_import[0].version = 12
    check_refused(write(proto), "2 inputs where its operator takes 1")
