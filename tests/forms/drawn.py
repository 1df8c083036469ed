"""Drawn ConvTranspose geometries, as a model with one node for each form that applies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from hypothesis import assume
from hypothesis import strategies as st

from convt_onnx.errors import GeometryError
from convt_onnx.plugin_node import HASHED
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.verify.session import Source
from convt_onnx.verify.twin import float32_twin

from .lowering import applicable_forms, forced

DTYPES = {
    "float32": (np.float32, onnx.TensorProto.FLOAT, 1e-5),
    "float16": (np.float16, onnx.TensorProto.FLOAT16, 2e-3),
    "bfloat16": (ml_dtypes.bfloat16, onnx.TensorProto.BFLOAT16, 1e-5),
    "float64": (np.float64, onnx.TensorProto.DOUBLE, 1e-5),
}
OPEN = ("static", "batch", "spatial", "all", "unknown")


@dataclass(frozen=True)
class Drawn:
    spec: ConvTransposeSpec
    sizes: tuple[int, ...]
    bias: bool
    opset: int
    dtype: str
    open: str
    run_time_weight: bool
    depth_to_space: bool
    shape_ops: bool
    mlas: bool
    seed: int
    batch: int = 2

    @property
    def plugin(self) -> str:
        """How the plugin's nodes are named; none in most cases, for the time they take."""
        return HASHED if self.seed % 4 == 0 else ""

    @property
    def ir_version(self) -> int:
        return 3 if self.opset < 9 else 8 if self.opset < 20 else 10

    def arrays(self, sizes, batch):
        rng = np.random.default_rng(self.seed)
        dtype = DTYPES[self.dtype][0]
        shapes = {"w": self.spec.weight_shape, "b": (self.spec.out_channels,)}
        shapes["x"] = (batch, self.spec.in_channels, *sizes)
        return {n: rng.standard_normal(s).astype(dtype) for n, s in shapes.items()}


def channels():
    """Groups, input and output channels of each; also what a blocked layout takes (8, 9, 16)."""
    few = st.integers(1, 3)
    small = st.tuples(st.sampled_from([1, 1, 2, 3]), few, few)
    depthwise = st.just((16, 1, 1))
    wide = st.tuples(st.just(1), st.sampled_from([8, 9]), few)
    grouped = st.tuples(st.just(2), st.just(8), st.sampled_from([4, 8]))
    return st.one_of(small, small, small, depthwise, wide, grouped)


@st.composite
def drawn(draw):
    n = draw(st.sampled_from([1, 1, 2, 2, 3]))
    small = st.integers(1, 3 if n == 3 else 4)

    def each(strategy):
        return tuple(draw(strategy) for _ in range(n))

    kernel, strides = each(small), each(st.integers(1, 3 if n == 3 else 5))
    if draw(st.integers(0, 2)) == 0:
        strides = strides[:1] * n
    dilations = each(small) if draw(st.booleans()) else (1,) * n
    group, ci, m = draw(channels())
    spec = ConvTransposeSpec(
        in_channels=group * ci,
        out_channels=group * m,
        group=group,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads_begin=each(st.integers(0, 6)),
        pads_end=each(st.integers(0, 4)),
        # Beyond the stride too: what a negative end pad or an output_shape asks for.
        output_padding=each(st.integers(0, 4)),
    ).canonical()
    sizes = tuple(a.least_length + draw(st.integers(0, 3)) for a in spec.axes())
    dtype = draw(st.sampled_from(["float32"] * 5 + ["float16", "bfloat16", "float64"]))
    oldest = {"bfloat16": 22, "float16": 7}.get(dtype, 1)  # what ONNX Runtime loads
    return Drawn(
        spec=spec,
        sizes=sizes,
        bias=draw(st.booleans()),
        opset=draw(st.sampled_from([v for v in OPSETS if v >= oldest])),
        dtype=dtype,
        open=draw(st.sampled_from(OPEN)),
        run_time_weight=draw(st.integers(0, 4)) == 0,
        depth_to_space=draw(st.booleans()),
        shape_ops=draw(st.booleans()),
        mlas=draw(st.booleans()),
        seed=draw(st.integers(0, 1 << 20)),
    )


OPSETS = (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26)


