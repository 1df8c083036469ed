"""Every command and every Python block of the README runs."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands():
    """Command lines with the words behind them."""
    lines = [line.strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("convt-onnx ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("readme")
    (path / "models").mkdir()
    for model in (ROOT / "models").glob("*.onnx"):
        shutil.copy(model, path / "models")
    return path


def test_commands_run_in_order(folder):
    assert len(commands()) >= 6
    for line in commands():
        words = [sys.executable, "-m", "convt_onnx", *shlex.split(line.split(" #")[0])[1:]]
        mine = os.environ | {"CONVT_ONNX_CACHE": str(folder)}
        mine.pop("TRITON_INTERPRET", None)  # which the tests set, and which compiles nothing
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=mine)
        if "needs [gpu]" in line and importlib.util.find_spec("triton") is None:
            assert done.returncode == 3, (line, done.stderr)
            continue
        assert done.returncode == 0, (line, done.stderr)
        assert done.stdout, line


def test_python_blocks_run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert blocks("python")
    for block in blocks("python"):
        exec(compile(block, "README", "exec"), {})


def test_no_placeholder_is_left():
    assert not re.search(r"^[A-Z]{4,}$", README, re.MULTILINE)


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = {t for block in blocks("sh") for t in re.findall(r"^make (\w+)", block, re.MULTILINE)}
    assert named == {"demo", "test"}
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_tables_name_every_target_form_and_pass():
    from convt_onnx.forms import FORMS
    from convt_onnx.pipeline import PASSES
    from convt_onnx.targets import TARGETS

    for name in (*FORMS, *TARGETS, *(cls.name for cls in PASSES)):
        assert f"| `{name}`" in README
