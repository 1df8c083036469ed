from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from convt_onnx.errors import UsageError
from convt_onnx.model_io import copy_unchanged, load

from .conftest import files


@pytest.fixture
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("out") / "copy.onnx"


def test_copies_byte_for_byte(proto, write, out):
    content = proto.SerializeToString() + b"\xf8\x07\x05"
    saved = copy_unchanged(load(write(content)), out, force=False)
    assert files(out.parent) == {"copy.onnx": content}
    assert (saved.path, saved.bytes) == (out, len(content))
    assert (saved.external_path, saved.external_bytes) == (None, 0)


def test_copies_external_data_to_another_folder(external_model, out):
    loaded = load(external_model)
    saved = copy_unchanged(loaded, out, force=False)
    before = files(external_model.parent)
    assert files(out.parent) == {"copy.onnx": before.pop("model.onnx"), **before}
    assert saved.external_path == out.with_name("w.bin")
    assert saved.external_bytes == loaded.external_bytes
    again = load(out).model.graph.initializers["w"].const_value
    assert again.numpy().sum() == 153


def test_shares_external_data_within_a_folder(external_model):
    before = files(external_model.parent)
    loaded = load(external_model)
    out = external_model.with_name("copy.onnx")
    saved = copy_unchanged(loaded, out, force=False)
    assert files(external_model.parent) == {**before, "copy.onnx": before["model.onnx"]}
    assert saved.external_path == external_model.with_name("w.bin")


def test_follows_links_within_the_folder(external_model, out):
    inside = external_model.with_name("w.bin")
    inside.rename(external_model.with_name("real.bin"))
    inside.symlink_to("real.bin")
    copy_unchanged(load(external_model), out, force=False)
    assert not out.with_name("w.bin").is_symlink()
    assert out.with_name("w.bin").stat().st_size == 88


@pytest.mark.parametrize("name", ["copy.onnx", "w.bin", "sub/m.bin"])
def test_existing_files_need_force(external_model, out, name):
    loaded = load(external_model)
    target = out.parent / name
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(b"old")
    with pytest.raises(UsageError, match="--force"):
        copy_unchanged(loaded, out, force=False)
    assert files(out.parent) == {name: b"old"}
    copy_unchanged(loaded, out, force=True)
    assert load(out).external_bytes == loaded.external_bytes


@pytest.mark.parametrize("force", [False, True])
def test_the_input_is_never_written_over(external_model, out, force):
    loaded = load(external_model)
    os.link(external_model, out)
    out.with_name("w.bin").symlink_to(external_model.with_name("w.bin"))
    before = files(external_model.parent)
    for target in (external_model, external_model.with_name("w.bin"), out):
        with pytest.raises(UsageError, match="part of the input"):
            copy_unchanged(loaded, target, force=force)
    out.unlink()
    with pytest.raises(UsageError, match="part of the input"):
        copy_unchanged(loaded, out, force=force)
    assert files(external_model.parent) == before


def test_never_writes_outside_the_folder(external_model, out, tmp_path_factory):
    (out.parent / "sub").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(UsageError, match="leads outside"):
        copy_unchanged(load(external_model), out, force=True)
    assert files(out.parent) == {}


def test_the_copy_may_not_take_the_name_of_its_data(external_model, out):
    with pytest.raises(UsageError, match="external data file"):
        copy_unchanged(load(external_model), out.with_name("w.bin"), force=True)


def test_missing_folder(external_model, out):
    with pytest.raises(UsageError, match="does not exist"):
        copy_unchanged(load(external_model), out.parent / "no" / "copy.onnx", force=True)


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_failures_leave_nothing(external_model, out, monkeypatch, failure):
    loaded = load(external_model)
    calls = []
    replace = Path.replace

    def fail(self, target):
        calls.append(self)
        if len(calls) == 2:
            raise failure
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises((UsageError, KeyboardInterrupt)):
        copy_unchanged(loaded, out, force=False)
    assert list(out.parent.iterdir()) == []


def test_file_systems_without_fast_copies(external_model, out, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    copy_unchanged(load(external_model), out, force=False)
    assert load(out).external_bytes == 40_088
