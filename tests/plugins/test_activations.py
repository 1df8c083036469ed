"""Activations in the kernels, where their formulas could lose digits."""

import numpy as np
import pytest
import torch

from convt_onnx.plugins.conv_transpose import op
from convt_onnx.plugins.conv_transpose.activations import make_activation
from convt_onnx.spec import ConvTransposeSpec

UNIT = ConvTransposeSpec(1, 1, 1, (1,), (1,), (1,), (0,), (0,), (0,))


def activated(kind: str, values: np.ndarray) -> np.ndarray:
    """What the kernel makes of values in float32."""
    x = torch.from_numpy(values.astype(np.float32)).reshape(1, 1, -1)
    y = op.empty_result(x, op.make_problem(x, UNIT)).fill_(float("nan"))
    w = torch.ones(1, 1, 1)
    op.conv_transpose(x, w, None, UNIT, activation=make_activation(kind), tf32=False, out=y)
    return y.double().numpy().reshape(-1)


@pytest.mark.parametrize(("kind", "least"), [("gelu_tanh", -3.0), ("silu", -9.0), ("tanh", -9.0)])
def test_small_values_keep_their_digits(kind, least):
    values = np.linspace(least, 4, 1001).astype(np.float32).astype(np.float64)
    cubic = np.sqrt(2 / np.pi) * (values + 0.044715 * values**3)
    want = {
        "gelu_tanh": values / (1 + np.exp(-2 * cubic)),
        "silu": values / (1 + np.exp(-values)),
        "tanh": np.tanh(values),
    }[kind]
    got = activated(kind, values)
    assert np.abs(want).max() > 0.9
    assert (np.abs(got - want) <= 3e-6 * np.abs(want) + 1e-9).all()


def test_gelu_of_large_values_is_the_value_or_nothing():
    got = activated("gelu_tanh", np.array([-3e38, -1e20, -50.0, 50.0, 1e20, 3e38]))
    assert (got == np.array([0, 0, 0, 50, np.float32(1e20), np.float32(3e38)])).all()
