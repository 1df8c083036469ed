"""Each rule of the simulation against ONNX Runtime, through TensorRT's own parser."""

from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.engine.network import parse
from convt_onnx.engine.simulate import simulate
from convt_onnx.engine.simulate_gap import SimulationGapError

from ..graph.building import array, ints, model, write
from ..verify.judging import random_feeds
from .simulating import assert_means

X = "float[2,4,6,5] x"
# Bodies over x; w is [4, 3, 3, 2] or what the second entry says.
ONE = {
    "conv": ("Conv <pads=[1,0,2,1], strides=[2,1], dilations=[1,2]> (x, w)", array(6, 4, 3, 2)),
    "conv groups": ("Conv <group=2> (x, w)", array(6, 2, 3, 2)),
    "conv same": ('Conv <auto_pad="SAME_LOWER", strides=[2,2]> (x, w)', array(3, 4, 2, 3)),
    "deconv": ("ConvTranspose <pads=[1,0,2,1], strides=[2,3]> (x, w)", array(4, 3, 3, 4)),
    "deconv groups": ("ConvTranspose <group=2, dilations=[2,1]> (x, w)", array(4, 3, 3, 2)),
    "deconv same": ('ConvTranspose <auto_pad="SAME_UPPER"> (x, w)', array(4, 3, 3, 4)),
    "max pool": ("MaxPool <kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1]> (x)", None),
    "max pool up": ("MaxPool <kernel_shape=[2,2], strides=[2,2], ceil_mode=1> (x)", None),
    "average pool": ("AveragePool <kernel_shape=[3,2], pads=[1,0,1,1]> (x)", None),
    "average pool with zeros": (
        "AveragePool <kernel_shape=[3,2], pads=[1,0,1,1], count_include_pad=1> (x)",
        None,
    ),
    "reduce": ("ReduceMean <axes=[1,3], keepdims=0> (x)", None),
    "softmax": ("Softmax <axis=1> (x)", None),
    "matmul": ("MatMul (x, w)", array(5, 3)),
    "gather": ("Gather <axis=2> (x, w)", ints(3, 0, 5)),
    "gather elements": ("GatherElements <axis=3> (x, w)", np.ones((2, 4, 6, 1), np.int64)),
    "slice": ("Slice (x, w, e, a, s)", ints(4, 1)),
    "pad": ("Pad (x, w)", ints(0, 1, 2, 0, 0, 0, 1, 3)),
    "reflect": ('Pad <mode="reflect"> (x, w)', ints(0, 0, 2, 1, 0, 0, 1, 2)),
    "edge": ('Pad <mode="edge"> (x, w)', ints(0, 0, 2, 1, 0, 0, 1, 2)),
    "transpose": ("Transpose <perm=[3,0,2,1]> (x)", None),
    "reshape": ("Reshape (x, w)", ints(0, -1, 3)),
    "flatten": ("Flatten <axis=2> (x)", None),
    "concat": ("Concat <axis=1> (x, w)", array(2, 3, 6, 5)),
    "where": ("Where (w, x, n)", np.arange(5) % 2 == 0),
    "prelu": ("PRelu (x, w)", array(4, 1, 1)),
    "batch norm": ("BatchNormalization (x, w, w, w, v)", array(4)),
    "instance norm": ("InstanceNormalization (x, w, w)", array(4)),
    "layer norm": ("LayerNormalization <axis=-1> (x, w)", array(5)),
    "depth to space": ('DepthToSpace <blocksize=2, mode="CRD"> (x)', None),
    "divide": ("Div (x, w)", array(4, 1, 1)),
    "power": ("Pow (v4, w)", array(4, 1, 1)),
}
ACTIVATIONS = """Relu Sigmoid Tanh Elu Selu Softplus Softsign LeakyRelu HardSigmoid Erf Exp Abs Neg
Floor Ceil Round Sign Sin Cos Sinh Cosh Atan Asinh""".split()


@pytest.mark.parametrize("body, w", ONE.values(), ids=ONE)
def test_operators_with_parameters(rtx, tmp_path, body, w):
    arrays = {} if w is None else {"w": w}
    if body.startswith("Slice"):
        arrays |= {"e": ints(-100, 4), "a": ints(2, 3), "s": ints(-2, 1)}
    extra = {"n": array(1, seed=3), "v": np.linspace(0.5, 2, 4, dtype=np.float32)}
    extra["v4"] = np.linspace(0.5, 2, 5, dtype=np.float32)
    arrays |= {k: v for k, v in extra.items() if f" {k}" in body or f"({k}" in body}
    proto = model(f"g ({X}) => (float[] y) {{ t = {body} y = Identity (t) }}", **arrays)
    if "v4" in arrays:
        proto = model(f"g ({X}) => (float[] y) {{ t = {body} y = Add (t, x) }}", **arrays)
    assert_means(rtx, write(proto, tmp_path), proto, random_feeds(proto))


