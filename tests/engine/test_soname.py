from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from convt_onnx.engine import soname
from convt_onnx.engine.backend import Backend
from convt_onnx.engine.soname import ensure_library_name, is_loaded, shared_object
from convt_onnx.errors import MissingPartError

CHILD = """
import ctypes
from convt_onnx.engine.backend import load_backend
from convt_onnx.engine.soname import ensure_library_name, is_loaded
backend = load_backend("tensorrt-rtx")
before = is_loaded("libtensorrt_rtx.so")
ensure_library_name(backend)
found = ctypes.CDLL("libtensorrt_rtx.so")
print(before, is_loaded("libtensorrt_rtx.so"), found.getInferLibVersion())
"""


def test_the_missing_name_is_found_afterwards(rtx):
    result = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True
    )
    _, after, version = result.stdout.split()
    assert after == "True"
    major, minor, patch = rtx.version[:3]
    assert int(version) == 10000 * major + 100 * minor + patch


def test_the_object_brings_the_library_that_it_needs(tmp_path):
    path = tmp_path / "alias.so"
    path.write_bytes(shared_object("libconvt_alias.so", "libm.so.6", soname.MACHINES["x86_64"]))
    assert not is_loaded("libconvt_alias.so")
    library = ctypes.CDLL(str(path))
    library.cos.restype = ctypes.c_double
    library.cos.argtypes = [ctypes.c_double]
    assert library.cos(0.0) == 1.0
    assert ctypes.CDLL("libconvt_alias.so")._handle == library._handle


def test_other_backends_need_nothing(monkeypatch):
    looked_for = []
    monkeypatch.setattr(soname, "is_loaded", looked_for.append)
    ensure_library_name(Backend("tensorrt", object()))
    assert looked_for == []


def test_what_cannot_be_made_is_an_error_not_an_abort(rtx, monkeypatch):
    monkeypatch.setattr(soname, "is_loaded", lambda name: False)
    monkeypatch.setattr(soname, "MACHINES", {})
    with pytest.raises(MissingPartError, match="library name that its wheel does not have"):
        ensure_library_name(rtx)
