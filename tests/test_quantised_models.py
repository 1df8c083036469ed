"""Whole quantised models: shared files and exports quantised here, in every form."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest

from convt_onnx import OptimizeOptions, optimize

from .shared_models import SHARED

REPOSITORY = Path(__file__).parents[1]
CASES = ("008", "012", "013", "015", "017")
FORMS = ("gemm", "phases", "phases-window", "phases-split", "overlap-add", "zero-insertion")


@pytest.fixture(scope="module")
def bench():
    """benchmarks/quantised.py, which is no package but measures what is asked here."""
    pytest.importorskip("onnxruntime.quantization")
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        import quantised
        import quantised_models

        yield quantised, quantised_models
    finally:
        sys.path.remove(str(REPOSITORY / "benchmarks"))


def rows_of(bench, path, folder, forms=FORMS):
    quantised, _ = bench
    return [r for r in quantised.measure(path, path.stem, folder, forms) if r.form in forms]


def assert_close(rows, *, end=True):
    assert rows
    for row in rows:
        assert row.node.elements > 0
        assert row.node.share <= 0.001, row
        assert row.floats[1] <= row.floats[0], row
        if end:
            assert row.end.share <= 0.001, row
        if row.form in ("gemm", "phases-split", "zero-insertion"):  # no zero taps
            assert row.integers[1] <= row.integers[0], row


@pytest.mark.parametrize("number", CASES)
def test_reported_cases(bench, number, tmp_path):
    found = sorted((SHARED / "cases").glob(f"{number}_*/model.onnx"))
    if not found:
        pytest.skip("the shared folder with the reported cases is not there")
    assert_close(rows_of(bench, found[0], tmp_path))


@pytest.fixture
def vocoder():
    path = SHARED / "corpus/architectures/melgan_int8_qdq.onnx"
    if not path.is_file():
        pytest.skip("the shared folder with the corpus is not there")
    return path


def test_a_vocoder_node_by_node(bench, vocoder, tmp_path):
    """What moves lay in the middle of two integers, where the order of a sum decides."""
    rows = rows_of(bench, vocoder, tmp_path, ("phases", "overlap-add"))
    assert_close(rows, end=False)
    phases = next(r for r in rows if r.form == "phases")
    assert phases.integer_convolutions == 4
    assert phases.node.moved <= 2
    assert phases.node.tie < 1e-5


def test_a_vocoder_end_to_end(bench, vocoder, tmp_path):
    """As it is, and summed in the same order, it is equal; one such integer moves all the rest."""
    quantised, _ = bench
    for row in rows_of(bench, vocoder, tmp_path, ("keep", "overlap-add")):
        assert (row.end.elements, row.end.worst) == (5120, 0.0), row
    model = onnx.load(vocoder)
    alone = quantised.sensitivity(model, quantised.feeds_of(vocoder, model))
    assert alone.share > 0.1


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", ["dcgan", "fcn8s", "hifigan", "unet"])
def test_exports(bench, name, per_channel, tmp_path):
    pytest.importorskip("torch")
    _, models = bench
    path = models.quantised_export(name, tmp_path, per_channel=per_channel)
    rows = rows_of(bench, path, tmp_path, ("gemm", "phases", "phases-split"))
    assert_close(rows)
    assert all(r.integer_convolutions >= r.nodes for r in rows)


@pytest.mark.parametrize("form", ["phases", "phases-split", "overlap-add"])
def test_a_quantised_model_is_verified_and_written(form, vocoder, tmp_path):
    result = optimize(vocoder, tmp_path / "out.onnx", OptimizeOptions(forms={"all": form}))
    assert result.verification.ok
    assert all(c.ok for c in result.verification.nodes)


def test_dequantize(tmp_path):
    found = sorted((SHARED / "cases").glob("015_*/model.onnx"))
    if not found:
        pytest.skip("the shared folder with the reported cases is not there")
    options = OptimizeOptions(target="portable", dequantize=True)
    result = optimize(found[0], tmp_path / "out.onnx", options)
    assert result.verification.ok
    model = onnx.load(tmp_path / "out.onnx")
    wide = [t for t in model.graph.initializer if len(t.dims) >= 3]
    assert {t.data_type for t in wide} == {onnx.TensorProto.FLOAT}
    kinds = [n.op_type for n in model.graph.node]
    assert kinds.count("DequantizeLinear") == 1
