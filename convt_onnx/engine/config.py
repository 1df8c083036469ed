"""The builder's settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convt_onnx.engine.network import Network
from convt_onnx.engine.profiles import Profile, add_profiles
from convt_onnx.errors import UsageError
from convt_onnx.suggest import did_you_mean

MIB = 1 << 20
MAX_LEVEL = 5
COMPATIBILITIES = ("ampere_plus", "same_compute_capability")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the builder may be told; nothing is set that is not given.

    Attributes:
        timing_cache: A file to read measured tactics from and to write them to.
        compute_capabilities: GPU generations to build for, such as "89" and "120"; TensorRT-RTX.
        hardware_compatibility: "ampere_plus" or "same_compute_capability".
        version_compatible: Whether later versions of the library shall load the engine.
        memory_mib: Workspace that layers may use, in MiB.
        optimization_level: 0 to 5; how long the builder searches.

    Raises:
        UsageError: A value that no version takes.
    """

    timing_cache: Path | None = None
    compute_capabilities: tuple[str, ...] = ()
    hardware_compatibility: str | None = None
    version_compatible: bool = False
    memory_mib: int | None = None
    optimization_level: int | None = None

    def __post_init__(self) -> None:
        level, compatibility = self.optimization_level, self.hardware_compatibility
        if level is not None and not 0 <= level <= MAX_LEVEL:
            raise UsageError(
                f"the optimization level is from 0 to {MAX_LEVEL}",
                where=f"--optimization-level {level}",
                help="3 is the usual one",
            )
        if compatibility is not None and compatibility.lower() not in COMPATIBILITIES:
            raise UsageError(
                f"no hardware compatibility {compatibility!r}",
                where=f"--hardware-compatibility {compatibility}",
                help=did_you_mean(compatibility, COMPATIBILITIES),
            )
        for text in self.compute_capabilities:
            if not re.fullmatch(r"SM\d{2,3}|CURRENT", _capability(text)):
                raise UsageError(
                    f"cannot read the compute capability {text!r}",
                    where=f"--compute-capability {text}",
                    help="89, 8.9 and sm_89 are one; `current` is that of the GPU here",
                )

    @property
    def plugin_capability(self) -> int | None:
        """What plugins are compiled for ahead of time; None for the device that builds."""
        if (self.hardware_compatibility or "").lower() == "ampere_plus":
            return 80
        first = _capability(self.compute_capabilities[0]) if self.compute_capabilities else ""
        return int(first.removeprefix("SM")) if first.startswith("SM") else None


def configure(network: Network, settings: Settings, profiles: Sequence[Profile]) -> Any:
    """A builder configuration.

    Raises:
        UsageError: A setting that this version does not have, or a value that it does not take.
    """
    backend, trt = network.backend, network.backend.module
    config = network.builder.create_builder_config()
    add_profiles(network, config, profiles)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if settings.memory_mib is not None:
        pool = trt.MemoryPoolType.WORKSPACE
        config.set_memory_pool_limit(pool, settings.memory_mib * MIB)
    if settings.optimization_level is not None:
        config.builder_optimization_level = settings.optimization_level
    if settings.version_compatible:
        option = "--version-compatible"
        config.set_flag(backend.enum("BuilderFlag", "VERSION_COMPATIBLE", option))
    if settings.hardware_compatibility is not None:
        level = backend.enum(
            "HardwareCompatibilityLevel",
            settings.hardware_compatibility,
            "--hardware-compatibility",
        )
        config.hardware_compatibility_level = level
    _set_compute_capabilities(network, config, settings.compute_capabilities)
    _load_timing_cache(network, config, settings.timing_cache)
    return config


def _set_compute_capabilities(network: Network, config: Any, wanted: Sequence[str]) -> None:
    if not wanted:
        return
    if not hasattr(config, "num_compute_capabilities"):
        raise UsageError(
            f"{network.backend.title} builds for the GPU that it runs on",
            where=f"--compute-capability {wanted[0]}",
            help="TensorRT-RTX builds for others: --backend tensorrt-rtx; or leave it out",
        )
    names = [_capability(w) for w in wanted]
    members = [network.backend.enum("ComputeCapability", n, "--compute-capability") for n in names]
    config.num_compute_capabilities = len(members)
    for i, member in enumerate(members):
        config.set_compute_capability(member, i)


def _capability(text: str) -> str:
    """8.9, 89 and sm_89 are one."""
    digits = text.lower().removeprefix("sm").removeprefix("_").replace(".", "")
    return f"SM{digits}" if digits.isdigit() else text.upper()


def _load_timing_cache(network: Network, config: Any, path: Path | None) -> None:
    if path is None:
        return
    if network.backend.name == "tensorrt-rtx":
        # Release notes of TensorRT-RTX 1.3, "Limitations".
        raise UsageError(
            "TensorRT-RTX times nothing when it builds: a timing cache has no effect",
            where=f"--timing-cache {path}",
            help="leave it out; kernels are compiled and cached when the engine runs",
        )
    content = path.read_bytes() if path.is_file() else b""
    cache = config.create_timing_cache(content)
    if not config.set_timing_cache(cache, ignore_mismatch=False):
        raise UsageError(
            "the timing cache is of another device or version",
            where=f"--timing-cache {path}",
            help="name another file",
        )


def save_timing_cache(config: Any, path: Path | None) -> bytes | None:
    """What the timing cache holds after the build; None where there is none."""
    return None if path is None else bytes(config.get_timing_cache().serialize())
