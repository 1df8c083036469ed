"""verify, explain, models, doctor, ort-library."""

from __future__ import annotations

import re

import numpy as np
import pytest

from convt_onnx.errors import MissingPartError
from convt_onnx.reasons import REASONS

from ..graph.building import model, write


def test_verify(convt, source):
    convt("optimize", source)
    out = source.with_name("model.convt.onnx")
    done = convt("verify", source, out)
    assert (done.code, done.out) == (0, "PASSED\n")
    assert "verified: 1/1 outputs" in done.err
    assert "[x:2,3,13] (assumed)\n" in done.err
    given = convt("verify", source, out, "--input-shapes", "x:1,3,9")
    assert "[x:1,3,9]\n" in given.err
    found = convt("verify", source, out, "--json").json
    assert (found["schema_version"], found["kind"]) == (2, "verify")
    assert (found["original"], found["other"]) == (str(source), str(out))
    assert found["result"]["ok"] is True


def test_verify_finds_a_difference(convt, tmp_path):
    text = "g (float[2] x) => (float[2] y) { [a] h = Neg (x) [b] y = Exp (h) }"
    first = write(model(text), tmp_path, "a.onnx")
    second = write(model(text.replace("Neg", "Abs")), tmp_path, "b.onnx")
    done = convt("verify", first, second)
    assert (done.code, done.out) == (1, "FAILED\n")
    assert "DIFFERS" in done.err
    assert "first difference: a (value 'h')" in done.err
    assert re.search(r"\d × allowed", done.err) and "oracle" not in done.err
    zero = convt("verify", first, second, "--atol", "0", "--rtol", "0")
    assert "allowed is 0" in zero.err and "e+" not in zero.err
    done = convt("verify", first, second, "--json")
    assert (done.code, done.json["result"]["ok"]) == (1, False)
    assert convt("verify", first, second, "--atol", "100").code == 0


def test_verify_models_with_other_outputs(convt, tmp_path):
    text = "g (float[2] x) => (float[2] y) { y = Exp (x) }"
    first = write(model(text), tmp_path, "a.onnx")
    second = write(model(text.replace("y", "z")), tmp_path, "b.onnx")
    convt("verify", first, second).check_failed(1, "different outputs", "y against z")


def test_verify_models_with_other_inputs(convt, tmp_path):
    text = "g (float[2] x) => (float[2] y) { y = Exp (x) }"
    first = write(model(text), tmp_path, "a.onnx")
    second = write(model(text.replace("x)", "z)").replace("] x", "] z")), tmp_path, "b.onnx")
    convt("verify", first, second).check_failed(2, "different inputs", "x against z")


def test_verify_models_whose_inputs_have_other_axes(convt, source, tmp_path):
    flat = "g (float[2,3,13,7] x) => (float[A,B,C,D] y) { y = Relu (x) }"
    other = write(model(flat), tmp_path, "other.onnx")
    convt("verify", source, other).check_failed(2, "different inputs", "x has 3 axes against 4")


def test_verify_quietly(convt, source):
    done = convt("verify", source, source, "-q")
    assert (done.code, done.out, done.err) == (0, "PASSED\n", "")


def test_verify_names_the_array_that_a_file_lacks(convt, source, tmp_path):
    np.savez(tmp_path / "x.npz", foo=np.ones((1, 3, 7), np.float32))
    done = convt("verify", source, source, "--inputs", tmp_path / "x.npz")
    done.check_failed(2, "no array for input 'x'", "it has foo", "help:  name an array 'x'")


def test_verify_a_missing_file(convt, source):
    convt("verify", source, source.with_name("no.onnx")).check_failed(2, "no.onnx")


def test_verify_without_onnxruntime(convt, source, no_onnxruntime):
    convt("verify", source, source).check_failed(3, "onnxruntime is not installed", ".[cpu]")
    done = convt("verify", source, source, "--json")
    assert (done.code, done.json["exit_code"]) == (3, 3)


@pytest.mark.parametrize("id", REASONS)
def test_explain_one(convt, id):
    done = convt("explain", id.lower())
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{id}: {REASONS[id].title}\n\n")
    assert max(map(len, done.out.splitlines())) <= 120
    found = convt("explain", id, "--json").json
    assert found["reasons"] == [
        {"id": id, "title": REASONS[id].title, "text": REASONS[id].text}
    ]  # fmt: skip


