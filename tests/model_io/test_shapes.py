from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper, parser, shape_inference

from convt_onnx.errors import GeometryError
from convt_onnx.model_io import infer_shapes, load


def doubled(node, x, weight):
    """The output shape of a ConvTranspose with kernel 2 and stride 2."""
    if x is None:
        return None
    channels = None if weight is None else weight[1]
    return [x[0], channels, *(twice(size) for size in x[2:])]


def twice(size):
    if size is None:
        return None
    return 2 * size if isinstance(size, int) else f"2*({size})"


@pytest.fixture
def shapes(write):
    def infer(text, formula=doubled):
        return infer_shapes(load(write(text)), formula)

    return infer


WEIGHTS = (
    f"<float[3,6,2,2] w = {{{','.join('0' * 72)}}}, float[6,6,2,2] v = {{{','.join('0' * 144)}}}>"
)
UP = "ConvTranspose <strides=[2,2]>"


def test_static_sizes_need_no_formula(shapes):
    text = "g (float[1,3,8,9] x) => (y) " + WEIGHTS + "{ a = " + UP + "(x, w) y = Relu(a) }"
    found = shapes(text, lambda *_: pytest.fail("was asked"))
    assert found["a"] == found["y"] == (1, 6, 16, 18)
    assert found["w"] == (3, 6, 2, 2)


def test_dynamic_sizes_go_through_a_chain(shapes):
    text = f"""g (float[N,3,H,7] x) => (y) {WEIGHTS}
    {{ a = {UP}(x, w) b = Relu(a) c = {UP}(b, v) y = Sigmoid(c) }}"""
    found = shapes(text)
    assert found["x"] == ("N", 3, "H", 7)
    assert found["a"] == found["b"] == ("N", 6, "2*(H)", 14)
    assert found["c"] == found["y"] == ("N", 6, "2*(2*(H))", 28)


def test_no_fresh_names_without_a_formula(shapes):
    text = f"g (float[N,3,H,W] x) => (y) {WEIGHTS} {{ a = {UP}(x, w) y = Relu(a) }}"
    assert shapes(text, None)["y"] == ("N", 6, None, None)


def test_unknown_sizes_stay_unknown(shapes):
    text = f"g (float[N,3,?,W] x) => (y) {WEIGHTS} {{ y = {UP}(x, w) }}"
    assert shapes(text)["y"] == ("N", 6, None, "2*(W)")


def test_numbers_found_late_reach_later_nodes(shapes):
    # onnx leaves the whole shape open, as the weight has none; the formula knows it.
    text = f"""g (float[1,3,4,4] x, float[?,?,?,?] r) => (y) {WEIGHTS}
    {{ w2 = Identity(r) a = {UP}(x, w2) b = Conv(a, v) c = {UP}(b, w2) y = Relu(c) }}"""
    found = shapes(text, lambda node, x, w: x and (x[0], 6, *(2 * n for n in x[2:])))
    assert found["a"] == (1, 6, 8, 8)
    assert found["b"] == (1, 6, 7, 7)
    assert found["y"] == (1, 6, 14, 14)


def test_weights_without_any_shape(shapes):
    text = f"g (float[1,3,4,4] x, float[] r) => (y) {{ a = {UP}(x, r) y = Relu(a) }}"
    asked = []

    def formula(node, x, weight):
        asked.append(weight)
        return (1, 5, 8, "S")

    assert shapes(text, formula)["y"] == (1, 5, 8, "S")
    assert set(asked) == {None}


def test_declared_outputs_of_nodes_that_onnx_cannot_infer(shapes):
    text = f"""g (float[N,3,4,4] x, float[] r) => (y) <float[N,?,?,?] a>
    {{ a = {UP}(x, r) y = Relu(a) }}"""
    assert shapes(text, lambda *_: ("M", 5, 8, "S"))["y"] == ("N", 5, 8, "S")


def test_subgraphs(shapes):
    text = f"""g (float[N,3,H,W] x, bool c) => (z) {WEIGHTS} {{
      y = If (c) <then_branch = th () => (t) {{ a = {UP}(x, w) t = Relu(a) }},
                  else_branch = el () => (e) {{ b = {UP}(x, w) e = Relu(b) }}>
      z = Relu(y) }}"""
    found = shapes(text)
    assert found["a"] == found["t"] == found["e"] == ("N", 6, "2*(H)", "2*(W)")
    assert found["z"] == found["t"]


