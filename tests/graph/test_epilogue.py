from __future__ import annotations

from math import pi, sqrt

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from convt_onnx import OptimizeOptions, inspect, model_io, optimize
from convt_onnx.graph.epilogue import Epilogue, read_epilogue
from convt_onnx.graph.node import find_nodes, read_node
from convt_onnx.graph.shapes import conv_transpose_shape
from convt_onnx.reasons import Refusal
from convt_onnx.report.as_json import plain
from convt_onnx.report.geometry import epilogue_text

from .building import array, as_inputs, model, write

SCALARS = {
    "half": 0.5,
    "one": 1.0,
    "three": 3.0,
    "root": sqrt(2),
    "rootinv": 1 / sqrt(2),
    "cubic": 0.044715,
    "twopi": sqrt(2 / pi),
}


def proto(steps, *, outputs="float[] y", inputs="", opset=17, dtype="float", **arrays):
    """`steps` behind h, a ConvTranspose whose output is [2, 6, 12]."""
    text = f"""g ({dtype}[2,4,5] x{inputs}) => ({outputs.replace("float", dtype)}) {{
      h = ConvTranspose <strides=[2], kernel_shape=[4]> (x, w) {steps} }}"""
    kinds = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    kind = kinds[dtype]
    scalars = {
        n: np.array(v, kind) for n, v in SCALARS.items() if f" {n}" in f"{steps}".replace("(", "( ")
    }
    given = {n: np.asarray(a).astype(kind) for n, a in arrays.items()}
    return model(
        text, opset=opset, ir_version=10, w=array(4, 6, 4).astype(kind), **scalars, **given
    )


@pytest.fixture
def read(tmp_path):
    def read(made):
        loaded = model_io.load(write(made, tmp_path))
        shapes = model_io.infer_shapes(loaded, conv_transpose_shape)
        found = next(find_nodes(loaded.model))
        version = loaded.model.ir_version
        visible = found.visible(shapes)
        node = read_node(found.node, found.path, version, visible)
        before = ir.to_proto(loaded.model)
        epilogue = read_epilogue(node, version, found.opset, visible)
        assert ir.to_proto(loaded.model) == before
        return epilogue

    return read


def activation(name, *parameters, nodes=1):
    return Epilogue(name, parameters, None, ("activation",), nodes, "y")


@pytest.mark.parametrize(
    ("step", "opset", "wanted"),
    [
        ("y = Relu (h)", 17, ("Relu",)),
        ("y = LeakyRelu (h)", 17, ("LeakyRelu", None)),
        ("y = LeakyRelu <alpha=0.25> (h)", 6, ("LeakyRelu", 0.25)),
        ("y = Elu (h)", 17, ("Elu", 1.0)),
        ("y = Elu <alpha=0.5> (h)", 17, ("Elu", 0.5)),
        ("y = Sigmoid (h)", 17, ("Sigmoid",)),
        ("y = Tanh (h)", 17, ("Tanh",)),
        ("y = Gelu (h)", 20, ("Gelu",)),
        ('y = Gelu <approximate="none"> (h)', 20, ("Gelu",)),
        ('y = Gelu <approximate="tanh"> (h)', 20, ("GeluTanh",)),
        ("y = Swish (h)", 24, ("Silu",)),
        ("y = Swish <alpha=0.5> (h)", 24, ("Swish", 0.5)),
        ("y = Clip <min=0.0, max=6.0> (h)", 6, ("Clip", 0.0, 6.0)),
        ("y = Clip <max=6.0> (h)", 10, ("Clip", -np.inf, 6.0)),
        ("y = Clip (h, half, three)", 17, ("Clip", 0.5, 3.0)),
        ("y = Clip (h, , three)", 17, ("Clip", -np.inf, 3.0)),
        ("y = Clip (h, half)", 13, ("Clip", 0.5, np.inf)),
    ],
)
def test_an_activation_that_is_one_operator(read, step, opset, wanted):
    name, *parameters = wanted
    # The default of alpha is 0.01; what a file holds is a float32.
    numbers = [0.01 if p is None else float(np.float32(p)) for p in parameters]
    assert read(proto(step, opset=opset)) == activation(name, *numbers)


