"""Folders of the user's own: libraries that were built, kernels that were compiled."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from convt_onnx.errors import UsageError
from convt_onnx.machine import cache_folder
from convt_onnx.model_io.staging import staging
from convt_onnx.plugins import conv_transpose

DEVICE_CODE = Path(conv_transpose.__file__).parent
# What others could have written is neither loaded nor launched.
PRIVATE = 0o700
OTHERS_MAY_WRITE = 0o022


def library_folder() -> Path:
    """Where built libraries are kept."""
    return cache_folder() / "onnxruntime"


def kernel_folder() -> Path:
    """Where compiled kernels are kept: what the library reads besides its own.

    Each version of the device code has a folder, so that none runs what another has compiled.
    """
    return cache_folder() / "kernels" / _code_version()


@lru_cache(maxsize=1)
def _code_version() -> str:
    """Digest of the sources that kernels and packed weights are made from."""
    digest = hashlib.sha256()
    for path in sorted(DEVICE_CODE.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def private_folder(folder: Path) -> Path:
    """The folder, made where it is missing, that nobody else can write to.

    Raises:
        UsageError: It belongs to another user, or others may write to it.
    """
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & OTHERS_MAY_WRITE:
        raise UsageError(
            "others may write to the folder that holds code to run",
            where=str(folder),
            help="chmod go-w it, or set CONVT_ONNX_CACHE to a folder of your own",
        )
    return folder


def write(path: Path, data: bytes) -> None:
    """Put a file in place in one step."""
    with staging() as files, files.open(path) as file:
        file.write(data)
