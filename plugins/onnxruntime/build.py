"""Builds the custom-op library with the system's C compiler, once for each content."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from convt_onnx.errors import MissingPartError, UsageError
from convt_onnx.plugins.onnxruntime import store

SOURCES = Path(__file__).parent / "c"
NAME = "libconvt_ort.so"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
WARNINGS = ("-Wall", "-Wextra", "-Werror")
LIBRARIES = ("-lm", "-ldl", "-lpthread")
SECONDS = 600
BYTES_A_LINE = 512


def cached_library(kernels: Sequence[str] = (), ort_include: Path | None = None) -> Path:
    """The library with these kernel files inside, built unless it has been before.

    Raises:
        MissingPartError: There is no C compiler.
        UsageError: The compiler fails, or the cache folder is not the user's own.
    """
    folder = store.private_folder(store.library_folder())
    path = folder / _digest(kernels, ort_include) / NAME
    if not path.is_file():
        store.private_folder(path.parent)
        build(path, kernels, ort_include)
    return path


def build(
    output: Path,
    kernels: Sequence[str] = (),
    ort_include: Path | None = None,
    *,
    flags: Sequence[str] = (),
) -> None:
    """Compile and link the library.

    Args:
        output: Where to put it, in one step.
        kernels: Kernel files to embed.
        ort_include: Folder with onnxruntime_c_api.h to compile against; by default what is needed
            of the API is declared in the sources.
        flags: Further flags of the compiler.

    Raises:
        MissingPartError: There is no C compiler.
        UsageError: The compiler fails; `where` holds the beginning of what it says.
    """
    compiler = find_compiler()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "table.c").write_text(_table(kernels))
        sources = [*sorted(SOURCES.glob("*.c")), folder / "table.c"]
        made = folder / NAME
        command = [*compiler, *FLAGS, *WARNINGS, *flags, f"-I{SOURCES}", *_header(ort_include)]
        _run([*command, *map(str, sources), "-o", str(made), *LIBRARIES])
        store.write(output, made.read_bytes())


def find_compiler() -> list[str]:
    """$CC, or the first compiler on the path.

    Raises:
        MissingPartError: There is none.
    """
    chosen = shlex.split(os.environ.get("CC", ""))
    for name in (*chosen[:1], *COMPILERS):
        if shutil.which(name) is not None:
            return chosen if chosen and name == chosen[0] else [name]
    raise MissingPartError(
        "there is no C compiler to build the library with",
        where=f"none of {', '.join((*chosen[:1], *COMPILERS))} is on the path",
        help="install gcc or clang, or set CC; Triton needs one too",
    )


def _header(ort_include: Path | None) -> list[str]:
    if ort_include is None:
        return []
    if not (ort_include / "onnxruntime_c_api.h").is_file():
        raise UsageError(
            "onnxruntime_c_api.h is not there",
            where=f"--ort-include {ort_include}",
            help="name the folder that it is in, or leave it out",
        )
    return ["-DCONVT_ORT_HEADER", "-isystem", str(ort_include)]


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"the C compiler took over {SECONDS} s",
            where=command[0],
            help="give fewer models at once",
        ) from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        where = f"{command[0]}: {lines[0].strip()[:300]}"
        raise UsageError("the C compiler fails", where=where, help="set CC to another compiler")


def _table(kernels: Sequence[str]) -> str:
    """C source of the embedded files, as bytes: a compiler need not take long strings."""
    parts = ['#include "kernel.h"\n']
    for i, kernel in enumerate(kernels):
        data = kernel.encode() + b"\0"
        rows = (data[at : at + BYTES_A_LINE] for at in range(0, len(data), BYTES_A_LINE))
        body = ",\n".join(",".join(map(str, row)) for row in rows)
        parts.append(f"static const char kernel_{i}[] = {{{body}}};\n")
    names = ", ".join([*(f"kernel_{i}" for i in range(len(kernels))), "0"])
    parts.append(f"const char *const convt_embedded[] = {{{names}}};\n")
    return "".join(parts)


def _digest(kernels: Sequence[str], ort_include: Path | None) -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for kernel in kernels:
        digest.update(kernel.encode() + b"\0")
    digest.update(" ".join((*find_compiler(), *FLAGS, str(ort_include))).encode())
    return digest.hexdigest()[:24]
