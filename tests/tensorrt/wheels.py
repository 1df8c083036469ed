"""TensorRT's Python bindings of any version, without the libraries that they bind."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .stubs import compiler, make_stubs

# The CUDA that each major version's wheels are named after.
CUDA = {10: "cu12", 11: "cu13"}


def unpacked_bindings(version: str, folder: Path) -> tuple[Path, Path]:
    """A binding wheel, downloaded and unpacked, and stubs of its libraries; else skips the test."""
    if compiler() is None:
        pytest.skip("no C compiler makes the stub libraries")
    major = int(version.split(".")[0])
    package = f"tensorrt-{CUDA[major]}-bindings=={version}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    command += ["--only-binary=:all:", "-d", folder, package]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip(f"pip does not get {package}")
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as content:
        content.extractall(folder / "unpacked")
    return folder / "unpacked", make_stubs(folder / "stubs", major)
