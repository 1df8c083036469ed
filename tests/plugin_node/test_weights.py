"""Packing and unpacking by nodes are those of the kernels, whatever the schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convt_onnx.errors import UsageError
from convt_onnx.plugin_node import PluginRecord
from convt_onnx.plugin_node.body import free_emitter
from convt_onnx.plugin_node.record import read_record
from convt_onnx.plugin_node.weights import pack_by_nodes, unpack_by_nodes
from convt_onnx.plugins.conv_transpose.activations import Activation
from convt_onnx.plugins.conv_transpose.geometry import fusable, lifted_axes
from convt_onnx.plugins.conv_transpose.packing import pack, unpack
from convt_onnx.plugins.conv_transpose.schedule import GEMM, Schedule
from convt_onnx.spec import ConvTransposeSpec

from ..geometry.strategies import cases
from ..verify.judging import run


@st.composite
def packings(draw):
    spec = draw(cases()).spec.canonical()
    fused = [fusable(a) and draw(st.booleans()) for a in lifted_axes(spec)]
    schedule = Schedule(
        GEMM,
        (fused[0], fused[1], fused[2]),
        (draw(st.booleans()),) * 3,
        block_m=32,
        block_n=draw(st.sampled_from([16, 32])),
        block_k=draw(st.sampled_from([16, 32])),
        flat=draw(st.booleans()),
        interleave=fused[2] and draw(st.booleans()),
        k_major=draw(st.booleans()),
    )
    return PluginRecord(spec, "float32", True, False, Activation(), schedule)


def through_nodes(make, array, shape):
    """The array after the nodes, in ONNX Runtime."""
    em = free_emitter(17)
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(array.shape))
    y = em.reshape(make(em, x), shape)
    y.name, y.type, y.shape = "y", ir.TensorType(ir.DataType.FLOAT), ir.Shape(shape)
    graph = ir.Graph([x], [y], nodes=em.nodes, opset_imports={"": 17}, name="g")
    proto = ir.to_proto(ir.Model(graph, ir_version=9))
    onnx.checker.check_model(proto)
    return run(proto, {"x": array})["y"]


@settings(deadline=None, max_examples=40)
@given(packings(), st.integers(0, 99))
def test_nodes_pack_and_unpack_as_the_kernels_read(record, seed):
    weight = np.random.default_rng(seed).standard_normal(record.spec.weight_shape)
    weight = weight.astype(np.float32)
    packing = record.packing
    packed = pack(weight, packing)
    assert np.array_equal(unpack(packed, packing).reshape(weight.shape), weight)
    forth = through_nodes(lambda em, v: pack_by_nodes(em, v, packing), weight, packing.shape)
    back = through_nodes(lambda em, v: unpack_by_nodes(em, v, packing), packed, weight.shape)
    assert np.array_equal(forth, packed)
    assert np.array_equal(back, weight)


@settings(deadline=None, max_examples=40)
@given(packings(), st.sampled_from(["float16", "bfloat16", "float32"]), st.booleans())
def test_a_record_is_read_back_from_its_attributes(record, dtype, residual):
    record = replace(record, dtype=dtype, has_residual=residual, activation=Activation("elu", 0.3))
    again = read_record(record.attributes(), dtype)
    assert again.digest == record.digest
    assert again.identity("hashed") == record.identity("hashed")
    assert replace(again, activation=record.activation) == record
    assert (
        read_record(record.attributes(), "float16").digest
        == replace(record, dtype="float16").digest
    )


SPEC = ConvTransposeSpec(4, 6, 2, (3, 2), (2, 1), (1, 1), (0, 1), (1, 0), (0, 0))
SCHEDULE = Schedule(GEMM, (True,) * 3, (True,) * 3, 32, 32, 16)
RECORD = PluginRecord(SPEC, "float32", True, False, Activation(), SCHEDULE)
WRONG = {
    "strides": [0, 1],
    "pads": [1],
    "group": 3,
    "activation": "softmax",
    "alpha": float("nan"),
    "schedule": "gemm",
    "packed": 0,
    "kernel_shape": "3x3",
    "in_channels": [1],
}


@pytest.mark.parametrize("name", WRONG)
def test_attributes_that_make_no_sense_are_refused(name):
    attributes = RECORD.attributes()
    assert read_record(attributes, "float32") == RECORD
    with pytest.raises(UsageError, match="no node of the plugin"):
        read_record(attributes | {name: WRONG[name]}, "float32")
    del attributes[name]
    with pytest.raises(UsageError, match=f"no attribute '{name}'"):
        read_record(attributes, "float32")


def test_equal_settings_have_one_name_and_others_another():
    names = {
        RECORD.digest,
        replace(RECORD, dtype="float16").digest,
        replace(RECORD, has_bias=False).digest,
        replace(RECORD, activation=Activation("relu")).digest,
        replace(RECORD, schedule=replace(SCHEDULE, block_m=64)).digest,
    }
    assert len(names) == 5
    assert all(len(n) == 12 and int(n, 16) >= 0 for n in names)
