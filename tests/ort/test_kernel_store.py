"""Which kernels a library and the user's folder have, and how a library is built."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from convt_onnx.errors import MissingPartError, UsageError
from convt_onnx.ort import registration
from convt_onnx.plugins.onnxruntime import build, store
from convt_onnx.plugins.onnxruntime.wanted import Wanted

from .nodes import SPECS, kernel_text, make_record, write_store


def has(path, record, folder, *, capability=90, sizes=(None, None), tf32=True, wide=False):
    kernel = record.kernel(sizes, tf32=tf32, wide=wide)
    return registration.has_kernel(
        registration.open_library(path), Wanted(record, kernel), capability, folder
    )


def test_kernels_are_found_by_attributes_sizes_and_device(tmp_path):
    record = make_record(SPECS["vocoder"])
    fixed = record.kernel((None, 7), tf32=True)
    path = tmp_path / "a" / build.NAME
    build.build(path, [kernel_text(record, fixed)])
    none = tmp_path / "none"
    assert has(path, record, none, sizes=(None, 7))
    assert not has(path, record, none, sizes=(None, 8))
    assert not has(path, record, none)
    assert not has(path, record, none, sizes=(None, 7), tf32=False)
    assert not has(path, record, none, sizes=(None, 7), wide=True)
    # sm_90a runs on 9.0 alone.
    assert not has(path, record, none, sizes=(None, 7), capability=100)
    assert not has(path, record, none, sizes=(None, 7), capability=80)
    other = replace(record, has_bias=False)
    assert not has(path, other, none, sizes=(None, 7))


def test_tf32_is_a_matter_of_float32(tmp_path):
    """A session that allows TF32 finds the kernels of other types, which have one way."""
    half, single = (make_record(SPECS["vocoder"], t) for t in ("float16", "float32"))
    texts = [kernel_text(r, r.kernel()) for r in (half, single)]
    path = tmp_path / build.NAME
    build.build(path, texts)
    none = tmp_path / "none"
    assert has(path, half, none, tf32=False)
    assert has(path, half, none, tf32=True)
    assert has(path, single, none, tf32=False)
    assert not has(path, single, none, tf32=True)


def test_plain_ptx_runs_on_later_devices(tmp_path):
    record = make_record(SPECS["vocoder"])
    path = tmp_path / build.NAME
    build.build(path, [kernel_text(record, ptx=".target sm_80\n", capability=80)])
    found = [has(path, record, tmp_path / "none", capability=c) for c in (75, 80, 90, 120)]
    assert found == [False, True, True, True]


def test_the_store_must_be_the_users_own(library, tmp_path):
    record = make_record(SPECS["vocoder"])
    own, shared, broken = tmp_path / "own", tmp_path / "shared", tmp_path / "broken"
    for folder in (own, shared):
        write_store(folder, kernel_text(record))
    shared.chmod(0o777)
    write_store(broken, kernel_text(record).replace("grid n 1 +", "grid n +"))
    assert has(library.path, record, own)
    assert not has(library.path, record, shared)
    assert not has(library.path, record, broken)
    assert not has(library.path, record, tmp_path / "absent")
    with pytest.raises(UsageError, match="others may write"):
        store.private_folder(shared)


def test_a_damaged_file_is_read_again_once_it_is_replaced(library, tmp_path):
    """As `register` does in the same process: it compiles what the library does not find."""
    record, folder = make_record(SPECS["vocoder"]), tmp_path / "store"
    write_store(folder, kernel_text(record).replace("grid n 1 +", "grid n +"))
    assert not has(library.path, record, folder)
    write_store(folder, kernel_text(record))
    assert has(library.path, record, folder)


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(MissingPartError, match="no C compiler"):
        build.build(tmp_path / build.NAME)


def test_a_compiler_that_fails(tmp_path):
    with pytest.raises(UsageError, match="the C compiler fails"):
        build.build(tmp_path / build.NAME, flags=["--no-such-flag"])
    assert not (tmp_path / build.NAME).exists()
    with pytest.raises(UsageError, match=r"onnxruntime_c_api\.h is not there"):
        build.build(tmp_path / build.NAME, ort_include=tmp_path)


@pytest.mark.skipif("CONVT_ORT_INCLUDE" not in os.environ, reason="names no folder of the header")
def test_the_public_header_agrees(tmp_path):
    """Offsets and parameters are static assertions in ort_abi.c."""
    build.build(tmp_path / build.NAME, ort_include=Path(os.environ["CONVT_ORT_INCLUDE"]))
    assert (tmp_path / build.NAME).stat().st_size > 0
