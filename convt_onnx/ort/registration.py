"""`register`: the custom-op library for the sessions that an application makes itself."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import onnx

from convt_onnx.errors import ConvtError, UsageError
from convt_onnx.plugins.onnxruntime import build, kernel_file, store
from convt_onnx.plugins.onnxruntime.wanted import Wanted, compile_text, wanted_kernels
from convt_onnx.verify.session import onnxruntime

# What the library reads of a session's options, see plugins/onnxruntime/c/library.c.
TF32 = "convt.tf32"
STORE = "convt.kernel_store"
CPU_KERNEL = "convt.cpu_kernel"


@dataclass(frozen=True, slots=True)
class Registration:
    """What became of it.

    Attributes:
        library: The custom-op library.
        registered: Whether plugin nodes run as its kernels; as their functions otherwise.
        why: Where they do not, the reason.
    """

    library: Path
    registered: bool
    why: str = ""


def register(
    session_options: Any,
    *models: str | os.PathLike[str] | onnx.ModelProto,
    library: str | os.PathLike[str] | None = None,
    tf32: bool = True,
    cpu_kernel: bool = False,
) -> Registration:
    """Let the sessions made with these options run plugin nodes as kernels.

    The library is built on first use, and so are the kernels that the models need on the devices
    of this machine, where Triton is installed; both are kept in the user's cache folder. Where a
    kernel is missing for a device nothing is registered, and ONNX Runtime runs the functions of
    the nodes.

    Args:
        session_options: An onnxruntime.SessionOptions.
        models: The models whose kernels are to be there: files, or messages.
        library: A library that `convt-onnx ort-library` has built, with kernels of its own.
        tf32: Whether float32 products may be rounded to TF32, as ONNX Runtime's own convolutions
            are on the CUDA provider.
        cpu_kernel: Run plugin nodes as this library's kernel on the CPU provider too, which is
            there to compare with: the functions are faster.

    Raises:
        MissingPartError: There is no C compiler, and no `library`.
        UsageError: The library does not load.
    """
    path = build.cached_library() if library is None else Path(library).resolve()
    why = "" if cpu_kernel else _why_not(path, models, tf32)
    if why:
        return Registration(path, False, why)
    entries = {TF32: str(int(tf32)), STORE: str(store.kernel_folder())}
    for name, value in (entries | ({CPU_KERNEL: "1"} if cpu_kernel else {})).items():
        session_options.add_session_config_entry(name, value)
    _add_library(session_options, path)
    return Registration(path, True)


def _add_library(session_options: Any, path: Path) -> None:
    try:
        session_options.register_custom_ops_library(str(path))
    except Exception as error:  # onnxruntime's exceptions share no base of their own
        raise UsageError(
            "ONNX Runtime does not take the custom-op library",
            where=" ".join(str(error).split())[:400],
            help="`convt-onnx ort-library` builds one",
        ) from error


def _why_not(
    path: Path, models: Sequence[str | os.PathLike[str] | onnx.ModelProto], tf32: bool
) -> str:
    """Why nodes are to run as functions; makes missing kernels where it can."""
    library = open_library(path)
    capabilities = device_capabilities(library)
    if not capabilities:
        return "there is no CUDA device"
    if "CUDAExecutionProvider" not in onnxruntime().get_available_providers():
        return "this onnxruntime has no CUDA provider: it is in onnxruntime-gpu"
    try:
        for wanted in wanted_kernels(models, (tf32,)):
            for capability in capabilities:
                _require_kernel(library, wanted, capability)
    except ConvtError as error:
        return str(error).replace("\n", " ")
    return ""


def _require_kernel(library: ctypes.CDLL, wanted: Wanted, capability: int) -> None:
    folder = store.kernel_folder()
    if has_kernel(library, wanted, capability, folder):
        return
    text = compile_text((wanted, capability))
    name = kernel_file.file_name(wanted.record, wanted.kernel, capability)
    store.write(store.private_folder(folder) / name, text.encode())


def has_kernel(library: ctypes.CDLL, wanted: Wanted, capability: int, folder: Path) -> bool:
    """Whether the library or the folder holds a kernel of these attributes and sizes."""
    sizes = (ctypes.c_int64 * 4)(*kernel_file.lifted_sizes(wanted.kernel))
    found = library.convt_has_kernel(
        kernel_file.key(wanted.record).encode(),
        int(wanted.kernel.tf32),
        int(wanted.kernel.wide),
        sizes,
        capability,
        str(folder).encode(),
    )
    return bool(found)


@lru_cache(maxsize=8)
def open_library(path: Path) -> ctypes.CDLL:
    """The library, for the questions that tools may ask it.

    Raises:
        UsageError: It is not there, or not this library.
    """
    try:
        library = ctypes.CDLL(str(path))
        library.convt_has_kernel.argtypes = [
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.c_int,
            ctypes.c_char_p,
        ]
        library.convt_device_capability.argtypes = [ctypes.c_int]
    except (OSError, AttributeError) as error:
        raise UsageError(
            "this is no custom-op library of convt-onnx",
            where=str(error),
            help="`convt-onnx ort-library` builds one",
        ) from error
    return library


def device_capabilities(library: ctypes.CDLL) -> list[int]:
    """Compute capability of each kind of device that the process sees, as 90 for 9.0."""
    found: dict[int, None] = {}
    index = 0
    while capability := library.convt_device_capability(index):
        found[capability] = None
        index += 1
    return list(found)