def test_names_of_several_graphs_are_left_out(shapes):
    text = f"""g (float[N,3,H,W] x, bool c) => (y) {WEIGHTS} {{
      y = If (c) <then_branch = th () => (t) {{ t = {UP}(x, w) }},
                  else_branch = el () => (t) {{ t = Relu(x) }}> }}"""
    assert shapes(text).keys() == {"x", "c", "w", "v", "y"}


def test_declared_sizes_are_kept(shapes):
    text = f"""g (float[N,3,H,W] x) => (float[N,6,Ho,?] y) {WEIGHTS} {{ y = {UP}(x, w) }}"""
    assert shapes(text)["y"] == ("N", 6, "Ho", "2*(W)")


def test_negative_sizes_are_unknown(shapes):
    assert shapes("g (float[-1,3] x) => (y) { y = Relu(x) }")["x"] == (None, 3)


def test_a_formula_that_fails(shapes):
    def formula(*arguments):
        raise GeometryError("no", help="none")

    text = f"g (float[N,3,H,W] x) => (y) {WEIGHTS} {{ y = {UP}(x, w) }}"
    assert shapes(text, formula)["y"] == ("N", 6, None, None)


def test_a_formula_that_answers_another_rank(shapes):
    text = f"g (float[N,3,H,W] x) => (y) {WEIGHTS} {{ y = {UP}(x, w) }}"
    assert shapes(text, lambda *_: (1, 2))["y"] == ("N", 6, None, None)


def test_a_formula_that_never_agrees_with_itself(shapes):
    text = f"g (float[1,3,4,4] x, float[] r) => (y) {{ y = {UP}(x, r) }}"
    answers = iter(range(1000))
    assert len(shapes(text, lambda *_: (next(answers), None, 8, 8))["y"]) == 4


@pytest.mark.parametrize("error", [RuntimeError("no"), shape_inference.InferenceError("no")])
def test_it_never_fails(shapes, monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(shape_inference, "infer_shapes", fail)
    assert shapes("g (float[N,3] x) => (float[N,?] y) { y = Relu(x) }") == {
        "x": ("N", 3),
        "y": ("N", None),
    }


def test_nodes_that_onnx_refuses(shapes):
    found = shapes("g (float[2,3] x, float[5,7] z) => (y) { a = Relu(x) y = MatMul(a, z) }")
    assert found["x"] == (2, 3)


def test_external_shape_tensors_are_read(proto, write, external):
    write(np.array([11, -1], np.int64).tobytes(), "s.bin")
    tensor = external("s", [2], location="s.bin")
    tensor.data_type = 7
    proto.graph.initializer.append(tensor)
    proto.graph.node.add(op_type="Reshape", input=["y", "s"], output=["r"])
    path = write(proto)
    loaded = load(path)
    assert infer_shapes(loaded)["r"] == (11, 3)
    (path.parent / "s.bin").unlink()
    assert infer_shapes(loaded)["x"] == (1, 2, 5)


def test_large_tensors_are_left_out_and_keep_their_shape(proto, write):
    large = np.zeros((11, 1000), np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(large, "m"))
    constant = proto.graph.node.add(op_type="Constant", output=["k"])
    constant.attribute.add(name="value", type=4, t=numpy_helper.from_array(large[:, :500]))
    proto.graph.node.add(op_type="MatMul", input=["y", "m"], output=["r"])
    proto.graph.node.add(op_type="MatMul", input=["y", "k"], output=["q"])
    found = infer_shapes(load(write(proto)))
    assert found["r"] == (1, 3, 1000)
    assert found["q"] == (1, 3, 500)
    assert found["m"] == (11, 1000)


def test_functions(write):
    text = """<ir_version: 9, opset_import: ["" : 17, "f" : 1]>
    g (float[1,3] x) => (z) { y = f.neg(x) z = Relu(y) }
    <domain: "f", opset_import: ["" : 17]> neg (a) => (b)
    { k = Constant <value = float[1] {1}> () t = Mul(a, k) b = Neg(t) }"""
    assert infer_shapes(load(write(parser.parse_model(text))))["z"] == (1, 3)
