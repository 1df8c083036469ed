"""Decide whether files may be written where the user wants them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from convt_onnx.errors import UsageError
from convt_onnx.model_io.records import LoadedModel


def check_destination(loaded: LoadedModel, out: Path, *, force: bool) -> None:
    """Check before any work whether `save` could write to `out`.

    Args:
        loaded: The input, which is never written over.
        out: The file to write.
        force: Whether `out` and its data file may be replaced.

    Raises:
        UsageError: `out` may not be written, or its folder does not exist.
    """
    check_folder(out)
    targets = (out, data_path(out)) if loaded.external_files else (out,)
    check_targets(loaded, targets, force=force)


def data_path(out: Path) -> Path:
    """Where the external data of a written model goes."""
    return out.with_name(out.name + ".data")


def check_targets(loaded: LoadedModel, targets: Iterable[Path], *, force: bool) -> None:
    """Check every file that is about to be written.

    Raises:
        UsageError: One belongs to the input model, exists while `force` is off, or is no file.
    """
    for target in targets:
        for source in (loaded.path, *loaded.external_files):
            if _same_file(target, source):
                raise UsageError(
                    f"{target} is part of the input model",
                    where=f"input {source}",
                    help="name another output; the input is never written over",
                )
        check_replaceable(target, force=force)


def check_new_file(out: Path, *others: Path, force: bool) -> None:
    """Check before any work whether a file that is no model may be written.

    Args:
        out: The file to write.
        others: Files that this run reads or writes besides.
        force: Whether `out` may be replaced.

    Raises:
        UsageError: Its folder does not exist, it is one of `others`, no file, or exists while
            `force` is off.
    """
    check_folder(out)
    for other in others:
        if out.absolute() == other.absolute() or _same_file(out, other):
            raise UsageError(
                f"{out} is also read or written by this run",
                where=str(other),
                help="name another file",
            )
    check_replaceable(out, force=force)


def check_replaceable(target: Path, *, force: bool) -> None:
    """Check that nothing but a file stands where one is to be written, and that only with `force`.

    Raises:
        UsageError: Something does.
    """
    if target.is_dir():
        raise UsageError(f"{target} is a folder", help="name a file in it")
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is not a regular file", help="name a file to write")
    if os.path.lexists(target) and not force:
        raise UsageError(
            f"{target} exists",
            help="pass --force (from Python, force=True) to replace it, or name another output",
        )


def check_folder(out: Path) -> None:
    """Check that the folder of `out` exists.

    Raises:
        UsageError: It does not.
    """
    if not out.parent.is_dir():
        raise UsageError(f"the folder {out.parent} does not exist", help="make it first")


def write_error(out: Path, error: OSError) -> UsageError:
    """The error to show when the system refuses to write."""
    return UsageError(
        f"cannot write {out}: {error.strerror or error}",
        where=str(error.filename or ""),
        help="nothing was written; free some space or name another output",
    )


def _same_file(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False
