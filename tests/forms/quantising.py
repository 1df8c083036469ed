"""Drawn ConvTranspose geometries between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from hypothesis import strategies as st

from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.verify.session import Runner, Source

from .drawn import attributes
from .lowering import applicable_forms, forced

INTEGERS = {
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "int4": np.dtype(ml_dtypes.int4),
    "uint4": np.dtype(ml_dtypes.uint4),
    "int16": np.dtype(np.int16),
    "uint16": np.dtype(np.uint16),
}
FLOAT_TYPES = {"float32": np.float32, "float16": np.float16}


@dataclass(frozen=True)
class Quantised:
    """What stands around the node. `axis` None is one scale a tensor."""

    spec: ConvTransposeSpec
    sizes: tuple[int, ...]
    axis: int | None = None
    x_type: str = "uint8"
    w_type: str = "int8"
    zero_points: str = "absent"  # absent, zero, each
    bias: str | None = "int32"
    output: str | None = "quantised"  # quantised, relu, float
    dtype: str = "float32"
    opset: int = 21
    depth_to_space: bool = True
    shape_ops: bool = True
    mlas: bool = False
    dynamic: bool = False
    seed: int = 0

    @property
    def ir_version(self):
        return 8 if self.opset < 20 else 10


@dataclass
class Parts:
    """The arrays of a case, and what they stand for in float64."""

    arrays: dict[str, np.ndarray]
    step: float
    low: float
    high: float
    values: dict[str, np.ndarray] = field(default_factory=dict)


def _limits(dtype):
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def _along(array, axis, rank):
    if axis is None:
        return array.reshape(())
    shape = [1] * rank
    shape[axis] = -1
    return array.reshape(shape)


def make_parts(case: Quantised) -> Parts:
    rng = np.random.default_rng(case.seed)
    spec, floats = case.spec, FLOAT_TYPES[case.dtype]
    kind = INTEGERS[case.w_type]
    low, high = _limits(kind)
    # Half the range: ONNX Runtime's kernel for uint8 by int8 saturates on older processors.
    q = rng.integers(low // 2, high // 2 + 1, spec.weight_shape).astype(kind)
    count = 1 if case.axis is None else spec.weight_shape[case.axis]
    shape = () if case.axis is None else (count,)
    scale = rng.uniform(0.004, 0.06, shape).astype(floats)
    zero = np.zeros(shape, kind)
    if case.zero_points == "each":
        zero = rng.integers(max(low, -7), min(high, 8), shape).astype(kind)
    x_kind = INTEGERS[case.x_type]
    x_low, x_high = _limits(x_kind)
    x_zero = (x_low + x_high) // 2 + 1 - 3
    x_scale = np.float64(floats(4 / (x_high - x_low)))
    rank = spec.ndim + 2
    values = {
        "w": (q.astype(np.float64) - _along(zero.astype(np.float64), case.axis, rank))
        * _along(scale.astype(np.float64), case.axis, rank)
    }
    values["w"] = values["w"].astype(floats).astype(np.float64)
    arrays = {"w_q": q, "w_s": scale, "w_z": zero}
    arrays |= {"x_s": np.array(x_scale, floats), "x_z": np.array(x_zero, x_kind)}
    y_zero = x_low if case.output == "relu" else x_zero + 5
    y_scale = float(floats(np.abs(values["w"]).mean() * 8 / (x_high - x_low)))
    arrays |= {"y_s": np.array(y_scale, floats), "y_z": np.array(y_zero, x_kind)}
    parts = Parts(arrays, y_scale, y_scale * (x_low - y_zero), y_scale * (x_high - y_zero), values)
    _add_bias(case, parts, rng, x_scale)
    return parts


def _add_bias(case, parts, rng, x_scale):
    spec, floats, scale = case.spec, FLOAT_TYPES[case.dtype], parts.arrays["w_s"]
    if case.bias == "int32":
        b = rng.integers(-3000, 3000, spec.out_channels).astype(np.int32)
        by_output = case.axis == 1 or (case.axis == 0 and spec.in_per_group == 1)
        each = np.resize(scale, spec.out_channels) if case.axis == 1 else None
        if case.axis == 0 and spec.in_per_group == 1:
            each = np.repeat(scale, spec.out_per_group)
        b_scale = x_scale * (each if by_output else float(scale.reshape(-1)[0]))
        parts.arrays |= {"b_q": b, "b_s": np.asarray(b_scale).astype(floats)}
        parts.values["b"] = (b * parts.arrays["b_s"].astype(np.float64)).astype(floats)
    elif case.bias == "float":
        parts.arrays["b"] = rng.standard_normal(spec.out_channels).astype(floats)
        parts.values["b"] = parts.arrays["b"].astype(np.float64)


def build(case: Quantised, names, parts=None) -> onnx.ModelProto:
    """x -> Q -> DQ -> one ConvTranspose for each name -> [Relu] -> Q -> DQ -> y_name."""
    node, parts = onnx.helper.make_node, parts or make_parts(case)
    weight = ["w_q", "w_s"] + ([] if case.zero_points == "absent" else ["w_z"])
    axis = {} if case.axis is None else {"axis": case.axis}
    nodes = [
        node("QuantizeLinear", ["x", "x_s", "x_z"], ["x_q"]),
        node("DequantizeLinear", ["x_q", "x_s", "x_z"], ["x_d"]),
        node("DequantizeLinear", weight, ["w"], **axis),
    ]
    if case.bias == "int32":
        per_channel = {"axis": 0} if parts.arrays["b_s"].ndim else {}
        nodes.append(node("DequantizeLinear", ["b_q", "b_s"], ["b"], **per_channel))
    operands = ["x_d", "w"] + (["b"] if case.bias else [])
    for name in names:
        y = f"y_{name}"
        if case.output == "float":
            nodes.append(node("ConvTranspose", operands, [y], name=name, **attributes(case.spec)))
            continue
        nodes.append(
            node("ConvTranspose", operands, [f"{y}_f"], name=name, **attributes(case.spec))
        )
        before = f"{y}_f"
        if case.output == "relu":
            nodes.append(node("Relu", [before], [f"{y}_r"]))
            before = f"{y}_r"
        nodes.append(node("QuantizeLinear", [before, "y_s", "y_z"], [f"{y}_q"]))
        nodes.append(node("DequantizeLinear", [f"{y}_q", "y_s", "y_z"], [y]))
    read = {i for n in nodes for i in n.input}
    tensors = [ir.to_proto(ir.tensor(a, name=n)) for n, a in parts.arrays.items() if n in read]
    kind = int(ir.tensor(np.zeros(1, FLOAT_TYPES[case.dtype])).dtype)
    info = onnx.helper.make_tensor_value_info
    sizes = [f"L{i}" for i in range(case.spec.ndim)] if case.dynamic else list(case.sizes)
    x = info("x", kind, [2, case.spec.in_channels, *sizes])
    ys = [info(f"y_{n}", kind, [None] * (case.spec.ndim + 2)) for n in names]
    graph = onnx.helper.make_graph(nodes, "quantised", [x], ys, tensors)
    opsets = [onnx.helper.make_opsetid("", case.opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=case.ir_version)


def applicable(case: Quantised):
    """Forms that apply to the node, by the forms' own checks."""
    return applicable_forms(build(case, ["probe"]), case)


