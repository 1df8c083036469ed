"""The Python API: it is complete, and says what the command line says."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import convt_onnx
from convt_onnx import OptimizeOptions, VerifyOptions, inspect, optimize, verify_files
from convt_onnx.cli import main
from convt_onnx.errors import ConvtError, MissingPartError, UsageError
from convt_onnx.report.as_json import SCHEMA_VERSION, document

from .graph.building import array, model, write

TEXT = """g (float[N,3,L] x, float[3,4,5] r) => (float[A,B,C] y, float[D,E,F] z) {
  [up] h = ConvTranspose <strides=[2], auto_pad="SAME_UPPER"> (x, w)
  [down] y = ConvTranspose (h, v) [mod] z = ConvTranspose <strides=[3]> (x, r) }"""


@pytest.fixture
def source(tmp_path):
    return write(model(TEXT, w=array(3, 4, 5), v=array(4, 2, 3)), tmp_path)


@pytest.fixture
def command(capsys):
    """The JSON document that a command prints."""

    def run(*arguments):
        with pytest.raises(SystemExit):
            main([*map(str, arguments), "--json"])
        return json.loads(capsys.readouterr().out)

    return run


def as_printed(value):
    return json.loads(json.dumps(value))


def test_every_public_name_resolves():
    assert sorted(convt_onnx.__all__) == convt_onnx.__all__ == dir(convt_onnx)
    for name in convt_onnx.__all__:
        found = getattr(convt_onnx, name)
        assert name == "__version__" or found.__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = convt_onnx.nothing


@pytest.mark.parametrize("missing", ["torch", "onnxruntime", "triton"])
def test_all_names_are_imported_and_described_without_optional_parts(missing):
    code = f"""import sys; sys.modules[{missing!r}] = None
from convt_onnx import *
import convt_onnx, pydoc
assert optimize is convt_onnx.optimize
print(pydoc.plaintext.document(convt_onnx))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "verify_files" in done.stdout


def test_a_torch_operator_without_torch_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "convt_onnx.plugins.torch_op", raising=False)
    with pytest.raises(MissingPartError) as caught:
        _ = convt_onnx.conv_transpose2d
    assert "convt_onnx.conv_transpose2d" in caught.value.where
    assert "pip install '.[gpu]'" in caught.value.help


def test_names_in_the_docstring_are_public():
    assert {"optimize", "OptimizeOptions"} <= set(convt_onnx.__all__)
    assert "from convt_onnx import optimize, OptimizeOptions" in convt_onnx.__doc__


@pytest.mark.parametrize("target", ["ort-cpu", "portable"])
def test_optimize_decides_the_same(source, command, target):
    options = OptimizeOptions(target=target, forms={"up": "phases"}, skip=frozenset({"down"}))
    result = optimize(source, options=options)
    first = result.output.read_bytes()
    arguments = ("--target", target, "--form", "up=phases", "--skip", "down", "--force")
    printed = command("optimize", source, *arguments)
    mine = as_printed(document("optimize", result=result))
    mine["result"].pop("seconds")
    printed["result"].pop("seconds")
    assert printed == mine
    assert result.output.read_bytes() == first
    assert printed["schema_version"] == SCHEMA_VERSION


def test_inspect_says_the_same(source, command):
    assert command("inspect", source) == as_printed(document("inspect", result=inspect(source)))
    only = document("inspect", result=inspect(source, ["portable"]))
    assert command("inspect", source, "--target", "portable") == as_printed(only)


def test_verify_says_the_same(source, command, tmp_path):
    other = write(model(TEXT, w=array(3, 4, 5) * 1.01, v=array(4, 2, 3)), tmp_path, "b.onnx")
    options = VerifyOptions(input_shapes={"x": (1, 3, 9)}, seed=3, atol=1e-3)
    mine = document(
        "verify", original=source, other=other, result=verify_files(source, other, options)
    )
    arguments = ("--input-shapes", "x:1,3,9", "--seed", "3", "--atol", "1e-3")
    assert command("verify", source, other, *arguments) == as_printed(mine)


def test_doctor_and_explain_say_the_same(command):
    assert command("doctor") == as_printed(document("doctor", result=convt_onnx.diagnose()))
    reason = convt_onnx.get_reason("ct104")
    assert command("explain", "CT104") == as_printed(document("explain", reasons=[reason]))


def test_errors_are_the_same(source, command):
    with pytest.raises(ConvtError) as caught:
        optimize(source, options=OptimizeOptions(target="portabel"))
    printed = command("optimize", source, "--target", "portabel")
    error = caught.value
    assert (printed["what"], printed["where"], printed["help"], printed["exit_code"]) == (
        error.what,
        error.where,
        error.help,
        error.exit_code,
    )
    assert all(part in str(error) for part in (error.what, error.where, error.help))


def test_paths_may_be_text(source):
    result = optimize(str(source), str(source.with_name("o.onnx")))
    assert result.output == source.with_name("o.onnx")
    assert len(inspect(str(source)).nodes) == 3
    assert verify_files(str(source), str(result.output)).ok


def test_documents_hold_plain_data():
    content = {
        "path": Path("a"),
        "numbers": (np.float32(0.5), np.int64(2), np.bool_(True)),
        "infinite": [math.inf, -math.inf, math.nan, np.float64("nan")],
        3: frozenset({1}),
    }
    printed = json.loads(json.dumps(document("x", content=content), allow_nan=False))
    assert printed["content"] == {
        "path": "a",
        "numbers": [0.5, 2, True],
        "infinite": [None] * 4,
        "3": [1],
    }


@pytest.mark.parametrize(("wrong", "help"), [("tune", "enabled=False"), ("checks", "seed=0")])
def test_a_flag_in_place_of_options_is_refused(wrong, help):
    with pytest.raises(UsageError, match=f"{wrong} must be of type") as caught:
        OptimizeOptions(**{wrong: False})
    assert help in caught.value.help