@pytest.mark.parametrize(
    ("shape", "opset", "count"),
    [
        ((6, 1), 17, 6),
        ((1, 6, 1), 17, 6),
        ((1,), 17, 1),
        ((1, 1), 7, 1),
        ((6,), 6, 6),
        ((1,), 6, 1),
    ],
)
def test_prelu(read, shape, opset, count):
    slope = array(*shape, seed=3)
    found = read(proto("y = PRelu (h, slope)", opset=opset, slope=slope))
    assert found == activation("PRelu", *(float(v) for v in slope.ravel()))
    assert len(found.parameters) == count


CHAINS = {
    "silu": ("Silu", "s = Sigmoid (h) y = Mul (h, s)"),
    "silu, the other way round": ("Silu", "s = Sigmoid (h) y = Mul (s, h)"),
    "silu by exp": ("Silu", "n = Neg (h) e = Exp (n) d = Add (e, one) y = Div (h, d)"),
    "gelu of torch's TorchScript exporter": (
        "Gelu",
        "a = Div (h, root) b = Erf (a) c = Add (b, one) d = Mul (h, c) y = Mul (d, half)",
    ),
    "gelu of torch's dynamo exporter": (
        "Gelu",
        "a = Div (h, root) b = Erf (a) c = Add (b, one) d = Mul (h, c) y = Mul (half, d)",
    ),
    "gelu as tensorflow writes it": (
        "Gelu",
        "a = Mul (h, rootinv) b = Erf (a) c = Add (one, b) d = Mul (c, half) y = Mul (h, d)",
    ),
    "gelu, halved first": (
        "Gelu",
        "z = Mul (h, half) a = Div (h, root) b = Erf (a) c = Add (b, one) y = Mul (z, c)",
    ),
    "gelu by tanh": (
        "GeluTanh",
        """p = Pow (h, three) a = Mul (cubic, p) b = Add (h, a) c = Mul (twopi, b) d = Tanh (c)
        e = Add (d, one) f = Mul (h, e) y = Mul (half, f)""",
    ),
    "gelu by tanh, a cube of products": (
        "GeluTanh",
        """z = Mul (half, h) p = Mul (h, h) q = Mul (p, h) a = Mul (q, cubic) b = Add (h, a)
        c = Mul (b, twopi) d = Tanh (c) e = Add (one, d) y = Mul (z, e)""",
    ),
}


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
@pytest.mark.parametrize("chain", CHAINS)
def test_the_chains_of_exporters(read, chain, dtype):
    name, steps = CHAINS[chain]
    # bfloat16 has a kernel for no Pow with another type, but reading does not run anything.
    found = read(proto(steps, dtype=dtype, opset=17))
    assert found == activation(name, nodes=steps.count(" = "))


@pytest.mark.parametrize("axes, taken", [(3, True), (4, False)])
def test_a_constant_that_adds_an_axis_makes_no_activation(read, axes, taken):
    steps = CHAINS["gelu of torch's dynamo exporter"][1].replace("half", "wide")
    found = read(proto(steps, wide=np.full([1] * axes, 0.5)))
    assert isinstance(found, Epilogue) is taken


def test_a_residual(read):
    found = read(proto("y = Add (h, r)", inputs=", float[2,6,12] r"))
    assert found == Epilogue(None, (), "r", ("residual",), 1, "y")
    assert read(proto("y = Add (r, h)", inputs=", float[2,6,12] r")) == found


def test_a_residual_of_open_sizes(read):
    text = """g (float[N,4,L] x, float[N,6,L] r) => (float[] y) {
      h = ConvTranspose <kernel_shape=[1]> (x, w) y = Add (h, r) }"""
    found = read(model(text, w=array(4, 6, 1)))
    assert found == Epilogue(None, (), "r", ("residual",), 1, "y")


def test_both_in_either_order(read):
    inputs = ", float[2,6,12] r"
    found = read(proto("a = Add (h, r) y = LeakyRelu (a)", inputs=inputs))
    assert found == Epilogue("LeakyRelu", (0.01,), "r", ("residual", "activation"), 2, "y")
    found = read(proto("s = Sigmoid (h) a = Mul (h, s) y = Add (a, r)", inputs=inputs))
    assert found == Epilogue("Silu", (), "r", ("activation", "residual"), 3, "y")


