"""Every operator that is folded gives what ONNX Runtime gives."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from convt_onnx.graph.evaluate import FOLDABLE, Evaluator

from .building import array, ints, model

A = array(3, 4, 5)
ARRAYS = {
    "a": A,
    "b": array(3, 4, 5, seed=1),
    "row": array(5),
    "pos": abs(A) + 0.5,
    "half": np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9], np.float32),
    "i": np.arange(-30, 30).reshape(3, 4, 5),
    "flag": A > 0,
    "other": array(3, 4, 5, seed=2) > 0,
    "m": array(4, 6),
    "to": ints(5, 0, -1),
    "dims": ints(2, 3),
    "axes": ints(1),
    "picks": ints(2, -1, 0),
    "three": np.array(3),
    "far": np.array(9),
    "two": np.array(2),
    "low": np.array(-0.5, np.float32),
    "high": np.array(0.5, np.float32),
    "pads": ints(1, 0, 2, 0, 1, 1),
    "crop": ints(0, -1, 0, 0, 0, -2),
    "parts": ints(1, 3),
    "times": ints(1, 2, 3),
    "where": ints(0, 2, 1, 3).reshape(2, 2),
    "updates": array(2, 5, seed=3),
    "index": np.random.default_rng(0).integers(-3, 3, (3, 4, 5)),
    "from": ints(-1, 0),
    "until": ints(-99, 4),
    "both": ints(0, 2),
    "steps": ints(-1, 2),
}

# By operator, texts of nodes whose last output is `w`; at opset 18.
CASES = {
    "Cast": ["w = Cast <to=7> (half)", "w = Cast <to=9> (half)", "w = Cast <to=10> (a)"],
    "CastLike": ["w = CastLike (i, a)"],
    "Clip": ["w = Clip (a, low, high)", "w = Clip (a, , high)", "w = Clip (i, , three)"],
    "Concat": ["w = Concat <axis=-1> (a, b, a)"],
    "ConstantOfShape": [
        "w = ConstantOfShape (dims)",
        "w = ConstantOfShape <value = int64[1] {7}> (dims)",
    ],
    "CumSum": ["w = CumSum (a, two)", "w = CumSum <exclusive=1, reverse=1> (a, two)"],
    "Div": ["w = Div (a, b)", "w = Div (i, three)", "w = Div (a, row)"],
    "Einsum": ['w = Einsum <equation="abc,abd->acd"> (a, b)'],
    "Expand": ["w = Expand (row, dims2)", "w = Expand (a, ones)"],
    "EyeLike": ["w = EyeLike (m)", "w = EyeLike <k=-1, dtype=7> (m)"],
    "Flatten": ["w = Flatten <axis=2> (a)", "w = Flatten <axis=-3> (a)"],
    "Gather": ["w = Gather <axis=1> (a, picks)", "w = Gather (a, two)"],
    "GatherElements": ["w = GatherElements <axis=1> (a, index)"],
    "GatherND": ["w = GatherND (a, where)"],
    "MatMul": ["w = MatMul (row, row)", "t = Transpose <perm=[0,2,1]> (b) w = MatMul (a, t)"],
    "Max": ["w = Max (a, b, row)", "w = Max (a)"],
    "Mean": ["w = Mean (a, b, row)"],
    "Min": ["w = Min (a, b, row)"],
    "Pad": [
        "w = Pad (a, pads)",
        "w = Pad (a, pads, high)",
        'w = Pad <mode="edge"> (a, pads)',
        'w = Pad <mode="reflect"> (a, pads)',
    ],
    "Pow": ["w = Pow (a, two)", "w = Pow (pos, b)", "w = Pow (i, three)"],
    "Range": ["w = Range (two, far, three)", "w = Range (high, low, low)"],
    "Reshape": ["w = Reshape (a, to)"],
    "ScatterElements": [
        "w = ScatterElements <axis=0> (a, i2, u2)",
        'w = ScatterElements <axis=2, reduction="add"> (a, index, b)',
    ],
    "ScatterND": [
        "w = ScatterND (a, where, updates)",
        'w = ScatterND <reduction="mul"> (a, where, updates)',
    ],
    "Slice": ["w = Slice (a, from, until, both, steps)", "w = Slice (a, picks, until2)"],
    "Split": ["t, w = Split <axis=1> (a, parts)", "t, s, w = Split <num_outputs=3> (m)"],
    "Squeeze": ["t = Unsqueeze (a, axes) w = Squeeze (t, axes)", "w = Squeeze (thin)"],
    "Sum": ["w = Sum (a, b, row)"],
    "Tile": ["w = Tile (a, times)"],
    "Transpose": ["w = Transpose (a)", "w = Transpose <perm=[1,0,2]> (a)"],
    "Trilu": ["w = Trilu (a)", "w = Trilu <upper=0> (a, two)"],
    "Unsqueeze": ["w = Unsqueeze (a, both)"],
    "Where": ["w = Where (flag, a, row)"],
}
MORE = {
    "dims2": ints(2, 1, 5),
    "ones": ints(1, 1, 1, 1),
    "until2": ints(3, 4, 5),
    "thin": array(1, 3, 1),
    "i2": ints(2, 0, 1, 1, 0).reshape(1, 1, 5),
    "u2": array(1, 1, 5, seed=4),
}
for name in "Abs Ceil Cos Exp Floor Identity Neg Reciprocal Sigmoid Sign Sin Softplus Tanh".split():
    CASES[name] = [f"w = {name} (a)"]
for name in ("Log", "Sqrt"):
    CASES[name] = [f"w = {name} (pos)"]
for name in "Add Mul Sub Equal Greater GreaterOrEqual Less LessOrEqual".split():
    CASES[name] = [f"w = {name} (a, row)", f"w = {name} (i, three)"]
for name in "L1 L2 Max Mean Min Prod Sum SumSquare".split():
    CASES[f"Reduce{name}"] = [
        f"w = Reduce{name} <keepdims=0> (a, axes)",
        f"w = Reduce{name} (a)",
        f"w = Reduce{name} <noop_with_empty_axes=1> (pos)",
    ]
CASES |= {
    "And": ["w = And (flag, other)"],
    "Or": ["w = Or (flag, other)"],
    "Not": ["w = Not (flag)"],
    "Round": ["w = Round (half)"],
    "Size": ["w = Size (a)"],
}

# Spellings of older opsets, and what the evaluator does not know.
OLDER = [
    (18, "w = Pad (a, crop)"),
    (1, "w = Cast <to=\"INT32\"> (half)"),
    (1, "w = Add <broadcast=1> (a, row)"),
    (1, "w = Reshape <shape=[5, 12]> (a)"),
    (1, "w = Pad <paddings=[1,0,2,0,1,1]> (a)"),
    (1, "w = Tile (a, two, two)"),
    (1, "w = Split <axis=1, split=[1, 3]> (a)"),
    (2, "w = Pad <pads=[1,0,2,0,1,1], value=0.5> (a)"),
    (6, "w = Clip <min=-0.5, max=0.5> (a)"),
    (6, "w = Mul <broadcast=1, axis=0> (a, col)"),
    (7, "w = Pow (a, low2)"),
    (9, "w = Slice <starts=[1, -2], ends=[3, 99], axes=[0, 2]> (a)"),
    (9, "w = Slice <starts=[1], ends=[-1]> (a)"),
    (11, "w = ReduceSum <axes=[1], keepdims=0> (a)"),
    (11, "w = Squeeze <axes=[0]> (thin)"),
    (11, "w = Unsqueeze <axes=[0, 2]> (a)"),
    (11, "w = Split <axis=1, split=[1, 3]> (a)"),
    (12, "w = ReduceL2 <axes=[-1]> (a)"),
    (17, "w = ReduceMean <axes=[0, 2], keepdims=0> (a)"),
]  # fmt: skip


def evaluated(proto):
    """The last value, and what ONNX Runtime makes of the same nodes."""
    graph = ir.from_proto(proto)
    opset = graph.opset_imports[""]
    value = list(graph.graph)[-1].outputs[-1]
    found = Evaluator(graph.ir_version, opset, {}).value(value)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        assert type(error).__module__.startswith("onnxruntime")
        return found, None
    return found, session.run(None, {})[0]


def graph_of(nodes, opset):
    read = {n for n in (ARRAYS | MORE) if f"{n}," in nodes or f"{n})" in nodes}
    arrays = {n: a for n, a in (ARRAYS | MORE).items() if n in read}
    extra = {"col": array(3), "low2": np.array(2, np.float32)}
    return model(f"g () => (w) {{ {nodes} }}", opset=opset, **arrays, **extra)


def assert_equal(found, wanted):
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


def test_every_operator_has_a_case():
    assert CASES.keys() == FOLDABLE


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_onnx_runtime(name):
    for nodes in CASES[name]:
        found, wanted = evaluated(graph_of(nodes, 18))
        assert found is not None, nodes
        assert wanted is not None, nodes
        assert_equal(found, wanted)


@pytest.mark.parametrize(("opset", "nodes"), OLDER)
def test_older_opsets_are_right_or_left_alone(opset, nodes):
    found, wanted = evaluated(graph_of(nodes, opset))
    assert found is None or wanted is not None, "folded what ONNX Runtime does not load"
    if found is not None:
        assert_equal(found, wanted)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("node", "exact"),
    [
        ("w = ReduceL2 <axes=[1, 2]> (v)", lambda v: np.sqrt((v**2).sum((1, 2), keepdims=True))),
        ("w = ReduceSum (v)", lambda v: v.sum(keepdims=True)),
        ("w = ReduceMean <axes=[0, 2]> (v)", lambda v: v.mean((0, 2), keepdims=True)),
        ("w = MatMul (v, k)", lambda v: v @ np.full((16, 2), 0.5)),
    ],
)
def test_sums_of_narrow_floats_are_rounded_once(kind, node, exact):
    """A sum of bfloat16 that is rounded term by term stops growing at 256."""
    v = (abs(array(3, 700, 16)) + 0.5).astype(kind)
    proto = model(f"g () => (w) {{ {node} }}", opset=17, v=v, k=np.full((16, 2), 0.5, kind))
    graph = ir.from_proto(proto)
    found = Evaluator(graph.ir_version, 17, {}).value(graph.graph[-1].outputs[0])
    assert found.dtype == kind
    step = float(ml_dtypes.finfo(kind).eps)
    wanted = exact(v.astype(np.float64))
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0.6 * step)


def test_strings_are_left_alone():
    names = np.array(["a", "b"], object)
    graph = ir.from_proto(model("g () => (w) { w = Concat <axis=0> (s, s) }", opset=18, s=names))
    assert Evaluator(graph.ir_version, 18, {}).value(list(graph.graph)[-1].outputs[-1]) is None


def test_a_new_value_is_not_taken_for_one_that_is_gone():
    text = "g () => (w) { v = Neg (a) w = Exp (a) }"
    graph = ir.from_proto(model(text, opset=18, a=np.ones(3, np.float32))).graph
    evaluator = Evaluator(9, 18, {})
    gone, kept = list(graph)
    assert evaluator.value(gone.outputs[0])[0] == -1
    old = kept.inputs[0]
    graph.remove(gone, safe=True)
    del gone
    gc.collect()
    new = [ir.node("Exp", [old]) for _ in range(100)]  # one of them lies where the old one lay
    for i, node in enumerate(new):
        node.outputs[0].name = f"new{i}"
    assert {float(evaluator.value(n.outputs[0])[0]) for n in new} == {float(np.exp(np.float32(1)))}
