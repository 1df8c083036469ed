from __future__ import annotations

import onnxruntime as ort
import pytest
from onnx import helper, parser

from convt_onnx.model_io import load

RELU = "g (float[1] x) => (float[1] y) "
BRANCH = "g (float[1] x, bool c) => (float[1] y) "


def session(path):
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def branches(then: str, other: str = "el () => (float[1] e) { e = Relu(x) }") -> str:
    return f"y = If (c) <then_branch = {then}, else_branch = {other}>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RELU + "{ b = Relu(a) a = Relu(b) y = Relu(b) }", "cycle"),
        (RELU + "{ y = Relu(x) y = Relu(x) }", "'y' is defined more than once"),
        (RELU + "{ a, a = Split(x) y = Relu(a) }", "'a' is defined more than once"),
        (RELU + "{ x = Relu(x) y = Relu(x) }", "'x' is defined more than once"),
        ("g (float[1] x) => (y) <float[1] w = {1}> { w = Relu(x) y = Relu(w) }", "'w'"),
        ("g (float[1] x, float[1] x) => (y) { y = Relu(x) }", "'x'"),
        (RELU + "{ y = Add(x, q) }", "'q', which nothing defines"),
        ("g (float[1] x) => (y, q) { y = Relu(x) }", "'q' is produced by no node"),
        (BRANCH + "{ " + branches("th () => (float[1] t) { t = Relu(q) }") + "}", "'q'"),
        (BRANCH + "{ " + branches("th () => (float[1] t) { t = Relu(e) }") + "}", "'e'"),
        (BRANCH + "{ " + branches("th () => (float[1] x) { x = Relu(c) }") + "}", "'x'"),
        (
            BRANCH + "{ a = Relu(x) " + branches("th () => (float[1] a) { a = Relu(x) }") + "}",
            "'a' is defined more than once",
        ),
        (
            BRANCH + "{ a = Relu(x) " + branches("th () => (float[1] a) { }") + "}",
            "'a' is produced by no node",
        ),
        (
            BRANCH + "{ " + branches("th () => (float[1] t) { t = Relu(a) a = Relu(x) }") + "}",
            "not in execution order",
        ),
    ],
)
def test_refused_names(text, words, write, check_refused):
    path = write(text)
    check_refused(path, words)
    with pytest.raises(Exception, match=r"ONNXRuntimeError|."):
        session(path)


@pytest.mark.parametrize(
    "text",
    [
        BRANCH + "{ " + branches("th () => (float[1] e) { e = Relu(x) }") + "}",
        BRANCH + "{ " + branches("th () => (float[1] y) { y = Relu(x) }") + "}",
        "g (float[1] x, float[1] w) => (float[1] y) <float[1] w = {1}> { y = Add(x, w) }",
        "g (float[1] x, bool c) => (float[1] y) <float[1] w = {1}> { "
        + branches("th () => (float[1] t) <float[1] w = {2}> { t = Add(x, w) }")
        + "}",
        """g (float[1] x, int64 n, bool c) => (float[1] y)
        { y = Loop (n, c, x) <body = b (int64 i, bool k, float[1] x) => (bool k, float[1] o)
          { o = Relu(x) }> }""",
        "g (float[1] x) => (float[1] y, float[1] x) { y = Relu(x) }",
        "g (float[-1] x) => (float[M] y) { y = Relu(x) }",
        "g (float[1] x) => (float[1] y) { y = Dropout(x) }",
        "g (float[1] x) => (float[1] y) { y = Clip(x, , ) }",
    ],
)
def test_accepted_names(text, write):
    path = write(text)
    assert load(path).model.graph.outputs
    session(path)


def test_same_node_names_are_legal(proto, write):
    for node in proto.graph.node:
        node.name = "same"
    assert len(load(write(proto)).model.graph) == 2


def test_unsorted_nodes_are_sorted(write):
    path = write(BRANCH + "{ z = Neg(b) b = Relu(a) a = Relu(x) y = Add(z, b) }")
    session(path)
    names = [node.outputs[0].name for node in load(path).model.graph]
    assert names == ["a", "b", "z", "y"]


