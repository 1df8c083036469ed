from __future__ import annotations

import onnx_ir as ir
import pytest

from convt_onnx.errors import VerificationError
from convt_onnx.graph.check import require_well_formed
from convt_onnx.graph.cleanup import remove_unused

from .building import array, model

TEXT = """g (float[3] x, float[3] i) => (float[3] y, float[3] out, float[3] o) {
  a = Neg (u) b, c = Split <num_outputs=2> (a) d = Concat <axis=0> (b, v)
  out = Abs (u) idle = Exp (v) y = Relu (x) }"""


def cleaned(*names, text=TEXT):
    graph = ir.from_proto(model(text, opset=18, u=array(3), v=array(3), w=array(2), o=array(3)))
    values = {v.name: v for n in graph.graph for v in n.outputs}
    values |= dict(graph.graph.initializers) | {v.name: v for v in graph.graph.inputs}
    remove_unused([values[n] for n in names])
    return [n.op_type for n in graph.graph], set(graph.graph.initializers)


def test_a_value_and_what_only_it_reads():
    nodes, initializers = cleaned("d")
    assert nodes == ["Abs", "Exp", "Relu"]
    assert initializers == {"u", "v", "w", "o"}


def test_an_initializer():
    assert cleaned("w")[1] == {"u", "v", "o"}


@pytest.mark.parametrize("name", ["a", "b", "u", "v", "x", "i", "out", "y", "o"])
def test_what_is_read_or_given_out_stays(name):
    assert cleaned(name) == cleaned()


def test_a_node_stays_while_another_of_its_outputs_is_read():
    text = TEXT.replace("(b, v)", "(c, v)")
    assert cleaned("b", text=text) == cleaned(text=text)


def test_the_interface_must_stay():
    before = model("g (float[3] x) => (float[3] y) { y = Relu (x) }")
    after = model("g (float[3] z) => (float[3] y) { y = Relu (z) }")
    with pytest.raises(VerificationError, match="other inputs or outputs"):
        require_well_formed(before, after)


def test_a_model_that_was_well_formed_must_stay_so():
    before = model("g (float[3] x) => (float[3] y) { y = Relu (x) }")
    after = model("g (float[3] x) => (float[3] y) { y = Relu (z) }")
    with pytest.raises(VerificationError, match="not well formed"):
        require_well_formed(before, after)
    require_well_formed(after, after)
