from __future__ import annotations

import os

import pytest

from convt_onnx import OptimizeOptions, VerifyOptions, optimize
from convt_onnx.errors import UsageError


def test_a_pipe_or_device_is_not_replaced(tmp_path, source):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="not a regular file"):
        optimize(source, pipe, OptimizeOptions(force=True))
    assert pipe.is_fifo()


def test_all_is_no_node_to_skip(tmp_path, source):
    options = OptimizeOptions(skip=frozenset({"all"}))
    with pytest.raises(UsageError, match="no ConvTranspose node 'all'"):
        optimize(source, tmp_path / "out.onnx", options)


@pytest.mark.parametrize(
    "wrong", [{"seed": -1}, {"atol": -1.0}, {"atol": float("nan")}, {"rtol": float("inf")}]
)
def test_options_out_of_range(wrong):
    with pytest.raises(UsageError):
        VerifyOptions(**wrong)


def test_a_target_without_the_operator_names_what_remains(tmp_path, source):
    options = OptimizeOptions(target="portable", forms={"all": "keep"})
    result = optimize(source, tmp_path / "out.onnx", options)
    assert any("these remain" in note for note in result.notes)
