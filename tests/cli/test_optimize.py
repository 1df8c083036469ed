from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

from convt_onnx import optimization
from convt_onnx.pipeline import PASSES

from ..folder import names
from ..graph.building import array, model, op_types, write


def test_stdout_carries_the_path_alone(convt, source):
    done = convt("optimize", source)
    out = source.with_name("model.convt.onnx")
    assert (done.code, done.out) == (0, f"{out}\n")
    assert out.exists()
    for words in ("2 ConvTranspose", "up", "down", "CT2", "verified: 1/1 outputs", f"wrote {out}"):
        assert words in done.err.replace("\n", " ") or words in done.err
    # What was not stated was chosen, and is told.
    assert "[x:2,3,13]" in done.err


def test_quiet(convt, source):
    done = convt("optimize", source, "-q")
    assert done.code == 0
    assert done.out == f"{source.with_name('model.convt.onnx')}\n"
    assert done.err == ""


def test_verbose_lists_forms_and_passes(convt, source):
    assert "overlap-add" not in convt("optimize", source, "--dry-run").err
    err = convt("optimize", source, "--dry-run", "-v").err
    assert "canonical-pads: 2 changes" in err
    assert "overlap-add" in err
    assert "no: CT301" in err


def test_json(convt, source):
    done = convt("optimize", source, "--json", "--target", "portable")
    found = done.json
    assert done.code == 0
    assert (found["schema_version"], found["kind"]) == (2, "optimize")
    result = found["result"]
    assert result["output"] == str(source.with_name("model.convt.onnx"))
    assert result["modified"] is True
    assert [d["path"] for d in result["decisions"]] == ["up", "down"]
    assert all(d["reason"]["id"] == "CT202" for d in result["decisions"])
    assert result["verification"]["ok"] is True
    assert result["verification"]["input_shapes"] == [{"x": [2, 3, 13]}]
    assert result["verification"]["assumed_sizes"] is True
    assert [n["ok"] for n in result["verification"]["nodes"]] == [True, True]


def test_json_of_an_error(convt, source):
    convt("optimize", source)
    done = convt("optimize", source, "--json")
    assert done.code == 2
    assert done.json == {
        "schema_version": 2,
        "convt_onnx": done.json["convt_onnx"],
        "kind": "error",
        "what": f"{source.with_name('model.convt.onnx')} exists",
        "where": "",
        "help": done.json["help"],
        "exit_code": 2,
    }
    assert "--force" in done.json["help"]


def test_json_without_verification_and_with_nothing_to_do(convt, tmp_path):
    source = write(model("g (float[2] x) => (float[2] y) { y = Relu (x) }"), tmp_path)
    done = convt("optimize", source, "--json")
    assert done.json["result"]["modified"] is False
    assert done.json["result"]["verification"] is None
    assert "there is nothing to do" in done.err


def test_dry_run(convt, source, tmp_path):
    done = convt("optimize", source, "--dry-run")
    assert (done.code, done.out) == (0, "")
    assert "dry run: nothing written" in done.err
    assert "verified" in done.err
    assert names(tmp_path) == ["model.onnx"]


def test_refusing_to_overwrite(convt, source):
    out = source.with_name("other.onnx")
    out.write_bytes(b"mine")
    convt("optimize", source, "-o", out).check_failed(2, f"{out} exists", "--force")
    assert out.read_bytes() == b"mine"
    assert convt("optimize", source, "-o", out, "--force").code == 0
    assert onnx.load(out).graph.node


def test_forms_and_skip(convt, source):
    done = convt(
        "optimize", source, "--form", "all=overlap-add", "--form", "down=conv", "--json"
    )  # fmt: skip
    assert [d["form"] for d in done.json["result"]["decisions"]] == ["overlap-add", "conv"]
    done = convt("optimize", source, "--skip", "up", "--skip", "down", "--force")
    assert done.err.count("CT109") == 2
    assert "there is nothing to do" in done.err
    assert source.with_name("model.convt.onnx").read_bytes() == source.read_bytes()


