"""The first bytes of an engine: who made it, and with which version.

TensorRT's documentation ("Version Compatibility") gives the place of the version.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from convt_onnx.errors import UsageError

MAGIC = {b"ftrt": "tensorrt", b"vtrt": "tensorrt-rtx"}
# major, minor, patch, build: one byte each.
VERSION_AT = 24
SHORTEST = 28


@dataclass(frozen=True, slots=True)
class EngineHeader:
    """Name of the backend, and (major, minor, patch)."""

    backend: str
    version: tuple[int, int, int]

    @property
    def version_text(self) -> str:
        """Such as 10.13.2."""
        return ".".join(map(str, self.version))


def is_engine(path: Path) -> bool:
    """Whether a file starts as an engine does; a pipe would wait to be written to."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(4) in MAGIC
    except OSError:
        return False


def read_header(content: bytes, where: str) -> EngineHeader:
    """Read it.

    Raises:
        UsageError: It is no engine.
    """
    backend = MAGIC.get(content[:4])
    if backend is None or len(content) < SHORTEST:
        raise UsageError(
            "this is no engine of TensorRT or TensorRT-RTX",
            where=where,
            help="convt-onnx build MODEL makes one",
        )
    major, minor, patch = content[VERSION_AT : VERSION_AT + 3]
    return EngineHeader(backend, (major, minor, patch))