def attributes(spec):
    """As ONNX may write them: output_padding beyond stride and dilation as a negative end pad."""
    limits = [max(s, d) for s, d in zip(spec.strides, spec.dilations, strict=True)]
    beyond = [op if op >= n else 0 for op, n in zip(spec.output_padding, limits, strict=True)]
    ends = [e - b for e, b in zip(spec.pads_end, beyond, strict=True)]
    padding = [op - b for op, b in zip(spec.output_padding, beyond, strict=True)]
    return {
        "kernel_shape": list(spec.kernel),
        "strides": list(spec.strides),
        "dilations": list(spec.dilations),
        "pads": [*spec.pads_begin, *ends],
        "output_padding": padding,
        "group": spec.group,
    }


def x_shape(case):
    if case.open == "unknown":
        return None
    batch = "N" if case.open in ("batch", "all") else case.batch
    axes = [f"L{i}" if case.open in ("spatial", "all") else s for i, s in enumerate(case.sizes)]
    return [batch, case.spec.in_channels, *axes]


def build(case, names):
    """A model with one ConvTranspose for each name, all of one input, weight and bias."""
    helper, kind = onnx.helper, DTYPES[case.dtype][1]
    operands = ["w", "b"] if case.bias else ["w"]
    nodes = [
        helper.make_node(
            "ConvTranspose", ["x", *operands], [f"y_{n}"], name=n, **attributes(case.spec)
        )
        for n in names
    ]
    arrays = case.arrays(case.sizes, 2)
    inputs = [helper.make_tensor_value_info("x", kind, x_shape(case))]
    tensors = []
    for name in operands:
        if case.run_time_weight or case.ir_version < 4:
            inputs.append(helper.make_tensor_value_info(name, kind, arrays[name].shape))
        if not case.run_time_weight:
            tensors.append(ir.to_proto(ir.tensor(arrays[name], name=name)))
    rank = [None] * (case.spec.ndim + 2)
    outputs = [helper.make_tensor_value_info(f"y_{n}", kind, rank) for n in names]
    graph = helper.make_graph(nodes, "drawn", inputs, outputs, tensors)
    opset = helper.make_opsetid("", case.opset)
    return helper.make_model(graph, opset_imports=[opset], ir_version=case.ir_version)


def applicable(case):
    """Forms that apply to the drawn node, by the forms' own checks."""
    return applicable_forms(build(case, ["probe"]), case, case.plugin)


def lowered(case, names):
    """The model after every node was forced into the form of its name."""
    return forced(build(case, names), names, case, case.plugin)


def run(case, proto, feeds):
    """Outputs in ONNX Runtime, one thread; in float32 where it has no kernel for the type."""
    if case.dtype in ("bfloat16", "float64"):
        proto = float32_twin(Source(proto, Path())).proto
        feeds = {n: a.astype(np.float32) for n, a in feeds.items()}
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=providers)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def check(case):
    """Every applicable form against the oracle, at the drawn sizes and, where open, others."""
    names = applicable(case)
    assume(names)
    proto = lowered(case, names)
    if case.open != "unknown":  # the checker wants a rank of every input
        onnx.checker.check_model(proto)
    trials = [(case.sizes, 2)]
    if case.open in ("all", "unknown"):
        trials.append((tuple(s + 2 + i for i, s in enumerate(case.sizes)), 3))
    for sizes, batch in trials:
        compare(case, proto, names, sizes, batch)


def compare(case, proto, names, sizes, batch):
    arrays = case.arrays(sizes, batch)
    bias = arrays["b"] if case.bias else None
    try:
        wanted = conv_transpose(arrays["x"], arrays["w"], bias, case.spec)
    except GeometryError:
        raise AssertionError(f"the drawn sizes give no output: {sizes}") from None
    fed = {"x", "w", "b"} if case.run_time_weight else {"x"}
    got = run(
        case, proto, {n: a for n, a in arrays.items() if n in fed and (n != "b" or case.bias)}
    )
    tolerance = DTYPES[case.dtype][2] * max(1.0, float(np.abs(wanted).max()))
    for name in names:
        y = got[f"y_{name}"]
        assert y.shape == wanted.shape, (name, y.shape, wanted.shape)
        worst = float(np.abs(y.astype(np.float64) - wanted).max())
        assert worst <= tolerance, (name, worst, tolerance)
