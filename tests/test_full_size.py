"""Some of the full-size exports of public libraries; benchmarks/full_size.py runs all of them."""

from __future__ import annotations

import pytest

# torch's newer exporter does not write EnCodec: its padding depends on the input's length.
CASES = [
    ("vits-decoder", "dynamo"),
    ("vits-decoder", "torchscript"),
    ("encodec-decoder", "torchscript"),
    ("vitpose-decoder", "torchscript"),
]

pytestmark = pytest.mark.long


@pytest.fixture
def full_size(load):
    for package in ("torch", "onnxscript", "transformers"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    return load("full_size")


@pytest.mark.parametrize(("name", "exporter"), CASES)
def test_exports_verify(name, exporter, full_size):
    wanted = full_size.Selection((exporter,), ("static", "dynamic"), ("ort-cpu", "portable"))
    lines = list(full_size.lines_of("transformers", name, wanted))
    assert len(lines) == 4
    for x in lines:
        assert x.outcome == "verified", full_size.text(x)
        assert x.scale > full_size.TOO_SMALL
        assert x.conv_transpose
        assert not x.left


def test_a_library_that_is_missing_is_said_so(full_size, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    wanted = full_size.Selection(("dynamo",), ("static",), ("portable",))
    (line,) = full_size.lines_of("monai", "unet-3d", wanted)
    assert line.outcome == "skipped: monai is not installed"
