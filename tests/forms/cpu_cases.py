"""Nodes for ONNX Runtime's CPU kernels, and what a form makes of them."""

from __future__ import annotations

import platform

import onnx
import onnxruntime as ort
from hypothesis import strategies as st

from convt_onnx.spec import ConvTransposeSpec

from .drawn import Drawn, compare, lowered
from .lowering import initializers

# Processors whose convolutions have a layout with channels in blocks.
X86 = platform.machine() in ("x86_64", "AMD64")


def spec(n, channels, group=1, k=4, s=2, p=1):
    ci, co = channels
    return ConvTransposeSpec(
        ci, co, group, (k,) * n, (s,) * n, (1,) * n, (p,) * n, (p + 1,) * n, (0,) * n
    )


def case_of(each, sizes, open_sizes="static", **changed):
    fields = {
        "spec": each,
        "sizes": sizes,
        "bias": True,
        "opset": 17,
        "dtype": "float32",
        "open": open_sizes,
        "run_time_weight": False,
        "depth_to_space": True,
        "shape_ops": True,
        "mlas": True,
        "seed": 3,
    }
    return Drawn(**(fields | changed))


def triples(least, most):
    return st.tuples(*[st.integers(least, most)] * 3)


@st.composite
def cases_of_three_axes(draw, opsets):
    """Sizes known, the batch open or not."""
    strides = draw(triples(1, 3))
    group, ci, m = draw(st.sampled_from([(1, 3, 2), (1, 8, 1), (2, 2, 3), (3, 1, 2), (2, 8, 4)]))
    each = ConvTransposeSpec(
        in_channels=group * ci,
        out_channels=group * m,
        group=group,
        kernel=draw(triples(1, 4)),
        strides=strides,
        dilations=draw(st.sampled_from([(1, 1, 1), (2, 1, 1), (1, 2, 3), (2, 3, 2)])),
        pads_begin=draw(triples(0, 3)),
        pads_end=draw(triples(0, 3)),
        output_padding=tuple(draw(st.integers(0, s - 1)) for s in strides),
    ).canonical()
    return case_of(
        each,
        tuple(a.least_length + draw(st.integers(0, 2)) for a in each.axes()),
        draw(st.sampled_from(["static", "batch"])),
        bias=draw(st.booleans()),
        opset=draw(st.sampled_from(opsets)),
        run_time_weight=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
    )


def assert_right(case, *forms):
    """At the sizes of the case and, where they are open, at others."""
    proto = lowered(case, forms)
    compare(case, proto, forms, case.sizes, 2)
    if case.open == "all":
        compare(case, proto, forms, tuple(n + 2 for n in case.sizes), 3)


def transposed_rows(proto):
    """Rows of every matrix transposition, [N, g, rows, columns] -> [N, g, columns, rows]."""
    initial = initializers(proto)
    shapes = {
        node.output[0]: initial[node.input[1]]
        for node in proto.graph.node
        if node.op_type == "Reshape"
    }
    return [
        int(shapes[node.input[0]][2])
        for node in proto.graph.node
        if node.op_type == "Transpose" and list(node.attribute[0].ints) == [0, 1, 3, 2]
    ]


def permutations(proto):
    """Of every Transpose, in order."""
    return [list(n.attribute[0].ints) for n in proto.graph.node if n.op_type == "Transpose"]


def optimised(proto, tmp_path):
    """Nodes of the graph that ONNX Runtime makes of it."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 4
    ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath).graph.node
