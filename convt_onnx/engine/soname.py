"""The library name that TensorRT-RTX's ONNX parser looks for and its wheel does not have.

The parser calls dlopen("libtensorrt_rtx.so") when it adds the first plugin layer; the wheel holds
libtensorrt_rtx.so.1 alone, and the process aborts, which nobody can catch. The loader finds a
library that is already loaded by its DT_SONAME, so an empty one of that name which needs the real
one, loaded from memory, answers that call; symbols are looked up in what it needs too.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

from convt_onnx.engine.backend import Backend
from convt_onnx.errors import MissingPartError

MISSING_NAME = "libtensorrt_rtx.so"
REAL_NAME = "libtensorrt_rtx.so.1"
MACHINES = {"x86_64": 62, "aarch64": 183}
# The largest page of either machine.
PAGE = 0x10000
_loaded: list[ctypes.CDLL] = []


def ensure_library_name(backend: Backend) -> None:
    """Make `dlopen("libtensorrt_rtx.so")` succeed in this process.

    Raises:
        MissingPartError: It cannot; to add a plugin layer would end the process.
    """
    if backend.name != "tensorrt-rtx" or is_loaded(MISSING_NAME):
        return
    machine = MACHINES.get(platform.machine())
    if machine is not None:
        _load_from_memory(shared_object(MISSING_NAME, REAL_NAME, machine))
    if not is_loaded(MISSING_NAME):
        raise MissingPartError(
            f"{backend.title}'s parser needs a library name that its wheel does not have",
            where=MISSING_NAME,
            help=f"ln -s {REAL_NAME} {MISSING_NAME} beside the library, or --plugin off",
        )


def is_loaded(name: str) -> bool:
    """Whether the loader knows a library of that name."""
    try:
        ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def _load_from_memory(content: bytes) -> None:
    descriptor = os.memfd_create(MISSING_NAME)
    try:
        os.write(descriptor, content)
        _loaded.append(ctypes.CDLL(f"/proc/self/fd/{descriptor}"))
    except OSError as error:
        raise MissingPartError(
            "a shared object for the missing library name does not load",
            where=str(error),
            help=f"ln -s {REAL_NAME} {MISSING_NAME} beside the library, or --plugin off",
        ) from error
    finally:
        os.close(descriptor)


def shared_object(name: str, needed: str, machine: int) -> bytes:
    """An ELF64 shared object without code: DT_SONAME `name`, DT_NEEDED `needed`.

    Format: https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html

    Args:
        name: What it is called.
        needed: The library that it loads.
        machine: e_machine of the processor.
    """
    strings = b"\0" + name.encode() + b"\0" + needed.encode() + b"\0"
    headers = 64 + 3 * 56
    symbols = headers
    table = symbols + 24
    text = table + 16
    dynamic = -(-(text + len(strings)) // 8) * 8
    entries = (
        (14, 1),  # DT_SONAME
        (1, 2 + len(name)),  # DT_NEEDED
        (4, table),  # DT_HASH
        (6, symbols),  # DT_SYMTAB
        (11, 24),  # DT_SYMENT
        (5, text),  # DT_STRTAB
        (10, len(strings)),  # DT_STRSZ
        (0, 0),
    )
    size = dynamic + 16 * len(entries)
    elf = struct.pack("<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 3, machine, 1,
                      0, 64, 0, 0, 64, 56, 3, 64, 0, 0)  # fmt: skip
    for kind, offset, length in ((1, 0, size), (2, dynamic, size - dynamic), (0x6474E551, 0, 0)):
        # Read and write: the loader relocates the dynamic section in place.
        elf += struct.pack("<IIQQQQQQ", kind, 6, offset, offset, offset, length, length,
                           PAGE if kind == 1 else 8)  # fmt: skip
    elf += bytes(24) + struct.pack("<4I", 1, 1, 0, 0) + strings
    elf = elf.ljust(dynamic, b"\0")
    return elf + b"".join(struct.pack("<QQ", tag, value) for tag, value in entries)