@pytest.mark.parametrize("op", ACTIVATIONS)
def test_operators_on_single_elements(rtx, tmp_path, op):
    proto = model(f"g ({X}) => (float[] y) {{ y = {op} (x) }}")
    assert_means(rtx, write(proto, tmp_path), proto, {"x": 3 * array(2, 4, 6, 5)})


@pytest.mark.parametrize("op", ["Gelu", "ThresholdedRelu", "HardSwish", "Mish"])
def test_newer_operators_on_single_elements(rtx, tmp_path, op):
    proto = model(f"g ({X}) => (float[] y) {{ y = {op} (x) }}", opset=20)
    assert_means(rtx, write(proto, tmp_path), proto, {"x": 3 * array(2, 4, 6, 5)})


@pytest.mark.parametrize("op, low", [("Asin", -1), ("Acos", -1), ("Atanh", -1), ("Acosh", 1)])
def test_operators_on_a_part_of_the_numbers(rtx, tmp_path, op, low):
    proto = model(f"g ({X}) => (float[] y) {{ y = {op} (x) }}")
    x = low + 1.99 * np.random.default_rng(0).uniform(0.003, 1, (2, 4, 6, 5)).astype(np.float32)
    assert_means(rtx, write(proto, tmp_path), proto, {"x": x})


@pytest.mark.parametrize("axis", [None, 1])
def test_quantised_values(rtx, tmp_path, axis):
    count = () if axis is None else (4,)
    scale = np.linspace(0.01, 0.02, int(np.prod(count)), dtype=np.float32).reshape(count)
    attribute = "" if axis is None else "<axis=1>"
    text = f"""g ({X}) => (float[] y)
    {{ q = QuantizeLinear {attribute} (x, s, z) y = DequantizeLinear {attribute} (q, s, z) }}"""
    proto = model(text, s=scale, z=np.zeros(count, np.int8))
    assert_means(rtx, write(proto, tmp_path), proto, random_feeds(proto))


def test_shapes_that_the_graph_computes(rtx, tmp_path):
    text = """g (float[N,4,L] x) => (float[] y) {
        s = Shape (x) n = Gather <axis=0> (s, two) h = Div (n, two) u = Unsqueeze (h, zero)
        y = Slice (x, zero, u, last)
    }"""
    proto = model(text, two=np.array(2), zero=ints(0), last=ints(2))
    path = write(proto, tmp_path)
    for length in (6, 9):
        assert_means(rtx, path, proto, {"x": array(2, 4, length)})


def test_what_there_is_no_rule_for_is_named(rtx, tmp_path):
    text = f"g ({X}) => (float[] y) {{ y = ConvTranspose <strides=[2,2]> (x, w) }}"
    network = parse(rtx, write(model(text, w=array(4, 3, 2, 2)), tmp_path))
    with pytest.raises(SimulationGapError, match="too large to simulate"):
        simulate(network, {"x": array(2, 4, 6, 5)}, max_macs=100)
    text = f"g ({X}) => (float[] y, int64[] i) {{ y, i = TopK (x, k) }}"
    network = parse(rtx, write(model(text, k=ints(2)), tmp_path))
    with pytest.raises(SimulationGapError, match="cannot be simulated") as error:
        simulate(network, {"x": array(2, 4, 6, 5)})
    assert "TOPK" in error.value.where


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("GatherND (x, i)", "a gather of mode ND"),
        (
            "AveragePool <kernel_shape=[3,2], strides=[2,2], ceil_mode=1, count_include_pad=1> (x)",
            "an average of padding that is rounded up",
        ),
    ],
)
def test_kinds_of_a_layer_without_a_rule_are_named(rtx, tmp_path, body, words):
    proto = model(f"g ({X}) => (float[] y) {{ y = {body} }}", i=ints(0, 1).reshape(1, 2))
    network = parse(rtx, write(proto, tmp_path))
    with pytest.raises(SimulationGapError, match="cannot be simulated") as error:
        simulate(network, random_feeds(proto))
    assert words in error.value.where
