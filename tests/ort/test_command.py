"""`convt-onnx ort-library`, and what doctor says of it."""

from __future__ import annotations

import json

import pytest

from convt_onnx.cli import main
from convt_onnx.ort import library as building
from convt_onnx.ort.registration import open_library
from convt_onnx.plugins.onnxruntime.build import find_compiler
from convt_onnx.plugins.onnxruntime.wanted import Wanted

from .nodes import SPECS, Node, kernel_text, make_record


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CONVT_ONNX_CACHE", str(tmp_path / "cache"))

    def call(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(["ort-library", *map(str, arguments)])
        return int(caught.value.code or 0), *capsys.readouterr()

    return call


def test_builds_a_library_without_kernels(run, tmp_path):
    output = tmp_path / "libconvt_ort.so"
    code, out, err = run("-o", output)
    assert (code, out) == (0, f"{output}\n")
    assert "0 kernels for compute capabilities 80, 90" in err
    assert open_library(output)


def test_embeds_the_kernels_of_models(run, tmp_path, monkeypatch):
    import onnx

    record = make_record(SPECS["vocoder"])
    onnx.save(Node(record, (7,)).model(shape=[2, 24, 7]), tmp_path / "node.onnx")
    asked = []

    def compile_texts(wanted, capabilities, *, processes):
        asked.append((list(wanted), tuple(capabilities), processes))
        return [kernel_text(w.record, w.kernel, capability=c) for w in wanted for c in capabilities]

    monkeypatch.setattr(building, "compile_texts", compile_texts)
    output = tmp_path / "libconvt_ort.so"
    options = (
        "--compute-capability",
        "9.0",
        "--compute-capability",
        "100",
        "--jobs",
        "3",
        "--json",
    )
    code, out, err = run("-o", output, tmp_path / "node.onnx", *options)
    assert code == 0, err
    kernels = [record.kernel((None, 7), tf32=tf32) for tf32 in (True, False)]
    assert asked == [([Wanted(record, k) for k in kernels], (90, 100), 3)]
    assert "4 kernels for compute capabilities 90, 100" in err
    found = json.loads(out)
    assert (found["kind"], found["result"]["path"]) == ("ort-library", str(output))
    assert (found["result"]["kernels"], found["result"]["bytes"]) == (4, output.stat().st_size)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--compute-capability", "8x"], "cannot read the compute capability '8x'"),
        (["--compute-capability", "70"], "no PTX is made for compute capability 70"),
        (["--ort-include", "/nowhere"], "onnxruntime_c_api.h is not there"),
        (["absent.onnx"], "absent.onnx"),
    ],
)
def test_what_does_not_fit_is_said(run, tmp_path, arguments, words):
    output = tmp_path / "libconvt_ort.so"
    code, out, err = run("-o", output, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert not output.exists()


def test_an_existing_file_is_not_replaced(run, tmp_path, monkeypatch):
    monkeypatch.setattr(building.build, "build", lambda out, *rest: out.write_bytes(b"built"))
    output = tmp_path / "libconvt_ort.so"
    output.write_bytes(b"mine")
    code, _, err = run("-o", output)
    assert code == 2
    assert "--force" in err
    assert output.read_bytes() == b"mine"
    assert run("-o", output, "--force")[0] == 0
    assert output.read_bytes() == b"built"


def test_a_model_is_not_replaced(run, tmp_path):
    (tmp_path / "node.onnx").write_bytes(b"mine")
    code, out, _ = run("-o", tmp_path / "node.onnx", tmp_path / "node.onnx", "--force")
    assert (code, out) == (2, "")
    assert (tmp_path / "node.onnx").read_bytes() == b"mine"


def test_doctor_names_the_compiler(capsys):
    with pytest.raises(SystemExit):
        main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if "ort-library, register" in line)
    assert line.split()[0] in ("works", "partly")  # the kernels need Triton
    assert " ".join(find_compiler()) in line
