"""What `Session.run` takes, and how it refuses the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from convt_onnx import Session
from convt_onnx.errors import UsageError
from convt_onnx.ort.registration import Registration

from ..graph.building import array, model, write

TEXT = """g (float[N,4,L] x, float scale) => (float[] y) {
  h = ConvTranspose <strides=[2]> (x, w)
  y = Mul (h, scale) }"""


@pytest.fixture
def session(tmp_path):
    return Session(write(model(TEXT, w=array(4, 3, 5)), tmp_path))


def test_arrays_tensors_and_scalars(session):
    x, two = array(2, 4, 7), np.float32(2)
    y = session.run({"x": x, "scale": two})["y"]
    assert y.shape == (2, 3, 17)
    mixed = session.run({"x": torch.from_numpy(x), "scale": np.asarray(two)})["y"]
    assert isinstance(mixed, torch.Tensor)
    np.testing.assert_array_equal(mixed.numpy(), y)
    turned = np.asfortranarray(x)
    assert not turned.flags.c_contiguous
    np.testing.assert_array_equal(session.run({"x": turned, "scale": two})["y"], y)


def test_on_cuda_the_optimiser_leaves_folded_biases_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "convt_onnx.ort.session.register", lambda *_, **__: Registration(Path(), False, "")
    )
    path = write(model(TEXT, w=array(4, 3, 5)), tmp_path)
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):  # not on this machine
        made = Session(path, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    options = made.session.get_session_options()
    assert options.get_session_config_entry("session.disable_quant_qdq") == "1"


@pytest.mark.parametrize(
    ("x", "what", "where"),
    [
        (None, "cannot read input 'x'", "NoneType"),
        ([[1, None]], "cannot read input 'x'", "list"),
        ([[1], [1, 2]], "cannot read input 'x'", "list"),
        (array(4, 7), "shape for input 'x'", "[4, 7], the model has ['N', 4, 'L']"),
        (array(1, 3, 7), "shape for input 'x'", "[1, 3, 7], the model has ['N', 4, 'L']"),
        (array(1, 4, 7, 1), "shape for input 'x'", "[1, 4, 7, 1]"),
        (np.ones((1, 4, 7)), "type for input 'x'", "tensor(double), the model has tensor(float)"),
        (torch.ones(4, 7), "shape for input 'x'", "[4, 7]"),
    ],
)
def test_what_does_not_fit_is_refused(session, x, what, where):
    with pytest.raises(UsageError) as error:
        session.run({"x": x, "scale": np.float32(1)})
    assert what in error.value.what
    assert where in error.value.where
    assert error.value.help


def test_missing_and_unknown_inputs(session):
    with pytest.raises(UsageError, match="an input is missing"):
        session.run({"x": array(1, 4, 7)})
    with pytest.raises(UsageError, match="no input 'scales'") as error:
        session.run({"x": array(1, 4, 7), "scales": np.float32(1)})
    assert "'scale'" in error.value.help
