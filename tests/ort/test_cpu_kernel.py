"""The library's CPU kernel against the oracle, inside ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convt_onnx.errors import GeometryError
from convt_onnx.plugins.conv_transpose.activations import ACTIVATIONS, make_activation
from convt_onnx.plugins.conv_transpose.schedule import GEMM
from convt_onnx.spec import ConvTransposeSpec

from .nodes import SIZES, SPECS, Node, assert_close, make_record


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", SPECS)
def test_geometries(library, name, dtype):
    spec = SPECS[name]
    node = Node(make_record(spec, dtype), SIZES[spec.ndim])
    (got,) = library.run(node.model(), node.feeds())
    assert_close(got, node.wanted(), dtype)


def test_packed_and_unpacked_weights_are_both_covered():
    kinds = {make_record(spec).schedule.kind for spec in SPECS.values()}
    assert kinds == {"gemm", "direct"}
    schedules = [make_record(spec).schedule for spec in SPECS.values()]
    packed = [s for s in schedules if s.kind == GEMM]
    assert {s.flat for s in packed} == {True, False}
    assert {s.interleave for s in packed} == {True, False}
    assert {all(s.fused) for s in packed} == {True, False}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_epilogues(library, kind, residual, dtype):
    alpha = {"clip": -0.4, "leaky_relu": 0.2, "elu": 1.5}.get(kind)
    activation = make_activation(kind, alpha, 0.9 if kind == "clip" else None)
    record = make_record(
        SPECS["grouped"], dtype, bias=residual, residual=residual, activation=activation
    )
    node = Node(record, (5, 6))
    (got,) = library.run(node.model(), node.feeds())
    assert_close(got, node.wanted(), dtype)


def test_open_sizes_and_an_empty_batch(library):
    node = Node(make_record(SPECS["vocoder"]), (7,))
    proto = node.model()
    for n, length in ((2, 7), (1, 1), (3, 20)):
        other = replace(node, batch=n, sizes=(length,))
        feeds = other.feeds()
        (got,) = library.run(proto, feeds)
        assert got.shape == (n, 10, length * 8)
    (empty,) = library.run(proto, {"X_in": np.zeros((0, 24, 7), np.float32)})
    assert empty.shape == (0, 10, 56)


axes = st.integers(1, 3).flatmap(
    lambda n: st.lists(
        st.tuples(
            st.integers(1, 5),  # kernel
            st.integers(1, 4),  # stride
            st.integers(1, 3),  # dilation
            st.integers(-1, 3),  # pads
            st.integers(-1, 3),
            st.integers(0, 2),  # output_padding
            st.integers(2, 6),  # size
        ),
        min_size=n,
        max_size=n,
    )
)
channels = st.tuples(st.sampled_from([1, 2, 5, 16]), st.integers(1, 4), st.integers(1, 3))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(axes=axes, channels=channels, dtype=st.sampled_from(["float32", "float16", "bfloat16"]))
def test_drawn_geometries(library, axes, channels, dtype):
    check_drawn(library, axes, channels, dtype)


@pytest.mark.long
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(axes=axes, channels=channels, dtype=st.sampled_from(["float32", "float16", "bfloat16"]))
def test_many_drawn_geometries(library, axes, channels, dtype):
    check_drawn(library, axes, channels, dtype)


def check_drawn(library, axes, channels, dtype):
    kernel, strides, dilations, begins, ends, extra, sizes = zip(*axes, strict=True)
    c_in, c_out, group = channels
    geometry = (kernel, strides, dilations, begins, ends, extra)
    spec = ConvTransposeSpec(c_in * group, c_out * group, group, *geometry)
    try:
        lengths = spec.output_sizes(sizes)
    except GeometryError:
        return
    if min(lengths) < 1:
        return
    node = Node(make_record(spec, dtype), sizes)
    (got,) = library.run(node.model(), node.feeds())
    wanted = node.wanted()
    scale = max(1.0, np.abs(wanted).max())
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= 2e-2 * scale if dtype != "float32" else 2e-5 * scale
