from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import helper

from convt_onnx import OptimizeOptions, VerifyOptions, optimize, verify_files
from convt_onnx.errors import ExitCode, ModelError, UsageError
from convt_onnx.targets import TARGETS

from ..graph.building import array, model, write


def test_a_pipe_or_device_is_not_replaced(tmp_path, source):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="not a regular file"):
        optimize(source, pipe, OptimizeOptions(force=True))
    assert pipe.is_fifo()


# A sequence that recolours, a faked line, and a mark that reverses what follows.
NAME = "up\x1b[31m\nverified: 9/9 \u202e[bold]"


@pytest.mark.parametrize("columns", ["40", "160"])
@pytest.mark.parametrize("command", ["inspect -v", "optimize --no-tune -v", "compare", "verify"])
def test_names_cannot_steer_the_terminal(tmp_path, convt, monkeypatch, columns, command):
    monkeypatch.setenv("COLUMNS", columns)
    text = "g (float[n, 2, 3, 3] x) => (float[] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }"
    proto = model(text, w=array(2, 3, 2, 2))
    (node,) = proto.graph.node
    node.name = node.output[0] = proto.graph.output[0].name = NAME
    path = str(write(proto, tmp_path, "hostile.onnx"))
    node.attribute.append(helper.make_attribute("kernel_shape", [2, 2]))
    other = str(write(proto, tmp_path, "other.onnx"))
    both = [path] if command.split()[0] in ("inspect", "optimize") else [path, other]
    done = convt(*command.split(), *both)
    assert done.code == 0
    shown = done.out + done.err
    assert not set("\x1b\u202e") & set(shown)
    assert "verified: 9/9" not in [line.strip() for line in shown.splitlines()]
    assert "[bold]" in "".join(shown.split())


def test_errors_cannot_steer_the_terminal(tmp_path, convt):
    text = "g (float[1, 2, 3, 3] x) => (float[] y) { y = ConvTranspose <group = 5> (x, w) }"
    proto = model(text, w=array(2, 3, 2, 2))
    proto.graph.node[0].name = NAME
    done = convt("optimize", write(proto, tmp_path, "hostile.onnx"))
    assert done.code == 2
    assert "\x1b" not in done.err and "\\x1b[31m" in done.err


@pytest.mark.parametrize("command", ["optimize", "build", "inspect", "bench"])
def test_a_folder_is_no_model(convt, command):
    done = convt(command, ".")
    assert done.code in (2, 3)
    assert "internal error" not in done.err


@pytest.mark.parametrize(
    "wrong", [["-o", "none/lib.so"], ["-o", "lib.so", "--jobs", "0"], ["-o", ".", "--force"]]
)
def test_where_no_library_can_be_written(convt, tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    convt("ort-library", *wrong).check_failed(2)
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_no_model_and_nobody_waits_for_it(tmp_path, source):
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="not a regular file"):
        verify_files(source, pipe)


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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("command", ["optimize --no-tune", "optimize --no-tune --no-verify"])
@pytest.mark.parametrize(
    ("shape", "stride"), [("1,2,2147483648,2147483648", 2), ("1,2,32,32", 2**62)]
)
def test_sizes_that_nothing_can_hold_name_the_node(tmp_path, convt, shape, stride, command, target):
    node = f"[up] y = ConvTranspose <strides = [{stride}, {stride}]> (x, w)"
    proto = model(f"g (float[{shape}] x) => (float[] y) {{ {node} }}", w=array(2, 3, 4, 4))
    path = write(proto, tmp_path, "huge.onnx")
    done = convt(*command.split(), path, "--target", target)
    done.check_failed(2, "'up'", "too large for any runtime", str(stride))


def test_given_sizes_that_nothing_can_hold(convt, source):
    done = convt("optimize", source, "--no-verify", "--input-shapes", "x:2,3,9223372036854775808")
    done.check_failed(2, "input 'x'", "too large for any runtime")


@pytest.mark.parametrize("more", [["--json"], []])
def test_a_full_disk_behind_stdout(source, more):
    command = [sys.executable, "-m", "convt_onnx", "inspect", str(source), *more]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.splitlines()[0] == "error: cannot read or write: No space left on device"
    assert done.stderr.splitlines()[-1].startswith("help:")
    assert "Traceback" not in done.stderr
