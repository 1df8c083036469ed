from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.passes.fold_neighbours import FoldNeighbours

from ..graph.building import array, as_inputs, model, op_types
from ..verify.judging import assert_same
from .neighbours import BN, behind, misses, quantised


@pytest.mark.parametrize("shape", [(6,), (1, 6), (1, 1, 6), (6, 1), (1, 1, 1, 1, 1), (2, 1, 1, 1)])
@pytest.mark.parametrize("op", ["Mul", "Add", "Sub", "Div"])
def test_not_along_another_axis(apply, op, shape):
    """The output is [1, 6, 6, 6]: a length alone says nothing about the axis."""
    text = f"""g (float[1,4,5,5] x) => (float[] y) {{
      [ct] h = ConvTranspose (x, w) y = {op} (h, c) }}"""
    applied = apply(model(text, w=array(4, 6, 2, 2), c=array(*shape)), FoldNeighbours)
    assert applied.changes == ()
    assert misses(applied) == ["CT448"]


def test_not_where_one_channel_becomes_several(apply):
    text = """g (float[1,4,5] x) => (float[] y) {
      [ct] h = ConvTranspose (x, w) y = Mul (h, c) }"""
    applied = apply(model(text, w=array(4, 1, 2), c=array(3, 1)), FoldNeighbours)
    assert misses(applied) == ["CT448"]


def test_not_with_two_readers(apply):
    text = """g (float[1,4,5] x) => (float[] y, float[] z) {
      [ct] h = ConvTranspose (x, w) y = Mul (h, c) z = Neg (h) }"""
    applied = apply(model(text, w=array(4, 6, 2), c=array(6, 1)), FoldNeighbours)
    assert applied.changes == ()
    assert misses(applied) == ["CT441"]


def test_not_into_a_branch(apply):
    text = """g (float[1,4,5] x, bool c) => (float[] y) {
      [ct] h = ConvTranspose (x, w)
      y = If (c) <then_branch = t () => (float[] p) { p = Mul (h, k) },
                  else_branch = e () => (float[] q) { q = Neg (x) }> }"""
    applied = apply(model(text, w=array(4, 6, 2), k=array(6, 1)), FoldNeighbours)
    assert applied.changes == ()
    assert misses(applied) == ["CT441"]


def test_not_where_the_output_is_the_graphs(apply):
    text = """g (float[1,4,5] x) => (float[] y, float[] h) {
      [ct] h = ConvTranspose (x, w) y = Mul (h, c) }"""
    applied = apply(model(text, w=array(4, 6, 2), c=array(6, 1)), FoldNeighbours)
    assert applied.changes == ()
    assert misses(applied) == ["CT442"]


@pytest.mark.parametrize(
    "step",
    [
        "y, m, v = BatchNormalization <training_mode=1> (h, gamma, beta, mean, var)",
        "y = BatchNormalization <training_mode=1> (h, gamma, beta, mean, var)",
    ],
)
def test_not_a_training_batch_normalization(apply, step):
    applied = apply(behind(step, **BN), FoldNeighbours)
    assert applied.changes == ()
    assert misses(applied) == ["CT443"]


def test_not_by_what_is_known_at_run_time_only(apply):
    text = """g (float[1,4,5] x, float[6,1] c) => (float[] y) {
      [ct] h = ConvTranspose (x, w) y = Mul (h, c) }"""
    applied = apply(model(text, w=array(4, 6, 2)), FoldNeighbours)
    assert misses(applied) == ["CT444"]


def test_not_by_what_the_caller_may_override(apply):
    before = as_inputs(behind("y = Mul (h, c)", c=array(6, 1, 1)), "c")
    assert misses(apply(before, FoldNeighbours)) == ["CT445"]
    before.ir_version = 3
    before = as_inputs(before, "w", "b")
    applied = apply(before, FoldNeighbours)
    assert op_types(applied.after) == ["Constant", "Constant", "ConvTranspose"]
    assert_same(before, applied.after)


@pytest.mark.parametrize("step", ["y = Mul (h, c)", "y = Sub (c, h)"])
def test_not_into_a_weight_known_at_run_time(apply, step):
    before = as_inputs(behind(step, c=array(6, 1, 1)), "w")
    assert misses(apply(before, FoldNeighbours)) == ["CT446"]


def test_not_into_a_bias_known_at_run_time(apply):
    before = as_inputs(behind("y = Add (h, c)", c=array(6, 1, 1)), "b")
    assert misses(apply(before, FoldNeighbours)) == ["CT446"]


def test_not_into_a_quantised_weight(apply):
    applied = apply(quantised("y = Mul (h, c)"), FoldNeighbours)
    assert applied.changes == ()
    assert misses(applied) == ["CT447"]


def test_not_a_division_by_the_output(apply):
    assert misses(apply(behind("y = Div (c, h)", c=array(6, 1, 1)), FoldNeighbours)) == ["CT449"]


@pytest.mark.parametrize(
    ("step", "value"), [("Mul", 3e4), ("Mul", 6e-8), ("Div", 0.0), ("Add", np.inf)]
)
def test_not_what_the_element_type_cannot_hold(apply, step, value):
    before = behind(f"y = {step} (h, c)", dtype="float16", c=np.array(value, np.float16))
    applied = apply(before, FoldNeighbours)
    assert applied.changes == ()
    assert misses(applied) == ["CT450"]


def test_what_fits_of_a_chain_is_folded(apply):
    before = behind("i = Mul (h, c) y = Div (i, z)", c=array(6, 1, 1), z=np.zeros((), "f"))
    applied = apply(before, FoldNeighbours)
    assert applied.changes == ("ct: Mul folded",)
    assert [n.op_type for n in applied.nodes] == ["ConvTranspose", "Div"]


@pytest.mark.parametrize("step", ["y = Mul (h, h)", "y = Relu (h)", "y = f.Mul (h, c)"])
def test_not_what_is_no_neighbour(apply, step):
    text = f"g (float[1,4,5] x) => (float[] y) {{ [ct] h = ConvTranspose (x, w) {step} }}"
    applied = apply(model(text, domains='"f" : 1', w=array(4, 6, 2), c=array(6, 1)), FoldNeighbours)
    assert applied.changes == ()
    assert misses(applied) == []


def test_not_a_node_that_the_user_skips(apply):
    applied = apply(behind("y = Mul (h, c)", c=array(1)), FoldNeighbours, skip=["ct"])
    assert applied.changes == ()
