"""Write files under temporary names and put them in place together, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO


@dataclass(slots=True)
class Staging:
    """Files on their way, in the order in which they are put in place."""

    _moves: list[tuple[Path, Path]] = field(default_factory=list)
    _folders: list[Path] = field(default_factory=list)

    @contextlib.contextmanager
    def open(self, target: Path) -> Iterator[BinaryIO]:
        """Open a new file that `target` becomes when everything is written.

        Raises:
            OSError: The file cannot be made or written.
        """
        self._make_folder(target.parent)
        temporary = _sibling(target)
        self._moves.append((temporary, target))
        with temporary.open("xb") as file:
            yield file

    def _make_folder(self, folder: Path) -> None:
        if not folder.exists():
            self._make_folder(folder.parent)
            folder.mkdir()
            self._folders.append(folder)

    def commit(self) -> None:
        """Put the files in place.

        Several files cannot be replaced in one step. Old ones are set aside first, the last
        file first of all: whoever is interrupted half-way finds no model rather than a
        model that reads another model's data.
        """
        kept: list[tuple[Path, Path]] = []
        try:
            if len(self._moves) > 1:
                for _, target in reversed(self._moves):
                    if os.path.lexists(target):
                        kept.append((_sibling(target), target))
                        target.replace(kept[-1][0])
            for temporary, target in self._moves:
                temporary.replace(target)
        except BaseException:
            self._undo(kept)
            raise
        for backup, _ in kept:
            backup.unlink(missing_ok=True)

    def _undo(self, kept: list[tuple[Path, Path]]) -> None:
        if len(self._moves) > 1:
            for temporary, target in self._moves:
                if not os.path.lexists(temporary):
                    target.unlink(missing_ok=True)
        for backup, target in reversed(kept):
            if os.path.lexists(backup):
                backup.replace(target)

    def discard(self) -> None:
        """Remove what was written and not put in place."""
        for temporary, _ in self._moves:
            temporary.unlink(missing_ok=True)
        for folder in reversed(self._folders):
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def staging() -> Iterator[Staging]:
    """Stage files for the length of a block, and put them in place at its end.

    Raises:
        OSError: A file cannot be put in place; then none is.
    """
    stage = Staging()
    try:
        yield stage
        stage.commit()
    except BaseException:
        stage.discard()
        raise


def _sibling(target: Path) -> Path:
    return target.with_name(f".convt-onnx-{secrets.token_hex(6)}.tmp")
