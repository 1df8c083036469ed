"""Where nothing is written, and what is left where writing fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import onnx_ir as ir
import pytest

from convt_onnx.errors import ExitCode, UsageError
from convt_onnx.model_io import check_destination, load, save

from .conftest import files


def check_refused(loaded, out, words, *, force=False):
    before = files(loaded.path.parent)
    for write_out in (check_destination, lambda *a, **k: save(a[0], a[0].model, a[1], **k)):
        with pytest.raises(UsageError) as caught:
            write_out(loaded, out, force=force)
        assert caught.value.exit_code == ExitCode.USAGE
        assert words in str(caught.value)
    assert files(loaded.path.parent) == before


def test_existing_files_are_kept(external_model, out):
    loaded = load(external_model)
    for name in ("new.onnx", "new.onnx.data"):
        out.with_name(name).write_bytes(b"old")
        check_refused(loaded, out, "--force")
        saved = save(loaded, loaded.model, out, force=True)
        assert saved.external_bytes > 3
        for file in out.parent.iterdir():
            file.unlink()
    out.symlink_to("nowhere")
    check_refused(loaded, out, "--force")


@pytest.mark.parametrize("force", [False, True])
def test_the_input_is_never_written_over(external_model, out, force):
    loaded = load(external_model)
    check_refused(loaded, external_model, "part of the input", force=force)
    check_refused(loaded, external_model.with_name("w.bin"), "part of the input", force=force)
    out.symlink_to(external_model)
    check_refused(loaded, out, "part of the input", force=force)
    out.unlink()
    os.link(external_model, out)
    check_refused(loaded, out, "part of the input", force=force)
    out.unlink()
    out.with_name("new.onnx.data").symlink_to(external_model.with_name("w.bin"))
    check_refused(loaded, out, "part of the input", force=force)


def test_folders(external_model, out):
    loaded = load(external_model)
    check_refused(loaded, out.parent / "no" / "new.onnx", "does not exist")
    check_refused(loaded, out.parent, "is a folder", force=True)
    check_refused(loaded, external_model / "new.onnx", "does not exist")
    out.with_name("new.onnx.data").mkdir()
    check_refused(loaded, out, "is a folder", force=True)


FAILURES = [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("step", ["tensor", "serialise", "first move", "last move"])
def test_failures_leave_everything_as_it_was(
    external_model, out, monkeypatch, failure, exists, step
):
    loaded = load(external_model)
    if exists:
        save(loaded, loaded.model, out, force=False)
        out.with_name("new.onnx.data").write_bytes(b"old data")
    before = files(external_model.parent)
    if step == "tensor":
        monkeypatch.setattr(ir.ExternalTensor, "tofile", fail_at(2, None, failure))
    elif step == "serialise":
        monkeypatch.setattr(ir.serde, "serialize_model", fail_at(1, None, failure))
    else:
        count = 1 if step == "first move" else 2 + 2 * exists
        monkeypatch.setattr(Path, "replace", fail_at(count, Path.replace, failure))
    expected = UsageError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected, match=r"^$|No space left"):
        save(loaded, loaded.model, out, force=True)
    assert files(external_model.parent) == before
    assert str(loaded.model.graph.initializers["w"].const_value.location) == "w.bin"


def fail_at(count: int, original, failure: BaseException):
    """A function that works for a while, fails once, and works again."""
    calls = iter(range(1, 1000))

    def function(*arguments):
        if next(calls) == count:
            raise failure
        return original(*arguments) if original else None

    return function


def test_a_crash_between_the_moves_leaves_no_model(external_model, out, monkeypatch):
    loaded = load(external_model)
    save(loaded, loaded.model, out, force=False)
    steps = []
    replace = Path.replace

    def watched(self, target):
        result = replace(self, target)
        steps.append((out.exists(), out.with_name("new.onnx.data").exists()))
        return result

    monkeypatch.setattr(Path, "replace", watched)
    save(loaded, loaded.model, out, force=True)
    assert steps == [(False, True), (False, False), (False, True), (True, True)]


def test_what_does_not_serialise_is_a_model_error(proto, write, out):
    loaded = load(write(proto))
    loaded.model.graph.doc_string = "\ud800"
    with pytest.raises(Exception, match="does not serialise") as caught:
        save(loaded, loaded.model, out, force=False)
    assert caught.value.exit_code == ExitCode.USAGE
    assert files(out.parent) == {}
