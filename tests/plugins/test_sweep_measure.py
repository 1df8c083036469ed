"""What the sweep on the GPU measures errors against."""

import torch

from convt_onnx.plugins.conv_transpose import op
from convt_onnx.spec import ConvTransposeSpec

ONE_POSITION = ConvTransposeSpec(24, 1, 1, (1,), (5,), (1,), (0,), (0,), (0,))


def test_terms_that_cancel_each_other_do_not_enlarge_the_error_of_one_element(load):
    sweep = load("gpu_correctness")
    w = torch.ones(ONE_POSITION.weight_shape)
    x = torch.ones(1, 24, 1)
    x[:, ::2] = -1
    x[:, 0] += 1e-3
    scale = sweep.scale_of(x, w, None, ONE_POSITION, None)
    want = op.reference(x.double(), w.double(), None, ONE_POSITION)
    assert abs(scale - 2 * 24**0.5) < 1e-2
    # One unit in the last place of a term.
    assert sweep.relative(want + 2**-23, want) > 1e-5
    assert sweep.relative(want + 2**-23, want, scale) < 2**-25


def test_bias_and_residual_are_terms_too(load):
    sweep = load("gpu_correctness")
    x, w = torch.zeros(1, 24, 1), torch.zeros(ONE_POSITION.weight_shape)
    bias, residual = torch.full((1,), 3.0), torch.full((1, 1, 1), 4.0)
    assert sweep.scale_of(x, w, bias, ONE_POSITION, residual) == 10


def test_an_output_of_many_elements_is_measured_against_itself(load):
    sweep = load("gpu_correctness")
    x, w = torch.randn(2, 24, 16), torch.randn(ONE_POSITION.weight_shape)
    assert sweep.scale_of(x, w, None, ONE_POSITION, None) == 0
