from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from convt_onnx.errors import GeometryError
from convt_onnx.reference import conv_transpose, conv_transpose_gradients
from convt_onnx.spec import ConvTransposeSpec

from .runtimes import Refused, brute_force, canonical_attributes, run_nodes, runtime_is_a_judge
from .strategies import Case, cases

# 1-D; 2 -> 3 channels a group, 2 groups.
SPEC = ConvTransposeSpec(4, 6, 2, (3,), (2,), (1,), (1,), (0,), (0,))

X, W, B = np.ones((2, 4, 5)), np.ones((4, 3, 3)), np.ones(6)


def test_scatter_by_hand():
    spec = ConvTransposeSpec(1, 1, 1, (3,), (2,), (1,), (1,), (1,), (1,))
    y = conv_transpose([[[1, 2]]], [[[10, 20, 30]]], [0.5], spec)
    # Full rows 10, 20, 30 + 20, 40, 60; the first is cropped, the last is back by output_padding.
    np.testing.assert_array_equal(y, [[[20.5, 50.5, 40.5, 60.5]]])
    assert y.dtype == np.float64


def test_groups_by_hand():
    spec = ConvTransposeSpec(2, 4, 2, (1,), (1,), (1,), (0,), (0,), (0,))
    y = conv_transpose([[[1], [10]]], [[[2], [3]], [[4], [5]]], None, spec)
    np.testing.assert_array_equal(y.ravel(), [2, 3, 40, 50])


def test_rows_past_the_taps_hold_the_bias():
    spec = ConvTransposeSpec(1, 1, 1, (1,), (3,), (1,), (-2,), (0,), (2,))
    y = conv_transpose([[[7, 8]]], [[[1]]], [0.25], spec)
    np.testing.assert_array_equal(y.ravel(), [0.25, 0.25, 7.25, 0.25, 0.25, 8.25, 0.25, 0.25])


@settings(max_examples=150, deadline=None)
@given(cases(longest=2))
def test_against_brute_force(case):
    x, w, b = case.arrays()
    expected = brute_force(x, w, b, case.spec)
    np.testing.assert_allclose(conv_transpose(x, w, b, case.spec), expected, rtol=0, atol=1e-12)
    without = conv_transpose(x, w, None, case.spec)
    np.testing.assert_allclose(
        without, expected - b.reshape(1, -1, *(1,) * case.spec.ndim), rtol=0, atol=1e-12
    )


@pytest.mark.skipif(not runtime_is_a_judge(), reason="this ONNX Runtime dies of it")
@pytest.mark.parametrize(("batch", "length"), [(0, 5), (2, 0)])
def test_an_empty_input_as_onnx_runtime_has_it(batch, length):
    spec = ConvTransposeSpec(4, 6, 2, (5,), (2,), (1,), (0,), (0,), (0,))
    arrays = (np.ones((batch, 4, length)), np.ones((4, 3, 5)), np.arange(6.0))
    y = conv_transpose(*arrays, spec)
    (theirs,) = run_nodes(
        [(canonical_attributes(spec), tuple(a.astype(np.float32) for a in arrays))]
    )
    assert y.shape == theirs.shape
    np.testing.assert_array_equal(y, theirs)
    gradients = conv_transpose_gradients(y, *arrays[:2], spec)
    assert not gradients.weight.any()
    np.testing.assert_array_equal(gradients.bias, y.sum(axis=(0, 2)))


@pytest.mark.parametrize(
    ("x", "w", "b", "message"),
    [
        (X[0], W, B, r"the input must be \[N, 4\] and 1 spatial axes"),
        (X[..., None], W, B, r"the input must be \[N, 4\] and 1 spatial axes"),
        (X[:, :3], W, B, r"the input must be \[N, 4\]"),
        (X, W[:3], B, "the weight has the wrong shape"),
        (X, W.swapaxes(0, 1), B, "the weight has the wrong shape"),
        (X, W[..., :2], B, "the weight has the wrong shape"),
        (X, W, B[:3], "the bias has the wrong shape"),
        (X, W, B[None], "the bias has the wrong shape"),
        (X[..., :0], W, B, "the output would be empty"),
    ],
)
def test_refuses_what_does_not_fit(x, w, b, message):
    with pytest.raises(GeometryError, match=message):
        conv_transpose(x, w, b, SPEC)


