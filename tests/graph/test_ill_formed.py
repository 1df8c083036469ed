"""Sizes and scales that make no sense: the tool goes on without them, the runtime refuses them."""

from __future__ import annotations

import numpy as np
import pytest

from convt_onnx import inspect
from convt_onnx.errors import GeometryError

from .building import array, ints, model, write

SIZED = "{ h = ConvTranspose <strides=[2]> (x, w) s = Shape (h) %s y = Slice (h, zero, e, two) }"
QUANTISED = "{ b = DequantizeLinear %s y = ConvTranspose <strides=[2]> (x, w, b) }"
Q = np.array([3, 2, 1, 4], np.int8)


@pytest.mark.parametrize(
    "nodes",
    [
        SIZED % "e = Cast <to=999> (s)",
        SIZED % "k, l, e = Split (s, part)",
        SIZED % "e = ConstantOfShape <fill=1> (one)",
        SIZED % "k = Gather (s, far) e = Unsqueeze (k, zero)",
        "{ x = Concat <axis=0> (r, r) h = ConvTranspose (x, w) y = Slice (h, zero, one, two) }",
        QUANTISED % "<axis=5> (q, scales)",
        QUANTISED % "<axis=0> (q, few)",
        QUANTISED % "<axis=0> (q, scales, few_zeros)",
    ],
)
def test_inspected_all_the_same(tmp_path, nodes):
    inputs = "float r" if "(r, r)" in nodes else "float[1,3,L] x"
    text = f"g ({inputs}) => (float[] y) {nodes}"
    arrays = {
        "w": array(3, 4, 5),
        "zero": ints(0),
        "one": ints(1),
        "two": ints(2),
        "far": ints(9).reshape(()),
        "part": ints(1, 2),
        "q": Q,
        "scales": abs(array(4)),
        "few": abs(array(3)),
        "few_zeros": Q[:3],
    }
    (node,) = inspect(write(model(text, **arrays), tmp_path)).nodes
    assert (node.spec.kernel, node.spec.out_channels) == ((5,), 4)


def test_a_scalar_with_scales_of_its_own_is_no_bias(tmp_path):
    text = f"g (float[1,3,L] x) => (float[] y) {QUANTISED % '<axis=0> (q, scales)'}"
    proto = model(text, w=array(3, 4, 5), q=Q[0], scales=abs(array(4)))
    with pytest.raises(GeometryError, match="one value for each output channel"):
        inspect(write(proto, tmp_path))
