from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convt_onnx.dilated import ELEMENTS, as_dilated_convolution
from convt_onnx.errors import GeometryError, UsageError
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec

from .strategies import BATCH, Case, cases
from .xla import Xla

# 2 -> 3 channels a group, 2 groups.
SPEC = ConvTransposeSpec(
    in_channels=4,
    out_channels=6,
    group=2,
    kernel=(3, 4),
    strides=(2, 3),
    dilations=(2, 1),
    pads_begin=(1, 7),
    pads_end=(0, 2),
    output_padding=(1, 0),
)


@pytest.fixture(scope="module")
def xla():
    pytest.importorskip("jax")
    try:
        return Xla()
    except Exception as error:
        pytest.skip(f"this jax runs no StableHLO text: {type(error).__name__}: {error}")


def by_xla(xla, case, dtype, element):
    x, w, b = case.arrays(dtype)
    convolution = as_dilated_convolution(case.spec)
    text = convolution.stablehlo(BATCH, case.sizes, element, bias=True)
    assert text.count("stablehlo.convolution") == 1
    return xla(text, x, convolution.regroup_weight(w), b)


@settings(max_examples=64, deadline=None)
@given(case=cases(longest=2))
def test_xla_agrees_with_the_oracle(xla, case):
    y = by_xla(xla, case, np.float64, "f64")
    np.testing.assert_allclose(y, conv_transpose(*case.arrays(), case.spec), rtol=0, atol=1e-11)


AXES = [
    # kernel, stride, dilation, begin, end, output_padding
    (4, 2, 1, 1, 1, 0),
    (3, 2, 1, 1, 1, 1),
    (2, 5, 1, 0, 0, 4),  # kernel < stride
    (1, 3, 1, 2, 1, 0),  # low and high negative
    (3, 1, 3, 0, 9, 0),  # high negative
    (3, 2, 4, 11, -2, 1),  # low negative, gcd 2
    (2, 2, 1, -3, 0, 0),
]


@pytest.mark.parametrize("channels", [(2, 3, 1), (4, 6, 2), (3, 3, 3), (3, 6, 3)])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_named_geometries_with_xla(xla, ndim, channels):
    for first in range(len(AXES) if ndim == 1 else 2):
        chosen = [AXES[(first + 3 * axis) % len(AXES)] for axis in range(ndim)]
        spec = ConvTransposeSpec(*channels, *zip(*chosen, strict=True))
        case = Case(spec, (6, 5, 6)[:ndim], seed=first)
        y = by_xla(xla, case, np.float64, "f64")
        np.testing.assert_allclose(
            y, conv_transpose(*case.arrays(), spec), rtol=0, atol=1e-11, err_msg=str(spec)
        )


@pytest.mark.parametrize(
    ("element", "dtype", "tolerance"),
    [
        ("f32", np.float32, 1e-5),
        ("f64", np.float64, 1e-12),
        ("f16", np.float16, 2e-2),
        ("bf16", ml_dtypes.bfloat16, 2e-1),
    ],
)
def test_element_types_with_xla(xla, element, dtype, tolerance):
    case = Case(SPEC, (5, 4), seed=1)
    y = by_xla(xla, case, dtype, element)
    assert y.dtype == dtype
    expected = conv_transpose(*case.arrays(dtype), SPEC)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=0, atol=tolerance)


def test_without_bias_with_xla(xla):
    x, w, _ = Case(SPEC, (5, 4), seed=2).arrays()
    convolution = as_dilated_convolution(SPEC)
    y = xla(convolution.stablehlo(BATCH, (5, 4), "f64"), x, convolution.regroup_weight(w))
    np.testing.assert_allclose(y, conv_transpose(x, w, None, SPEC), rtol=0, atol=1e-12)


