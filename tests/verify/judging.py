"""The two judges: ONNX Runtime's CPU provider, and the float64 oracle inside onnx's evaluator."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from convt_onnx.padding import Attributes, resolve
from convt_onnx.reference import conv_transpose


def run(proto: onnx.ModelProto, feeds, *, folder=None):
    """Outputs by name, in ONNX Runtime."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


class ConvTranspose(OpRun):
    """In place of the evaluator's own, which is wrong for groups."""

    op_domain = ""

    def _run(self, x, weight, bias=None, **attributes):
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in attributes.items()}
        known = {k: v for k, v in given.items() if v is not None}
        spec = resolve(Attributes(**known), weight.shape, x.shape[2:])
        return (conv_transpose(x, weight, bias, spec).astype(x.dtype),)


def oracle(proto: onnx.ModelProto, feeds):
    """Outputs by name; every ConvTranspose in float64, rounded to its input's type."""
    evaluator = ReferenceEvaluator(proto, new_ops=[ConvTranspose])
    return dict(zip(evaluator.output_names, evaluator.run(None, feeds), strict=True))


def random_feeds(proto: onnx.ModelProto, seed: int = 0, open_size: int = 5, **given):
    """Seeded values for every input that is no initializer; booleans are True."""
    rng = np.random.default_rng(seed)
    constants = {t.name for t in proto.graph.initializer}
    feeds = {}
    for value in proto.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        shape = [d.dim_value or open_size for d in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        feeds[value.name] = np.asarray(rng.standard_normal(shape)).astype(dtype)
        if dtype == np.bool_:
            feeds[value.name] = np.ones(shape, np.bool_)
    return feeds | given


def assert_close(got, wanted, tolerance: float = 1e-5):
    """Equal names and shapes, and values within a share of the largest one."""
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        reference = np.asarray(value, np.float64)
        scale = max(1e-30, float(np.abs(reference).max(initial=0.0)))
        assert got[name].shape == reference.shape, name
        assert np.isfinite(reference).all(), name
        assert float(np.abs(reference).max(initial=0.0)) > 0, f"{name} is all zero"
        np.testing.assert_allclose(
            np.asarray(got[name], np.float64) / scale,
            reference / scale,
            rtol=0,
            atol=tolerance,
            err_msg=name,
        )


def assert_same(before, after, feeds=None, *, tolerance=1e-5, reference=None):
    """Both judges: the rewritten model gives what the original gives, and what the oracle says.

    `reference` is for the oracle where its evaluator cannot run the original.
    """
    feeds = random_feeds(before) if feeds is None else feeds
    wanted = oracle(before if reference is None else reference, feeds)
    assert_close(run(before, feeds), wanted, tolerance)
    assert_close(run(after, feeds), wanted, tolerance)
