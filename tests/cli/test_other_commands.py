"""inspect, verify, explain, models, doctor."""

from __future__ import annotations

import re

import numpy as np
import pytest

from convt_onnx.errors import MissingPartError
from convt_onnx.reasons import REASONS
from convt_onnx.targets import TARGETS

from ..graph.building import array, model, write


def test_inspect(convt, source):
    done = convt("inspect", source)
    assert (done.code, done.err) == (0, "")
    for words in ("2 ConvTranspose", "up", "3->4 k5 s2", "constant", "N×3×L -> N×4×2*", "*"):
        assert words in done.out
    for target in TARGETS:
        assert target in done.out
    assert "overlap-add" not in done.out
    assert "overlap-add" in convt("inspect", source, "-v").out


CHAIN = """g (float[N,3,H,W] x, float[K] z) => (float[A,B,C,D] y) {
  [up] h = ConvTranspose <strides=[2,2]> (x, w) [far] y = ConvTranspose <strides=[3,2]> (h, v) }"""


@pytest.fixture
def chain(tmp_path):
    """Two nodes in a row, the second of which sees what the first makes."""
    return write(model(CHAIN, w=array(3, 4, 4, 3), v=array(4, 2, 3, 3)), tmp_path)


@pytest.mark.parametrize(
    ("options", "sizes", "assumed", "line"),
    [
        ((), [1, 128, 96], True, "costs are for x:1,3,128,96, z:128, assumed; --input-shapes"),
        (("x:2,3,5,7",), [2, 5, 7], True, "costs are for x:2,3,5,7, z:128, assumed"),
        (("x:2,3,5,7", "z:4"), [2, 5, 7], False, "costs are for x:2,3,5,7, z:4, as given"),
    ],
)
def test_inspect_carries_sizes_on_from_the_inputs(convt, chain, options, sizes, assumed, line):
    given = [word for text in options for word in ("--input-shapes", text)]
    up, far = convt("inspect", chain, "--json", *given).json["result"]["nodes"]
    batch, height, width = sizes
    for node, wanted in ((up, [height, width]), (far, [2 * height + 2, 2 * width + 1])):
        costs = node["costs"]
        assert (costs["batch"], costs["sizes"], costs["assumed"]) == (batch, wanted, assumed)
    out = convt("inspect", chain, *given).out
    assert line in out
    assert f" at batch {batch}, {2 * height + 2}×{2 * width + 1}" in out
    assert (" (assumed)" in out) is assumed


def test_inspect_names_a_length(convt, source):
    out = convt("inspect", source, "--input-shapes", "x:1,3,6400").out
    assert "GEMM and col2im) at batch 1, length 12,800\n" in out
    assert "KiB of input, weight and output\n" in out


@pytest.mark.parametrize(
    ("shapes", "what"),
    [(["z:1,3,7"], "no input 'z'"), (["x:1,4,7"], "does not fit"),
     (["x:1,3,7", "x:1,3,9"], "one input has several shapes"),
     (["x:1,3,7@2"], "a weight of sizes says nothing here")],
)  # fmt: skip
def test_inspect_refuses_sizes_that_do_not_fit(convt, source, shapes, what):
    options = [word for text in shapes for word in ("--input-shapes", text)]
    convt("inspect", source, *options).check_failed(2, what)


def test_inspect_one_target(convt, source):
    out = convt("inspect", source, "--target", "portable").out
    assert "portable" in out
    assert "ort-cpu" not in out
    convt("inspect", source, "--target", "cpu").check_failed(2, "no target 'cpu'", "ort-cpu")
    far = convt("inspect", source, "--target", "xyz").check_failed(2, "no target 'xyz'")
    assert far.err.count("portable") == far.err.count("tensorrt-rtx-1.4") == 1


def test_inspect_as_json(convt, source):
    done = convt("inspect", source, "--json")
    assert (done.code, done.err) == (0, "")
    found = done.json
    assert (found["schema_version"], found["kind"]) == (2, "inspect")
    up, down = found["result"]["nodes"]
    assert up["spec"]["strides"] == [2]
    assert up["input_shape"] == ["N", 3, "L"]
    assert up["costs"]["assumed"] is True
    assert [d["target"] for d in down["decisions"]] == list(TARGETS)
    assert all(len(d["candidates"]) > 5 for d in down["decisions"])