def test_text():
    text = as_dilated_convolution(SPEC).stablehlo(8, (5, 4), "bf16", bias=True)
    assert text == (
        "module @conv_transpose {\n"
        "  func.func public @main(%x: tensor<8x4x5x4xbf16>, %w: tensor<6x2x3x4xbf16>,"
        " %b: tensor<6xbf16>) -> tensor<8x6x13x4xbf16> {\n"
        "    %y = stablehlo.convolution(%x, %w)\n"
        "      dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],\n"
        "      window = {stride = [1, 1], pad = [[3, 5], [-4, 1]],\n"
        "                lhs_dilate = [2, 3], rhs_dilate = [2, 1]}\n"
        "      {batch_group_count = 1 : i64, feature_group_count = 2 : i64}\n"
        "      : (tensor<8x4x5x4xbf16>, tensor<6x2x3x4xbf16>) -> tensor<8x6x13x4xbf16>\n"
        "    %rows = stablehlo.broadcast_in_dim %b, dims = [1] :"
        " (tensor<6xbf16>) -> tensor<8x6x13x4xbf16>\n"
        "    %sum = stablehlo.add %y, %rows : tensor<8x6x13x4xbf16>\n"
        "    return %sum : tensor<8x6x13x4xbf16>\n"
        "  }\n"
        "}\n"
    )


def test_fields():
    convolution = as_dilated_convolution(SPEC)
    assert convolution.ndim == 2
    assert (convolution.lhs_dilation, convolution.rhs_dilation) == ((2, 3), (2, 1))
    assert (convolution.low, convolution.high) == ((3, -4), (5, 1))
    assert convolution.feature_group_count == 2
    assert convolution.weight_shape == (6, 2, 3, 4)


@settings(deadline=None)
@given(cases())
def test_output_sizes_are_those_of_the_spec(case):
    convolution = as_dilated_convolution(case.spec)
    assert convolution.output_sizes(case.sizes) == case.spec.output_sizes(case.sizes)


@settings(deadline=None)
@given(case=cases(), dtype=st.sampled_from((np.float32, np.float16, ml_dtypes.bfloat16)))
def test_regroup_weight(case, dtype):
    spec = case.spec
    weight = case.arrays(dtype)[1]
    regrouped = as_dilated_convolution(spec).regroup_weight(weight)
    assert regrouped.dtype == dtype
    assert regrouped.flags.c_contiguous
    assert regrouped.shape == (spec.out_channels, spec.in_per_group, *spec.kernel)
    for ci, m, *tap in np.ndindex(weight.shape):
        g, i = divmod(ci, spec.in_per_group)
        flipped = tuple(k - 1 - t for k, t in zip(spec.kernel, tap, strict=True))
        assert regrouped[(g * spec.out_per_group + m, i, *flipped)] == weight[(ci, m, *tap)]


def test_regroup_weight_refuses_another_shape():
    convolution = as_dilated_convolution(SPEC)
    for shape in ((6, 2, 3, 4), (4, 3, 4, 3), (4, 3, 3)):
        with pytest.raises(
            GeometryError, match=r"the weight has the wrong shape(.|\n)*\[4, 3, 3, 4\]"
        ):
            convolution.regroup_weight(np.zeros(shape))


@pytest.mark.parametrize("sizes", [(5,), (5, 4, 3), (0, 4), (5, -1)])
def test_refuses_senseless_sizes(sizes):
    with pytest.raises(GeometryError, match="expected 2 positive spatial sizes"):
        as_dilated_convolution(SPEC).stablehlo(1, sizes)


def test_refuses_an_empty_output():
    convolution = as_dilated_convolution(replace(SPEC, pads_begin=(1, 10)))
    assert "tensor<1x6x13x1xf32>" in convolution.stablehlo(1, (5, 4))
    with pytest.raises(GeometryError, match="the output would be empty") as e:
        convolution.stablehlo(1, (5, 3))
    assert "[13, -2]" in e.value.where


def test_refuses_an_unknown_element():
    assert ELEMENTS == ("f32", "f64", "f16", "bf16")
    with pytest.raises(UsageError, match="choose one of f32, f64, f16, bf16"):
        as_dilated_convolution(SPEC).stablehlo(1, (5, 4), "i8")
