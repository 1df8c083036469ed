"""The processor, the cores, the GPU, what is installed, and where the user's cache is."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
from functools import cache
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
# What tells processors of one name apart there.
NUMBERS = {"family": "cpu family", "model": "model"}


def processor() -> str:
    """The processor's name, and what tells it from others that a virtual machine names the same."""
    facts = _cpu_facts()
    name = facts.get("model name") or platform.processor() or platform.machine()
    known = [f"{n} {facts[key]}" for n, key in NUMBERS.items() if key in facts]
    if has_avx512():
        known.append("AVX-512")
    return f"{name} ({', '.join(known)})" if known else name


def has_avx512() -> bool:
    """Whether the processor has AVX-512F, as far as /proc/cpuinfo tells."""
    return "avx512f" in _cpu_facts().get("flags", "").split()


@cache
def _cpu_facts() -> dict[str, str]:
    """What /proc/cpuinfo says of the first processor."""
    try:
        text = CPU_INFO.read_text(errors="replace")
    except OSError:
        return {}
    lines = text.partition("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


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