def lowered(case: Quantised, names, proto=None) -> onnx.ModelProto:
    """The model after every node was forced into the form of its name."""
    return forced(proto or build(case, names), names, case)


def feed(case: Quantised):
    shape = (2, case.spec.in_channels, *case.sizes)
    x = np.random.default_rng(case.seed + 1).standard_normal(shape)
    return x.astype(FLOAT_TYPES[case.dtype])


def run(proto, feeds):
    """Without the graph optimiser."""
    return Runner(Source(proto, Path(), as_written=True)).run(feeds)


def run_optimised(proto, feeds, folder):
    """With it; also the operators that it left."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    nodes = onnx.load(folder / "optimised.onnx").graph.node
    return dict(zip(names, session.run(names, feeds), strict=True)), [n.op_type for n in nodes]


def oracle(case: Quantised, parts: Parts, feeds) -> np.ndarray:
    """The node's result in float64 on the dequantised operands."""
    before = Source(build(case, [], parts), Path(), as_written=True)
    x = Runner(before, ["x_d"]).run(feeds)["x_d"]
    return conv_transpose(x, parts.values["w"], parts.values.get("b"), case.spec)


def assert_right(case: Quantised, parts: Parts, got, wanted, name, slack=0.0):
    assert got.shape == wanted.shape, (name, got.shape, wanted.shape)
    rounding = (3e-3 if case.dtype == "float16" else 1e-5) * max(1.0, np.abs(wanted).max())
    if case.output == "float":
        worst, bound = np.abs(got - wanted).max(), rounding
    else:
        worst = np.abs(got - np.clip(wanted, parts.low, parts.high)).max()
        bound = parts.step / 2 + rounding
    assert worst <= bound + slack, (name, worst, bound, parts.step)


@st.composite
def quantised(draw, **fixed):
    n = draw(st.sampled_from([1, 2, 2, 3]))

    def each(strategy):
        return tuple(draw(strategy) for _ in range(n))

    strides = each(st.integers(1, 3))
    if draw(st.booleans()):
        strides = strides[:1] * n
    group = draw(st.sampled_from([1, 1, 2, 3]))
    spec = ConvTransposeSpec(
        in_channels=group * draw(st.integers(1, 3)),
        out_channels=group * draw(st.integers(1, 3)),
        group=group,
        kernel=each(st.integers(1, 3 if n == 3 else 4)),
        strides=strides,
        dilations=each(st.integers(1, 2)) if draw(st.booleans()) else (1,) * n,
        pads_begin=each(st.integers(0, 3)),
        pads_end=each(st.integers(0, 3)),
        output_padding=each(st.integers(0, 2)),
    ).canonical()
    opset = draw(st.sampled_from([13, 17, 19, 21, 23]))
    wide = ["int4", "uint4", "int16", "uint16"] if opset >= 21 else []
    choices = {
        "axis": st.sampled_from([None, 0, 1]),
        "x_type": st.sampled_from(["uint8", "int8"] + (["int16", "uint16"] if wide else [])),
        "w_type": st.sampled_from(["int8", "int8", "uint8", *wide]),
        "zero_points": st.sampled_from(["absent", "zero", "each"]),
        "bias": st.sampled_from([None, "float", "int32"]),
        "output": st.sampled_from(["quantised", "quantised", "relu", "float"]),
        "dtype": st.sampled_from(["float32"] * 3 + (["float16"] if opset >= 19 else [])),
        "depth_to_space": st.booleans(),
        "shape_ops": st.booleans(),
        "mlas": st.booleans(),
        "dynamic": st.booleans(),
        "seed": st.integers(0, 1 << 20),
    }
    drawn = {k: draw(s) for k, s in choices.items() if k not in fixed}
    sizes = tuple(a.least_length + draw(st.integers(0, 3)) for a in spec.axes())
    return Quantised(spec=spec, sizes=sizes, opset=opset, **(drawn | fixed))
