from __future__ import annotations

import onnx
import pytest

from convt_onnx.passes.fold_neighbours import FoldNeighbours

from ..graph.building import array, model
from ..verify.judging import assert_close, random_feeds, run
from .neighbours import BN, behind, misses


@pytest.mark.parametrize(
    ("attributes", "shape", "ok"),
    [
        ("broadcast=1, axis=1", (6,), True),
        ("broadcast=1, axis=-3", (6,), True),
        ("broadcast=1, axis=1", (6, 1, 1), True),
        ("broadcast=1", (6, 1, 1), True),
        ("broadcast=1", (), True),
        ("broadcast=1, axis=3", (6,), False),
        ("broadcast=1", (6,), False),
        ("broadcast=1, axis=2", (6, 1), False),
        ("broadcast=0", (6,), False),
    ],
)
def test_broadcasting_before_opset_7(apply, attributes, shape, ok):
    text = f"""g (float[1,4,3,2] x) => (float[1,6,4,6] y) {{
      [ct] h = ConvTranspose <strides=[1,1]> (x, w) y = Mul <{attributes}> (h, c) }}"""
    before = onnx.parser.parse_model(f'<ir_version: 7, opset_import: ["" : 6]> {text}')
    tensors = {"w": array(4, 6, 2, 5), "c": array(*shape, seed=1)}
    before.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in tensors.items())
    applied = apply(before, FoldNeighbours)
    assert bool(applied.changes) == ok
    assert misses(applied) == ([] if ok else ["CT448"])
    if ok:
        modern = model(
            """g (float[1,4,3,2] x) => (float[] y) {
            h = ConvTranspose <strides=[1,1]> (x, w) y = Mul (h, d) }""",
            **tensors,
            d=tensors["c"].reshape(6, 1, 1) if shape else tensors["c"],
        )
        feeds = random_feeds(before)
        assert_close(run(applied.after, feeds), run(modern, feeds))


@pytest.mark.parametrize(("opset", "test"), [(1, 0), (1, 1), (6, 0), (6, 1)])
def test_batch_normalization_before_opset_7_says_whether_it_tests(apply, opset, test):
    more = ", consumed_inputs=[0,0,0,1,1]" if opset == 1 else ""
    step = f"y = BatchNormalization <is_test={test}{more}> (h, gamma, beta, mean, var)"
    applied = apply(behind(step, opset=opset, **BN), FoldNeighbours)
    assert bool(applied.changes) == bool(test)
    assert misses(applied) == ([] if test else ["CT443"])
    if test:
        modern = behind("y = BatchNormalization (h, gamma, beta, mean, var)", opset=7, **BN)
        feeds = random_feeds(modern)
        assert_close(run(applied.after, feeds), run(modern, feeds))
