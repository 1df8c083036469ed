"""Weights that are small themselves and huge or endless on the way."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from convt_onnx.graph import evaluate
from convt_onnx.passes.fold_weights import FoldWeights

from ..graph.building import array, ints, model

W = array(3, 4, 5)
HUGE = 10**12
# Just over the limit, so that making it would succeed.
LARGE = 2 * 10**8
MIB = 2**20


def graph(nodes):
    return f"g (float[1,3,7] x) => (float[] y) {{ {nodes} y = ConvTranspose (x, w) }}"


def peak(function):
    """What it returns, and the bytes that it needs at most."""
    tracemalloc.start()
    try:
        result = function()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [HUGE, LARGE])
@pytest.mark.parametrize(
    "node",
    [
        "e = Expand (s, n)",
        "e = Tile (s, n)",
        "e = ConstantOfShape (n)",
        "e = Pad (s, p)",
        "r = Range (zero, m, one) e = Cast <to=1> (r)",
        "t = ConstantOfShape (n2) e = EyeLike (t)",
    ],
    ids=["Expand", "Tile", "ConstantOfShape", "Pad", "Range", "EyeLike"],
)
def test_huge_tensors_are_never_made(apply, node, size):
    arrays = {
        "v": W,
        "s": array(1),
        "n": ints(size),
        "p": ints(0, size),
        "m": np.array(size),
        "zero": np.array(0),
        "one": np.array(1),
        "n2": ints(size, 1),
    }
    nodes = f"{node} k = ReduceSum <keepdims=0> (e) w = Mul (v, k)"
    before = model(graph(nodes), **arrays)
    applied, used = peak(lambda: apply(before, FoldWeights))
    assert applied.changes == ()
    assert used < 64 * MIB


def test_many_large_tensors_are_not_kept_together(apply, monkeypatch):
    monkeypatch.setattr(evaluate, "MAX_TOTAL_BYTES", 40 * MIB)
    # Twenty of 8 MiB each.
    steps = " ".join(f"e{i} = Expand (s{i}, n) s{i + 1} = Neg (e{i})" for i in range(10))
    nodes = f"{steps} k = ReduceSum <keepdims=0> (s10) w = Mul (v, k)"
    before = model(graph(nodes), v=W, s0=array(1), n=ints(2 * MIB))
    applied, used = peak(lambda: apply(before, FoldWeights))
    assert applied.changes == ()
    assert used < 2 * 64 * MIB


@pytest.mark.parametrize(
    "node",
    [
        'k = Einsum <equation="a,b,c,d,e,f,g,h->"> (s, s, s, s, s, s, s, s)',
        "b = Expand (s, n) l = Reshape (b, c) r = Reshape (b, d) k = MatMul (r, l)",
    ],
    ids=["Einsum", "MatMul"],
)
def test_products_that_take_too_long_are_not_started(apply, monkeypatch, node):
    monkeypatch.setattr(evaluate, "MAX_MACS", 10**6)
    arrays = {"s": array(64), "n": ints(64, 64), "c": ints(1, -1), "d": ints(-1, 1)}
    started = []

    class Evaluator(evaluate.ReferenceEvaluator):
        def __init__(self, model):
            started.append(model.graph.node[0].op_type)
            super().__init__(model)

    monkeypatch.setattr(evaluate, "ReferenceEvaluator", Evaluator)
    before = model(graph(f"{node} t = ReduceSum <keepdims=0> (k) w = Mul (v, t)"), v=W, **arrays)
    assert apply(before, FoldWeights).changes == ()
    assert not {"Einsum", "MatMul"} & set(started)


@pytest.fixture
def evaluations(monkeypatch):
    """One entry for each node that was evaluated."""
    made = []

    class Counted(evaluate.ReferenceEvaluator):
        def run(self, names, feeds):
            made.append(names)
            return super().run(names, feeds)

    monkeypatch.setattr(evaluate, "ReferenceEvaluator", Counted)
    return made


def test_long_chains_are_not_started(apply, evaluations):
    chain = " ".join(f"h{i + 1} = Neg (h{i})" for i in range(5000))
    before = model(graph(f"{chain} w = Neg (h5000)"), h0=W)
    assert apply(before, FoldWeights).changes == ()
    assert not evaluations


def test_each_value_of_a_diamond_is_computed_once(apply, evaluations):
    chain = " ".join(f"h{i + 1} = Max (h{i}, h{i})" for i in range(60))
    before = model(graph(f"{chain} w = Neg (h60)"), h0=W)
    assert len(apply(before, FoldWeights).changes) == 1
    assert len(evaluations) == 61
