"""Chains of neighbours drawn at random, in every spelling of a constant, against both judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from convt_onnx.decide import Choice
from convt_onnx.padding import Attributes, resolve
from convt_onnx.passes.base import Context
from convt_onnx.passes.fold_neighbours import FoldNeighbours
from convt_onnx.reference import conv_transpose
from convt_onnx.targets import get_target

from ..verify.judging import run

OPERATORS = ("Mul", "Div", "Add", "Sub", "BatchNormalization")
KINDS = {
    "float32": (np.float32, TensorProto.FLOAT, 2e-5),
    "float64": (np.float64, TensorProto.DOUBLE, 2e-5),
    "float16": (np.float16, TensorProto.FLOAT16, 2e-2),
}


@dataclass(frozen=True)
class Step:
    """One node: `left` puts a constant of that shape first; `chain` computes it from another."""

    op: str
    shape: tuple[int, ...]
    left: bool
    chain: bool
    values: dict[str, np.ndarray] = field(repr=False)

    def folds(self, channels: int, rank: int) -> bool:
        """What broadcasting says: one value a channel, whatever the sizes."""
        if self.op == "BatchNormalization":
            return True
        probe = (2, channels, *range(3, 1 + rank))
        try:
            same = np.broadcast_shapes(probe, self.shape) == probe
        except ValueError:
            return False
        aligned = (1,) * (rank - len(self.shape)) + self.shape
        spatial = any(n != 1 for i, n in enumerate(aligned) if i != 1)
        return same and not spatial and not (self.op == "Div" and self.left)


@st.composite
def steps(draw, channels, spatial):
    op = draw(st.sampled_from(OPERATORS))
    n = len(spatial)
    per_channel = [(channels, *[1] * n), (1, channels, *[1] * n)]
    alone = [(), (1,), (1,) * n, (1,) * (n + 2)]
    # The last sizes of the output, so that the model is valid: not per channel, but for C = 1.
    others = [spatial[-1:], spatial, (1, *spatial), (channels, *spatial)]
    shape = draw(st.sampled_from(per_channel * 3 + alone * 2 + others))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    values = {"c": rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)}
    if op == "BatchNormalization":
        values = {n: rng.standard_normal(channels) for n in ("gamma", "beta", "mean")}
        values["var"] = rng.uniform(0.5, 2, channels)
    return Step(op, shape, draw(st.booleans()), draw(st.booleans()), values)


@dataclass(frozen=True)
class Case:
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    group: int
    ci: int
    m: int
    bias: bool
    opset: int
    kind: str
    seed: int
    steps: tuple[Step, ...]

    @property
    def channels(self) -> int:
        return self.group * self.m


@st.composite
def cases(draw):
    n = draw(st.sampled_from([1, 2, 2, 3]))
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(n))
    strides = tuple(draw(st.integers(1, 3)) for _ in range(n))
    pads = tuple(draw(st.integers(0, max(0, k - 1))) for k in kernel * 2)
    group, m = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    spatial = tuple(
        3 * s + k - b - e for k, s, b, e in zip(kernel, strides, pads[:n], pads[n:], strict=True)
    )
    chain = draw(st.lists(steps(group * m, spatial), min_size=1, max_size=4))
    return Case(
        kernel,
        strides,
        pads,
        group,
        draw(st.integers(1, 3)),
        m,
        draw(st.booleans()),
        draw(st.integers(7, 22)),
        draw(st.sampled_from(["float32"] * 4 + list(KINDS))),
        draw(st.integers(0, 1 << 16)),
        tuple(chain),
    )


def build(case):
    """The model, its input, and what it computes in float64 from the rounded constants."""
    dtype, kind, _ = KINDS[case.kind]
    rng = np.random.default_rng(case.seed)
    x = rng.standard_normal((2, case.group * case.ci, *[4] * len(case.kernel))).astype(dtype)
    tensors = {"w": rng.standard_normal((x.shape[1], case.m, *case.kernel)).astype(dtype)}
    if case.bias:
        tensors["b"] = rng.standard_normal(case.channels).astype(dtype)
    attributes = {"strides": case.strides, "pads": case.pads, "group": case.group}
    nodes = [helper.make_node("ConvTranspose", ["x", *tensors], ["y0"], "ct", **attributes)]
    for i, step in enumerate(case.steps):
        nodes += step_nodes(i, step, tensors, dtype, kind)
    shape = [None] * x.ndim
    graph = helper.make_graph(
        nodes,
        "drawn",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(f"y{len(case.steps)}", kind, shape)],
        [numpy_helper.from_array(a, n) for n, a in tensors.items()],
    )
    imports = [helper.make_opsetid("", case.opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), {"x": x}


def step_nodes(i, step, tensors, dtype, kind):
    names = {n: f"{n}{i}" for n in step.values}
    tensors.update({names[n]: np.asarray(a).astype(dtype) for n, a in step.values.items()})
    if step.op == "BatchNormalization":
        return [helper.make_node(step.op, [f"y{i}", *names.values()], [f"y{i + 1}"])]
    constant, extra = names["c"], []
    if step.chain:
        extra = [helper.make_node("Neg", [constant], [f"negated{i}"])]
        constant = f"negated{i}"
    operands = [constant, f"y{i}"] if step.left else [f"y{i}", constant]
    return [*extra, helper.make_node(step.op, operands, [f"y{i + 1}"])]


def folded(proto):
    model = ir.from_proto(proto)
    context = Context(get_target("ort-cpu"), {}, Choice())
    result = FoldNeighbours(context)(model)
    again = FoldNeighbours(Context(get_target("ort-cpu"), {}, Choice()))(model)
    assert not again.modified
    after = ir.to_proto(model)
    onnx.checker.check_model(after)
    return after, result.modified


def normalised(y, gamma, beta, mean, var):
    gamma, beta, mean, var = (v.reshape(-1, *[1] * (y.ndim - 2)) for v in (gamma, beta, mean, var))
    return (y - mean) / np.sqrt(var + 1e-5) * gamma + beta


RULES = {
    "Mul": np.multiply,
    "Div": np.divide,
    "Add": np.add,
    "Sub": np.subtract,
    "Neg": np.negative,
    "BatchNormalization": normalised,
}


@np.errstate(divide="ignore", invalid="ignore")
def in_float64(proto, feeds):
    """Every value by name, without rounding between the nodes."""
    tensors = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    values = {n: np.asarray(a, np.float64) for n, a in (tensors | feeds).items()}
    for node in proto.graph.node:
        operands = [values[n] for n in node.input]
        if node.op_type == "ConvTranspose":
            given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            known = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
            x, w = operands[:2]
            spec = resolve(Attributes(**known), w.shape, x.shape[2:])
            values[node.output[0]] = conv_transpose(x, w, *operands[2:] or [None], spec)
        else:
            values[node.output[0]] = RULES[node.op_type](*operands)
    return values


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(cases())
def test_drawn_chains(case):
    proto, feeds = build(case)
    onnx.checker.check_model(proto)
    after, modified = folded(proto)
    rank = 2 + len(case.kernel)
    foldable = list(takewhile(lambda s: s.folds(case.channels, rank), case.steps))
    assert modified == bool(foldable)
    left = [n.op_type for n in after.graph.node if n.op_type not in ("ConvTranspose", "Neg")]
    assert left == [s.op for s in case.steps[len(foldable) :]]
    wanted = in_float64(proto, feeds)
    tolerance = KINDS[case.kind][2]
    # The values behind what was folded: a division by them, which stays, is ill-conditioned.
    name = f"y{len(foldable)}"
    made = [wanted[f"y{i}"] for i in range(len(foldable) + 1)]
    scale = tolerance * max(float(np.abs(v).max()) for v in made)
    np.testing.assert_allclose(in_float64(after, feeds)[name], wanted[name], rtol=0, atol=scale)
    if case.kind == "float32" and not left:
        for tried in (proto, after):
            (got,) = run(tried, feeds).values()
            np.testing.assert_allclose(got, wanted[name], rtol=0, atol=scale)
