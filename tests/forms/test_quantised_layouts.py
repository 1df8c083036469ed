"""Every layout of quantised weights: what is stored, and what it means."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convt_onnx.forms import FORMS
from convt_onnx.spec import ConvTransposeSpec

from .lowering import initializers
from .quantising import (
    Quantised,
    applicable,
    assert_right,
    feed,
    lowered,
    make_parts,
    oracle,
    run,
)

# Forms that refuse quantised weights, each with a reason of its own.
FLOATS_ONLY = {
    "plugin",
    "unfold",
    "phases-blocked",
    "phases-col2im",
    "phases-rows",
    "phases-rows-joined",
    "phases-rows-col2im",
    "taps-col2im",
    "slices",
    "slices-phases",
    "bands",
    "bands-phases",
    "separable",
    "winograd",
}
# Not for as few groups as there are here.
MANY_GROUPS = {"phases-joined"}
# (C_in, C_out, group): dense, C_in != C_out, grouped either way, depthwise with and without a
# multiplier.
CHANNELS = [(4, 4, 1), (6, 2, 1), (4, 6, 2), (6, 3, 3), (4, 4, 4), (3, 6, 3), (1, 5, 1)]


def spec(channels=(4, 6, 2), kernel=(4, 3), strides=(2, 2), dilations=(1, 1), pads=(1, 0)):
    return ConvTransposeSpec(
        in_channels=channels[0],
        out_channels=channels[1],
        group=channels[2],
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads_begin=pads,
        pads_end=pads,
        output_padding=(0, 0),
    )


GEOMETRIES = {
    "overlap": spec(),
    "no overlap": spec(kernel=(2, 2)),
    "stride 1": spec(strides=(1, 1)),
    "dilated": spec(dilations=(3, 2), kernel=(2, 3)),
}


def with_channels(geometry, channels):
    g = GEOMETRIES[geometry]
    return spec(channels, g.kernel, g.strides, g.dilations)


@pytest.mark.parametrize("zero_points", ["absent", "zero", "each"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("channels", CHANNELS)
def test_every_form_of_every_layout(channels, axis, zero_points):
    tried = set()
    for geometry in GEOMETRIES:
        case = Quantised(
            with_channels(geometry, channels),
            (5, 4),
            axis=axis,
            zero_points=zero_points,
            opset=10 if axis is None else 13,
        )
        parts, feeds = make_parts(case), {"x": feed(case)}
        names = applicable(case)
        wanted = oracle(case, parts, feeds)
        got = run(lowered(case, names), feeds)
        for name in names:
            assert_right(case, parts, got[f"y_{name}"].astype(np.float64), wanted, name)
        tried |= set(names)
    assert tried == set(FORMS) - FLOATS_ONLY - MANY_GROUPS


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("channels", [(16, 32, 16), (32, 16, 16)])
def test_many_groups_of_every_layout(channels, axis):
    case = Quantised(
        with_channels("overlap", channels),
        (5, 4),
        axis=axis,
        zero_points="each",
        opset=13,
        mlas=True,
    )
    assert set(applicable(case)) >= MANY_GROUPS
    parts, feeds = make_parts(case), {"x": feed(case)}
    got = run(lowered(case, ["phases-joined"]), feeds)["y_phases-joined"]
    assert_right(case, parts, got.astype(np.float64), oracle(case, parts, feeds), "phases-joined")


@pytest.mark.parametrize("w_type", ["int4", "uint4"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_four_bits_stay_four_bits(axis, w_type):
    case = Quantised(spec(), (5, 4), axis=axis, w_type=w_type, zero_points="each")
    names = applicable(case)
    assert len(names) > 2
    for name in names:
        proto = lowered(case, [name])
        wide = [t for t in proto.graph.initializer if len(t.dims) >= 3]
        assert {t.data_type for t in wide} == {int(ir.DataType[w_type.upper()])}


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_no_float_weight_is_stored_and_integers_grow_by_the_padding_alone(axis, channels):
    for geometry in GEOMETRIES:
        case = Quantised(with_channels(geometry, channels), (5, 4), axis=axis, bias="float")
        size = int(np.prod(case.spec.weight_shape))
        values = np.unique(make_parts(case).arrays["w_q"], return_counts=True)
        names = applicable(case)
        assert len(names) > 2
        for name in names:
            arrays = initializers(lowered(case, [name]))
            packed = np.concatenate([a.ravel() for a in arrays.values() if a.dtype == np.int8])
            assert packed.size >= size
            # The same integers, and zeros.
            for value, count in zip(*values, strict=True):
                assert value == 0 or (packed == value).sum() == count, (name, value)
            floats = [a for a in arrays.values() if a.dtype == np.float32]
            # Scales and biases are vectors or columns.
            assert all(a.size == max(a.shape, default=1) for a in floats), name


@pytest.mark.parametrize("form", ["phases", "phases-window", "conv", "gemm"])
@pytest.mark.parametrize("axis", [None, 1])
def test_an_integer_bias_stays_integers(form, axis):
    geometry = {"conv": "stride 1", "gemm": "no overlap"}.get(form, "overlap")
    case = Quantised(GEOMETRIES[geometry], (5, 4), axis=axis)
    proto = lowered(case, [form])
    arrays = initializers(proto)
    (conv,) = (n for n in proto.graph.node if n.op_type == "Conv")
    (bias,) = (n for n in proto.graph.node if n.output[0] == conv.input[2])
    (weight,) = (n for n in proto.graph.node if n.output[0] == conv.input[1])
    assert bias.op_type == weight.op_type == "DequantizeLinear"
    assert arrays[bias.input[0]].dtype == np.int32
    x_scale = arrays["x_s"]
    np.testing.assert_allclose(arrays[bias.input[1]], x_scale * arrays[weight.input[1]], rtol=1e-6)