def test_explain_all(convt):
    lines = convt("explain").out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(REASONS)
    assert len(convt("explain", "--json").json["reasons"]) == len(REASONS)


def test_explain_an_unknown_id(convt):
    convt("explain", "CT1044").check_failed(2, "no reason 'CT1044'", "did you mean 'CT104'")
    assert convt("explain", "xyz", "--json").json["kind"] == "error"
    far = convt("explain", "CT999").check_failed(2, "no reason 'CT999'", "explain lists them all")
    assert len(far.err.splitlines()) == 2
    assert "did you mean" not in far.err


def test_models_list(convt):
    from convt_onnx.models import names

    out = convt("models", "list").out
    assert [line.split()[0] for line in out.splitlines()] == list(names())
    found = convt("models", "list", "--json").json
    assert (found["schema_version"], found["kind"]) == (2, "models")
    assert [m["name"] for m in found["models"]] == list(names())


def test_models_export_refuses_to_overwrite(convt, tmp_path):
    out = tmp_path / "unet.onnx"
    out.write_bytes(b"mine")
    convt("models", "export", "unet", "-o", out).check_failed(2, f"{out} exists", "--force")
    assert out.read_bytes() == b"mine"


def test_models_export_without_torch(convt, tmp_path, monkeypatch):
    for module in ("torch", "onnxscript"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    convt("models", "export", "unet", "-o", tmp_path / "u.onnx").check_failed(
        3, "is not installed", "pip install"
    )
    assert not list(tmp_path.iterdir())


def test_models_export_names_a_misspelt_decoder_before_a_missing_package(convt, monkeypatch):
    for module in ("torch", "onnxscript"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    convt("models", "export", "hifgan").check_failed(2, "'hifgan'", "'hifigan'")


def test_doctor(convt):
    done = convt("doctor")
    assert (done.code, done.err) == (0, "")
    for words in ("Python 3.", "onnx-ir", "onnxruntime", "works    verify", "works    inspect"):
        assert words in done.out
    found = convt("doctor", "--json").json
    assert (found["schema_version"], found["kind"]) == (2, "doctor")
    needed = ("inspect", "verify")
    assert all(p["works"] for p in found["result"]["parts"] if p["name"].startswith(needed))


def test_doctor_says_what_to_install(convt, monkeypatch):
    from convt_onnx import doctor

    monkeypatch.setattr(doctor, "_importable", lambda module: False)
    out = convt("doctor").out
    assert "missing  verify" in out
    assert "pip install '.[cpu]'" in out
    assert "pip install '.[models]'" in out


def test_doctor_calls_a_library_without_kernels_partly_there(convt, monkeypatch):
    from convt_onnx import doctor

    importable = doctor._importable
    monkeypatch.setattr(doctor, "_importable", lambda m: m != "triton" and importable(m))
    (line,) = [line for line in convt("doctor").out.splitlines() if "ort-library" in line]
    assert line.startswith("partly ") and "kernels need Triton: pip install '.[gpu]'" in line


def test_doctor_tells_whether_engines_run_and_which_providers_count(convt, monkeypatch):
    import onnxruntime

    from convt_onnx.engine import device

    def none():
        raise MissingPartError("there is no CUDA device here", help="a GPU")

    providers = ["CUDAExecutionProvider", "AzureExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)
    monkeypatch.setattr(device, "cuda_runtime", none)
    lines = convt("doctor").out.splitlines()
    assert any(x.startswith("missing  run") and "no CUDA device" in x for x in lines)
    (verify,) = [x for x in lines if x.startswith("works    verify (")]
    assert verify.endswith("CUDAExecutionProvider, CPUExecutionProvider")
    monkeypatch.setattr(device, "cuda_runtime", lambda: None)
    assert any(x.startswith("works    run") for x in convt("doctor").out.splitlines())


def test_a_library_for_a_model_without_plugin_nodes_says_so(convt, source, tmp_path):
    done = convt("ort-library", source, "-o", tmp_path / "lib.so")
    assert (done.code, done.out) == (0, f"{tmp_path / 'lib.so'}\n")
    assert f"{source} has no plugin nodes" in done.err
    assert f"convt-onnx optimize {source} --target ort-cuda --plugin" in done.err


def test_a_library_for_no_model_says_so(convt, tmp_path):
    done = convt("ort-library", "-o", tmp_path / "lib.so")
    assert done.code == 0
    assert "0 kernels" in done.err and "no model was named" in done.err