def test_a_form_for_a_node_whose_name_holds_equals_signs(convt, tmp_path):
    proto = model(
        "g (float[1,3,7] x) => (float[A,B,C] y) { y = ConvTranspose (x, w) }", w=array(3, 4, 5)
    )
    proto.graph.node[0].name = "a=b"
    source = write(proto, tmp_path)
    assert convt("optimize", source, "--form", "a=b=conv").code == 0
    assert "ConvTranspose" not in op_types(onnx.load(source.with_name("model.convt.onnx")))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "portabel"], ["no target 'portabel'", "did you mean 'portable'"]),
        (["--form", "up=phazes"], ["no form 'phazes'", "up=phazes", "'phases'"]),
        (["--form", "upp=phases"], ["no ConvTranspose node 'upp'", "'up'"]),
        (["--form", "phases"], ["cannot read 'phases'", "--form", "NODE="]),
        (["--form", "=phases"], ["cannot read '=phases'"]),
        (["--form", "up="], ["no form ''"]),
        (["--form", "up=conv"], ["form 'conv' does not apply", "node 'up'", "explain CT301"]),
        (["--skip", "dwn"], ["no ConvTranspose node 'dwn'", "'down'"]),
        (["--passes", "lowr"], ["no pass 'lowr'", "'lower'"]),
        (["-o", "no/such/folder.onnx"], ["folder no/such does not exist"]),
    ],
)  # fmt: skip
def test_names_that_do_not_exist(convt, source, tmp_path, arguments, words):
    convt("optimize", source, *arguments).check_failed(2, *words)
    assert names(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize(
    "text",
    ["x", "x:", ":1,3,7", "x:1,3,0", "x:1,3,-7", "x:1,,3", "x:1,3,a", "x:1.5,3,7", "x:1,3,7,"],
)
def test_shapes_that_cannot_be_read(convt, source, text):
    convt("optimize", source, "--input-shapes", text).check_failed(
        2, f"cannot read the shape {text!r}", "--input-shapes", "positive sizes"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("y:1,3,7", ["no input 'y'", "one of x"]),
        ("x:1,3", ["'x' does not fit", "[1, 3]"]),
        ("x:1,5,7", ["'x' does not fit", "[1, 5, 7]"]),
    ],
)
def test_shapes_that_do_not_fit(convt, source, tmp_path, text, words):
    convt("optimize", source, "--input-shapes", text).check_failed(2, *words)
    assert names(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize("text", ["x:1,3,7", "x:1x3x7", "x: 1, 3, 7"])
def test_shapes_that_can(convt, source, text):
    assert "[x:1,3,7]" in convt("optimize", source, "--input-shapes", text).err


def test_inputs_from_a_file(convt, source, tmp_path):
    np.savez(tmp_path / "in.npz", in_x=array(1, 3, 4))
    assert "file inputs [x:1,3,4]" in convt("optimize", source, "--inputs", tmp_path / "in.npz").err
    np.savez(tmp_path / "bad.npz", z=array(1, 3, 4))
    convt("optimize", source, "--force", "--inputs", tmp_path / "bad.npz").check_failed(
        2, "no array for input 'x'"
    )
    np.savez(tmp_path / "pickled.npz", x=np.array([None, {}], dtype=object))
    convt("optimize", source, "--force", "--inputs", tmp_path / "pickled.npz").check_failed(
        2, "cannot read inputs"
    )


def test_without_onnxruntime(convt, source, tmp_path, no_onnxruntime):
    done = convt("optimize", source, "--target", "portable")
    done.check_failed(3, "onnxruntime is not installed", ".[cpu]", "--no-verify")
    assert names(tmp_path) == ["model.onnx"]
    assert convt("optimize", source, "--target", "portable", "--no-verify").code == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"text\n", b"version https://git-lfs.github.com/spec/v1\n", b"\x08", None, "cut"],
    ids=["empty", "text", "LFS", "truncated", "missing", "cut"],
)
@pytest.mark.parametrize("command", ["optimize", "inspect"])
def test_files_that_cannot_be_read(convt, source, tmp_path, command, content):
    bad = tmp_path / "bad.onnx"
    if content == "cut":
        bad.write_bytes(source.read_bytes()[:-20])
    elif content is not None:
        bad.write_bytes(content)
    convt(command, bad).check_failed(2, "bad.onnx")
    done = convt(command, bad, "--json")
    assert (done.code, done.json["kind"], done.json["exit_code"]) == (2, "error", 2)
    assert not (tmp_path / "bad.convt.onnx").exists()