def test_unsorted_nodes_are_sorted_by_what_their_subgraphs_read(write):
    path = write(BRANCH + "{" + branches("th () => (float[1] t) { t = Relu(a) }") + "a = Neg(x) }")
    session(path)
    assert [node.op_type for node in load(path).model.graph] == ["Neg", "If"]


def test_duplicate_initializers(proto, write, check_refused):
    proto.graph.initializer.add().CopyFrom(proto.graph.initializer[0])
    check_refused(write(proto), "'w' is defined more than once", "initializers")


@pytest.mark.parametrize("kind", ["input", "initializer"])
def test_nameless_entries(proto, write, check_refused, kind):
    getattr(proto.graph, kind)[0].name = ""
    check_refused(write(proto), "no name")


def test_names_that_are_not_text(proto, write, check_refused):
    content = proto.SerializeToString().replace(b"\x12\x01a", b"\x12\x01\xff")
    check_refused(write(content), "not UTF-8")


FUNCTION = '<domain: "f", opset_import: ["" : 17, "f" : 1]> {name} (a) => (b) {{ {body} }}'


def with_functions(*functions: tuple[str, str]):
    text = '<ir_version: 10, opset_import: ["" : 17, "f" : 1]>\n' + RELU + "{ y = f.one(x) }"
    model = parser.parse_model(text)
    for name, body in functions:
        model.functions.append(parser.parse_function(FUNCTION.format(name=name, body=body)))
    return model


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ([("one", "b = f.one(a)")], "f::one -> f::one"),
        ([("one", "b = f.two(a)"), ("two", "b = f.one(a)")], "calls itself"),
        ([("one", "b = Relu(a)"), ("one", "b = Neg(a)")], "twice"),
        ([("one", "b = Relu(q)")], "'q', which nothing defines"),
        ([("one", "t = Relu(a)")], "'b' is produced by no node"),
        ([("one", "b = Relu(t) t = Neg(a)")], "not in execution order"),
        ([("one", "b = Relu(a) b = Neg(a)")], "more than once"),
    ],
)
def test_refused_functions(functions, words, write, check_refused):
    check_refused(write(with_functions(*functions)), words)


def test_functions_may_call_each_other(write):
    path = write(with_functions(("one", "b = f.two(a)"), ("two", "b = Relu(a)")))
    assert len(load(path).model.functions) == 2
    session(path)


def test_overloads_are_distinct(write):
    model = with_functions(("one", "b = Relu(a)"), ("one", "b = Neg(a)"))
    model.functions[1].overload = "other"
    assert len(load(write(model)).model.functions) == 2


def test_sparse_initializer(proto, write, check_refused):
    proto.graph.sparse_initializer.add().values.name = "s"
    check_refused(write(proto), "sparse_initializer")


def test_training_info(proto, write, check_refused):
    proto.training_info.add()
    check_refused(write(proto), "training_info")


def test_sparse_constant(proto, write, check_refused):
    node = proto.graph.node.add(op_type="Constant", output=["s"])
    attribute = node.attribute.add(name="sparse_value")
    attribute.type = attribute.SPARSE_TENSOR
    check_refused(write(proto), "sparse tensor", "sparse_value")


def test_map_type(proto, write, check_refused):
    value = proto.graph.output[0]
    value.type.map_type.key_type = 1
    check_refused(write(proto), "map_type")


def test_sequence_of_nothing(proto, write, check_refused):
    proto.graph.value_info.add(name="a").type.sequence_type.SetInParent()
    check_refused(write(proto), "sequence_type")


def test_attributes(proto, write, check_refused):
    node = proto.graph.node[0]
    node.attribute.add().CopyFrom(node.attribute[0])
    check_refused(write(proto), "'strides' twice")
    node.attribute.pop()
    node.attribute[0].ClearField("type")
    check_refused(write(proto), "no known type")


def test_node_without_operator(proto, write, check_refused):
    proto.graph.node[1].op_type = ""
    check_refused(write(proto), "no operator type")


def test_two_versions_of_one_operator_set(proto, write, check_refused):
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    check_refused(write(proto), "two versions")
