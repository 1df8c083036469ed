"""The Makefile's environment: of a Python that is new enough, and of the one asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKE = shutil.which("make")
# Runs -c under a pretended version; -m venv gives a new environment a copy of itself.
INTERPRETER = f"""#!/bin/sh
if [ "$1" = -c ]; then
  exec {sys.executable} -c 'import sys
sys.version_info = (3, {{minor}}, 7)
exec(sys.argv.pop(1))' "$2"
fi
if [ "$2" = venv ]; then
  rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python"
fi
"""

pytestmark = pytest.mark.skipif(MAKE is None, reason="make is not installed")


def write_interpreter(path, minor):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(INTERPRETER.format(minor=minor))
    path.chmod(0o755)


@pytest.fixture
def clone(tmp_path):
    """A Makefile, and python3.10 to python3.12 on the path; python3 is 3.10."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for minor in (10, 11, 12):
        write_interpreter(tmp_path / "path" / f"python3.{minor}", minor)
    write_interpreter(tmp_path / "path" / "python3", 10)
    return tmp_path


def make(clone, *words):
    environment = {"PATH": f"{clone / 'path'}:{os.environ['PATH']}"}
    command = [MAKE, "demo", "CONVT=true", *words]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)


def version_of(clone):
    code = "import sys; print(sys.version_info[1])"
    command = [clone / ".venv/bin/python", "-c", code]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def existing(clone, minor):
    """An environment of that version, with a file that goes when it is made anew."""
    write_interpreter(clone / ".venv/bin/python", minor)
    mine = clone / ".venv/mine"
    mine.touch()
    return mine


def test_an_old_python_is_refused_before_anything_is_made(clone):
    done = make(clone)
    assert done.returncode != 0
    assert "error: python3 is Python 3.10, and 3.11 or later is needed" in done.stderr
    assert "help:  make demo PYTHON=python3.12" in done.stderr
    assert not (clone / ".venv").exists()


def test_an_environment_of_an_old_python_is_made_anew(clone):
    mine = existing(clone, 10)
    done = make(clone, "PYTHON=python3.12")
    assert done.returncode == 0, done.stderr
    assert version_of(clone) == 12
    assert not mine.exists()


def test_an_environment_of_another_python_than_asked_for_is_made_anew(clone):
    mine = existing(clone, 12)
    assert make(clone, "PYTHON=python3.11").returncode == 0
    assert version_of(clone) == 11
    assert not mine.exists()


@pytest.mark.parametrize("words", [(), ("PYTHON=python3.12",)])
def test_a_fitting_environment_stays(clone, words):
    mine = existing(clone, 12)
    assert make(clone, *words).returncode == 0
    assert version_of(clone) == 12
    assert mine.exists()


@pytest.mark.parametrize("python", ["python3.10", "python3.99"])
def test_an_unfit_python_does_not_cost_the_environment(clone, python):
    mine = existing(clone, 12)
    assert make(clone, f"PYTHON={python}").returncode != 0
    assert mine.exists()
