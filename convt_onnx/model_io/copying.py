"""Copy a model that nothing changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from convt_onnx.errors import UsageError
from convt_onnx.model_io.records import LoadedModel, SavedModel
from convt_onnx.model_io.staging import staging
from convt_onnx.model_io.targets import check_folder, check_targets, write_error

_CHUNK_BYTES = 16 * 2**20


def copy_unchanged(loaded: LoadedModel, out: Path, *, force: bool) -> SavedModel:
    """Copy the file of `loaded` to `out`, byte for byte.

    In another folder, the copy gets its own copies of the external data files, under the
    names that the model knows; in the same folder it shares them with the input.

    Args:
        loaded: The input.
        out: The file to write, in a folder that exists.
        force: Replace files that exist.

    Returns:
        The copy; `external_path` is the first of its external data files.

    Raises:
        UsageError: A file may not or cannot be written.
    """
    check_folder(out)
    here = loaded.path.parent
    shared = out.parent.samefile(here)
    copies = [(file, out.parent / file.relative_to(here)) for file in loaded.external_files]
    moves = [*([] if shared else copies), (loaded.path, out)]
    targets = [target for _, target in moves]
    _check_inside(out, targets)
    check_targets(loaded, targets, force=force)
    try:
        with staging() as stage:
            for source, target in moves:
                with source.open("rb") as reader, stage.open(target) as writer:
                    _copy(reader, writer)
    except OSError as error:
        raise write_error(out, error) from error
    return SavedModel(
        path=out,
        bytes=out.stat().st_size,
        external_path=copies[0][1] if copies else None,
        external_bytes=loaded.external_bytes,
    )


def _check_inside(out: Path, targets: Sequence[Path]) -> None:
    folder = out.parent.resolve()
    for target in targets:
        if not target.parent.resolve().is_relative_to(folder):
            raise UsageError(f"{target} leads outside {out.parent}", help="remove the link")
    if len(set(targets)) < len(targets):
        raise UsageError(
            f"{out} is the name of the model's external data file",
            help="give the copy another name",
        )


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    try:
        while os.copy_file_range(source.fileno(), target.fileno(), _CHUNK_BYTES):
            pass
    except OSError:
        # Not every pair of file systems can; what was copied so far stays valid.
        shutil.copyfileobj(source, target, _CHUNK_BYTES)