@pytest.mark.parametrize("path", [".", "..", "/"])
def test_folders(convt, path):
    convt("optimize", path).check_failed(2, "it is a folder")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, ["interrupted"]),
        (MemoryError(), 2, ["not enough memory", "help:"]),
        (PermissionError(13, "denied", "f.onnx"), 2, ["denied", "f.onnx", "help:"]),
        (RuntimeError("odd"), 1, ["internal error: RuntimeError: odd", "please report", "help:"]),
    ],
)  # fmt: skip
def test_whatever_is_raised(convt, source, monkeypatch, error, code, words):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(optimization, "optimize", fail)
    done = convt("optimize", source)
    assert (done.code, done.out) == (code, "")
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err


def test_a_small_difference_fails_where_none_is_allowed(convt, source, tmp_path):
    done = convt("optimize", source, "--target", "portable", "--atol", "0", "--rtol", "0")
    done.check_failed(1, "verification failed: output 'y' differs", "nothing was written")
    assert names(tmp_path) == ["model.onnx"]


def test_passes_and_dumps(convt, source, tmp_path):
    folder = tmp_path / "dump"
    done = convt("optimize", source, "--target", "portable", "--dump-dir", folder)
    assert done.code == 0
    steps = [p.name.partition("-")[2] for p in sorted(folder.iterdir())]
    assert steps == ["canonical-pads.onnx", "lower.onnx"]
    done = convt("optimize", source, "--force", "--passes", "canonical-pads")
    assert done.code == 0
    assert op_types(onnx.load(source.with_name("model.convt.onnx"))) == ["ConvTranspose"] * 2


def test_passes_that_choose_no_form(convt, source, tmp_path):
    page = tmp_path / "page.html"
    done = convt("optimize", source, "--passes", "canonical-pads", "--report", page)
    assert done.code == 0
    assert "(2 ConvTranspose, " in done.err
    assert re.search(r"ConvTranspose +2 +2", done.err)
    assert "No form was chosen" in page.read_text()
    assert "no ConvTranspose" not in page.read_text()


def test_a_dry_run_dumps_nothing(convt, source, tmp_path):
    done = convt("optimize", source, "--dry-run", "--dump-dir", tmp_path / "dump")
    done.check_failed(2, "a dry run writes no model", "--dump-dir")
    assert names(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize("command", ["optimize", "verify", "bench"])
def test_arrays_and_sizes_together_are_refused(convt, source, tmp_path, command):
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 3, 13), np.float32))
    files = (source, source) if command == "verify" else (source,)
    options = ("--inputs", tmp_path / "x.npz", "--input-shapes", "x:2,3,9")
    done = convt(command, *files, *options)
    done.check_failed(2, "given twice", "--input-shapes")
    assert names(tmp_path) == ["model.onnx", "x.npz"]


def test_an_unknown_pass_lists_them_once_in_order(convt, source):
    done = convt("optimize", source, "--passes", "qqq")
    listed = ", ".join(cls.name for cls in PASSES)
    done.check_failed(2, "'qqq'", f"choose one of {listed}")
    assert done.err.count("fold-crops") == 1


def test_an_operator_off_the_device_needs_no_convtranspose(convt, tmp_path):
    text = "g (float[2, 3] x) => (float[2, 3] y) { [pick] y = Hardmax (x) }"
    path = write(model(text), tmp_path, "hardmax.onnx")
    done = convt("optimize", path, "--target", "ort-cuda")
    assert done.code == 0
    assert "nothing to do" not in done.err and "pick" in done.err
    ops = op_types(onnx.load(path.with_name("hardmax.convt.onnx")))
    assert "Hardmax" not in ops and "CumSum" in ops
    cpu = convt("optimize", path, "--force")
    assert "there is nothing to do" in cpu.err
    assert path.with_name("hardmax.convt.onnx").read_bytes() == path.read_bytes()
