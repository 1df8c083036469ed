"""The other judges: ONNX Runtime on a CPU, and a brute-force loop over every index."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from convt_onnx.padding import Attributes


class Refused(Exception):
    """ONNX Runtime loads or runs the node not."""


def runtime_is_a_judge():
    """Whether ONNX Runtime (1.28 on) refuses what it cannot run.

    Older ones read out of bounds where output_padding reaches the stride, and die of a stride or
    an input of 0.
    """
    import onnxruntime as ort

    return tuple(map(int, ort.__version__.split(".")[:2])) >= (1, 28)


def canonical_attributes(spec):
    """What a canonical node carries: explicit kernel_shape, pads and output_padding."""
    return Attributes(
        kernel_shape=spec.kernel,
        strides=spec.strides,
        dilations=spec.dilations,
        pads=spec.pads_begin + spec.pads_end,
        output_padding=spec.output_padding,
        group=spec.group,
    )


def run_nodes(jobs):
    """Outputs of several nodes in one session; `jobs` holds (attributes, (x, weight, bias)).

    Raises Refused where ONNX Runtime refuses any of them.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(
            _model(jobs).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, {f"x{i}": x for i, (_, (x, _, _)) in enumerate(jobs)})
    except Exception as error:
        # Its exceptions have no common base; another kind than these is a bug of the test.
        if type(error).__module__.startswith("onnxruntime"):
            raise Refused(str(error)) from error
        raise


def run_all(jobs):
    """As `run_nodes`, with None where a node is refused: halves the batch until it is found."""
    try:
        return run_nodes(jobs)
    except Refused:
        if len(jobs) == 1:
            return [None]
    half = len(jobs) // 2
    return run_all(jobs[:half]) + run_all(jobs[half:])


def brute_force(x, weight, bias, spec):
    """The definition in `convt_onnx.spec`, one multiply at a time."""
    out, shape = spec.output_sizes(x.shape[2:]), (1, -1) + (1,) * spec.ndim
    y = np.zeros((len(x), spec.out_channels, *out)) + np.reshape(bias, shape)
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    step = np.array([spec.strides, spec.dilations])
    for ci, m, *tap in np.ndindex(weight.shape):
        for i in np.ndindex(x.shape[2:]):
            o = tuple(np.array(i) * step[0] + np.array(tap) * step[1] - spec.pads_begin)
            if all(0 <= a < b for a, b in zip(o, out, strict=True)):
                co = ci // spec.in_per_group * spec.out_per_group + m
                y[(slice(None), co, *o)] += x[(slice(None), ci, *i)] * weight[(ci, m, *tap)]
    return y


def _model(jobs):
    parts = [_node(i, *job) for i, job in enumerate(jobs)]
    graph = helper.make_graph(
        [node for node, _, _, _ in parts],
        "nodes",
        [x for _, x, _, _ in parts],
        [y for _, _, y, _ in parts],
        [tensor for _, _, _, tensors in parts for tensor in tensors],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _node(index, attributes, arrays):
    x, y, w, b = (f"{name}{index}" for name in "xywb")
    node = helper.make_node("ConvTranspose", [x, w, b], [y])
    for field in fields(attributes):
        value = getattr(attributes, field.name)
        if value is None or (field.name == "auto_pad" and value == "NOTSET"):
            continue
        kind = onnx.AttributeProto.INTS if isinstance(value, tuple) else None
        node.attribute.append(helper.make_attribute(field.name, value, attr_type=kind))
    # Unknown sizes, so that the kernel and not shape inference decides.
    anything = [None] * arrays[0].ndim
    return (
        node,
        helper.make_tensor_value_info(x, TensorProto.FLOAT, anything),
        helper.make_tensor_value_info(y, TensorProto.FLOAT, anything),
        [numpy_helper.from_array(arrays[1], w), numpy_helper.from_array(arrays[2], b)],
    )