SHIFTED = "[up] y = ConvTranspose <output_shape=[10,15], strides=[2,2]> (x, w)"


@pytest.fixture
def shifted(tmp_path):
    """A model with a node that TensorRT reads wrongly."""
    text = f"g (float[2,4,5,7] x) => (float[A,B,C,D] y) {{ {SHIFTED} }}"
    return write(model(text, w=array(4, 3, 3, 4)), tmp_path, "shifted.onnx")


def test_inspect_tells_what_a_rewrite_repairs(convt, shifted):
    lines = convt("inspect", shifted).out.splitlines()
    (decision,) = [x for x in lines if x.startswith("  tensorrt-rtx keep")]
    assert decision.endswith("(repaired: CT505)")
    (gap,) = [x for x in lines if x.startswith("  tensorrt-rtx unmodified:")]
    assert "unmodified: would be wrong: CT505 TensorRT shifts an output_shape" in gap
    assert not any("repaired" in x for x in lines if x.startswith("  ort-cpu"))


def test_optimize_tells_what_was_wrong(convt, shifted, tmp_path):
    out = tmp_path / "out.onnx"
    done = convt("optimize", shifted, "-o", out, "--target", "tensorrt-rtx")
    assert "note: up, unmodified, would be wrong: CT505 TensorRT shifts" in done.err
    assert "CT505" not in convt("optimize", out, "--target", "tensorrt-rtx", "--dry-run").err
    assert "CT505" not in convt("optimize", shifted, "--target", "portable", "--dry-run").err


def test_names_of_nodes_are_shown_as_a_shell_takes_them(convt, tmp_path):
    text = "g (float[2,3,7] x) => (float[A,B,C] y) { y = ConvTranspose (x, w) }"
    source = write(model(text, w=array(3, 4, 5)), tmp_path, "unnamed.onnx")
    out = convt("inspect", source).out.splitlines()
    assert "'ConvTranspose->y'" in out
    done = convt("optimize", source, "--target", "portable", "--skip", "ConvTranspose->y")
    assert "'ConvTranspose->y'" in done.err


def test_inspect_a_model_without_any(convt, tmp_path):
    source = write(model("g (float[2] x) => (float[2] y) { y = Relu (x) }"), tmp_path)
    assert "0 ConvTranspose of 1 nodes" in convt("inspect", source).out


def test_inspect_tells_of_integer_variants(convt, tmp_path):
    text = """g (float[1,3,7] x) => (float[] y)
    { [a] y = com.example.QLinearConvTranspose (x, w, s) }"""
    proto = model(text, domains='"com.example" : 1', w=array(3, 4, 5), s=array())
    source = write(proto, tmp_path)
    assert "a: left alone: CT461" in convt("inspect", source).out
    (alone,) = convt("inspect", source, "--json").json["result"]["left_alone"]
    assert (alone["node"], alone["reason"]["id"]) == ("a", "CT461")


def test_inspect_tells_exact_costs(convt, tmp_path):
    text = """g (float[2,3,7] x) => (float[A,B,C] y)
    { y = ConvTranspose <strides=[2], pads=[1,0]> (x, w) }"""
    source = write(model(text, w=array(3, 4, 5)), tmp_path)
    (node,) = convt("inspect", source, "--json").json["result"]["nodes"]
    assert node["output_shape"] == [2, 4, 16]
    # Every tap of every row, but for the one that is cropped.
    assert node["costs"]["flops_native"] == 2 * 2 * 3 * 4 * 7 * 5
    assert node["costs"]["flops_exact"] == 2 * 2 * 3 * 4 * (7 * 5 - 1)
    assert node["costs"]["bytes"] == 4 * (2 * 3 * 7 + 3 * 4 * 5 + 2 * 4 * 16)
    assert node["costs"]["assumed"] is False


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