def test_gradients_refuse_what_does_not_fit():
    dy = np.ones((2, 6, *SPEC.output_sizes((5,))))
    conv_transpose_gradients(dy, X, W, SPEC)
    with pytest.raises(GeometryError, match="the grad_output has the wrong shape"):
        conv_transpose_gradients(dy[..., 1:], X, W, SPEC)
    with pytest.raises(GeometryError, match="the weight has the wrong shape"):
        conv_transpose_gradients(dy, X, W[1:], SPEC)


def test_operands_are_left_alone():
    x, w, b = X.copy(), W.copy(), B.copy()
    dy = np.ones((2, 6, *SPEC.output_sizes((5,))))
    conv_transpose(x, w, b, SPEC)
    conv_transpose_gradients(dy, x, w, SPEC)
    for array, before in ((x, X), (w, W), (b, B), (dy, np.ones_like(dy))):
        np.testing.assert_array_equal(array, before)


@settings(max_examples=100, deadline=None)
@given(cases(legal=True))
def test_against_onnx_runtime(case):
    spec = case.spec.canonical()
    arrays = case.arrays(np.float32)
    try:
        (y,) = run_nodes([(canonical_attributes(spec), arrays)])
    except Refused as error:
        pytest.fail(f"ONNX Runtime refuses {spec}: {error}")
    expected = conv_transpose(*arrays, spec)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def torch_full(torch, x, w, spec, **more):
    convolve = getattr(torch.nn.functional, f"conv_transpose{spec.ndim}d")
    return convolve(x, w, stride=spec.strides, dilation=spec.dilations, groups=spec.group, **more)


def torch_cropped(torch, x, w, b, spec):
    """torch crops both ends alike, so that its full output is cropped afterwards."""
    amounts = [-n for a in reversed(tuple(spec.axes())) for n in (a.begin, a.end)]
    y = torch_full(torch, x, w, spec)
    y = torch.nn.functional.pad(y, [max(n, 0) for n in amounts])
    y = torch.nn.functional.pad(y, [min(n, 0) for n in amounts])
    return y + b.reshape(1, -1, *(1,) * spec.ndim)


@settings(max_examples=50, deadline=None)
@given(case=cases())
def test_values_and_gradients_against_torch(torch, case):
    x, w, b = (torch.tensor(a, requires_grad=True) for a in case.arrays())
    y = torch_cropped(torch, x, w, b, case.spec)
    np.testing.assert_allclose(
        conv_transpose(*case.arrays(), case.spec), y.detach().numpy(), rtol=0, atol=1e-11
    )
    dy = np.random.default_rng(case.seed + 1).standard_normal(y.shape)
    y.backward(torch.tensor(dy))
    ours = conv_transpose_gradients(dy, *case.arrays()[:2], case.spec)
    for mine, leaf in ((ours.input, x), (ours.weight, w), (ours.bias, b)):
        np.testing.assert_allclose(mine, leaf.grad.numpy(), rtol=0, atol=1e-11)


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "crop", "extra"),
    [(3, 2, 1, 1, 1), (4, 2, 1, 1, 0), (2, 3, 1, 0, 2), (3, 1, 2, 2, 0), (3, 2, 3, 2, 2)],
)
def test_against_the_padding_of_torch(torch, ndim, kernel, stride, dilation, crop, extra):
    columns = (kernel, stride, dilation, crop, crop, extra)
    spec = ConvTransposeSpec(4, 6, 2, *((v,) * ndim for v in columns))
    case = Case(spec, (2, 3, 2)[:ndim], seed=ndim)
    x, w, b = map(torch.tensor, case.arrays())
    y = torch_full(torch, x, w, spec, bias=b, padding=crop, output_padding=extra)
    np.testing.assert_allclose(conv_transpose(*case.arrays(), spec), y.numpy(), rtol=0, atol=1e-12)