def test_what_comes_behind_is_left(read):
    found = read(proto("a = Relu (h) b = Tanh (a) y = Neg (b)"))
    assert found == Epilogue("Relu", (), None, ("activation",), 1, "a")
    steps = "a = Add (h, r) b = Add (a, r) y = Relu (b)"
    found = read(proto(steps, inputs=", float[2,6,12] r"))
    assert found == Epilogue(None, (), "r", ("residual",), 1, "a")


def test_an_activation_that_the_graph_returns_in_between(read):
    found = read(
        proto(
            "a = Relu (h) y = Add (a, r)",
            outputs="float[] y, float[] a",
            inputs=", float[2,6,12] r",
        )
    )
    assert found == Epilogue("Relu", (), None, ("activation",), 1, "a")


@pytest.mark.parametrize(
    ("steps", "id"),
    [
        ("y = Neg (h)", "CT481"),
        ("y = Mul (h, half)", "CT481"),
        ("y = Add (h, full)", "CT481"),
        ("y = f.Relu (h)", "CT481"),
        ("y = HardSwish (h)", "CT481"),
        ("y = Add (r, one) z = Relu (h) q = Neg (h)", "CT482"),
        ("s = Sigmoid (h) y = Mul (h, s) q = Neg (h)", "CT482"),
        ("s = Sigmoid (h) t = Mul (h, s) y = Mul (t, s)", "CT482"),
        ("s = Sigmoid (h) y = Mul (r, s) q = Neg (h)", "CT482"),
        (
            "a = Mul (h, three) b = Sin (a) c = Mul (b, b) d = Div (c, three) y = Add (h, d)",
            "CT482",
        ),
        ("y = Add (h, h)", "CT482"),
        ("y = PRelu (h, r)", "CT484"),
        ("y = PRelu (h, along)", "CT484"),
        ("y = Clip (h, bound)", "CT484"),
        ("y = Add (h, column)", "CT485"),
        ("y = Add (h, unknown)", "CT485"),
    ],
)
def test_not(read, steps, id):
    inputs = ", float[2,6,12] r, float bound, float[2,6,1] column, float[A,B,C] unknown"
    made = proto(steps, inputs=inputs, along=array(12), full=array(2, 6, 12))
    made.opset_import.add(domain="f", version=1)
    found = read(made)
    assert isinstance(found, Refusal)
    assert found.id == id


def test_not_where_the_output_is_the_graphs(read):
    assert read(proto("y = Relu (h)", outputs="float[] y, float[] h")).id == "CT483"
    assert read(proto("", outputs="float[] h")).id == "CT483"


def test_not_in_a_branch(read):
    steps = """y = If (c) <then_branch = t () => (float[] p) { p = Relu (h) },
                             else_branch = e () => (float[] q) { q = Neg (x) }>"""
    assert read(proto(steps, inputs=", bool c")).id == "CT482"


def test_a_slope_that_the_caller_may_override_is_not_constant(read):
    made = proto("y = PRelu (h, slope)", slope=array(6, 1))
    assert read(as_inputs(made, "slope")).id == "CT484"


def test_it_is_reported(tmp_path):
    steps = "a = BatchNormalization (h, s, s, s, v) b = Add (a, r) y = Clip (b, half)"
    ones = np.abs(array(6)) + 1
    path = write(proto(steps, inputs=", float[2,6,12] r", s=array(6), v=ones), tmp_path)
    wanted = Epilogue("Clip", (0.5, np.inf), "r", ("residual", "activation"), 2, "y")
    (decision,) = optimize(path, options=OptimizeOptions(dry_run=True)).decisions
    assert decision.epilogue == wanted
    assert epilogue_text(wanted) == "Add of r, then Clip(0.5, inf) -> y"
    assert plain(decision)["epilogue"]["parameters"] == [0.5, None]
    for shown in inspect(path).nodes[0].decisions:
        assert shown.epilogue == wanted
