"""The processor, the cores, the GPU, what is installed, and where the user's cache is."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
from pathlib import Path


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def gpu() -> str:
    """Name of the first CUDA device that this process may use, "" where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    name, device = ctypes.create_string_buffer(256), ctypes.c_int()
    failed = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), 0)
        or driver.cuDeviceGetName(name, len(name), device)
    )
    return "" if failed else name.value.decode()


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution, None where it is absent."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def cache_folder() -> Path:
    """Where times, schedules, kernels and libraries are kept: $CONVT_ONNX_CACHE, or the system's.

    It may not exist yet.
    """
    chosen = os.environ.get("CONVT_ONNX_CACHE")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("convt-onnx"))
