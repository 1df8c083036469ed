"""The shared cases against the results that come with them.

tests/test_corpus.py runs them all; here only the values count, which nothing of ours has computed.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from convt_onnx import OptimizeOptions, optimize

from .graph.building import op_types
from .shared_models import SHARED
from .verify.judging import run

FOLDERS = sorted(p.parent.name for p in (SHARED / "cases").glob("*/expected.npz"))


def runnable(proto):
    """Whether ONNX Runtime's CPU provider and NumPy know every type of the interface."""
    kinds = {v.type.tensor_type.elem_type for v in [*proto.graph.input, *proto.graph.output]}
    return onnx.TensorProto.BFLOAT16 not in kinds


@pytest.mark.parametrize("name", FOLDERS or [None])
def test_the_values_are_those_of_the_case(corpus, tmp_path, name):
    folder = corpus / "cases" / name
    options = OptimizeOptions("portable", verify=False)
    result = optimize(folder / "model.onnx", tmp_path / "o.onnx", options)
    after = onnx.load(result.output)
    assert "ConvTranspose" not in op_types(after)
    if not runnable(after):
        pytest.skip("NumPy and ONNX Runtime share no bfloat16")
    kinds = {i.name: i.type.tensor_type.elem_type for i in after.graph.input}
    with np.load(folder / "inputs.npz") as inputs, np.load(folder / "expected.npz") as expected:
        feeds = {
            n: inputs[n].astype(onnx.helper.tensor_dtype_to_np_dtype(kinds[n])) for n in inputs
        }
        for output, got in run(after, feeds).items():
            wanted = expected[output]
            assert got.shape == wanted.shape
            # Quantised ones may be a step apart in some places.
            error = np.abs(got.astype(np.float64) - wanted).mean()
            assert error <= 1e-3 * np.abs(wanted).max()
