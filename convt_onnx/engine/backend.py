"""The Python module of TensorRT or TensorRT-RTX, and what it can do.

Both offer one API in a module of their own. What differs between versions is asked of the module,
never read off its version number, but for capabilities that no attribute tells.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from convt_onnx.errors import MissingPartError, UsageError, install
from convt_onnx.suggest import did_you_mean

# Name: title, modules in order of preference, oldest version, what to install.
KNOWN: dict[str, tuple[str, tuple[str, ...], tuple[int, int], str]] = {
    "tensorrt": (
        "TensorRT",
        ("tensorrt", "tensorrt_bindings"),
        (10, 0),
        install("tensorrt"),
    ),
    "tensorrt-rtx": (
        "TensorRT-RTX",
        ("tensorrt_rtx", "tensorrt_rtx_bindings"),
        (1, 0),
        install("tensorrt-rtx"),
    ),
}
BACKENDS = ("auto", *KNOWN)
# https://github.com/pytorch/TensorRT/pull/4306: what 1.5 runs and earlier ones do not.
RTX_GROUPED_3D = (1, 5)


@dataclass(frozen=True, slots=True)
class Backend:
    """One of the two builders.

    Attributes:
        name: "tensorrt" or "tensorrt-rtx".
        module: Its Python module.
    """

    name: str
    module: Any = field(repr=False)

    @property
    def title(self) -> str:
        """Name and version, for people."""
        return f"{KNOWN[self.name][0]} {self.module.__version__}"

    @property
    def version(self) -> tuple[int, ...]:
        """(10, 13, 2) and the like."""
        return _numbers(self.module.__version__)

    @property
    def target(self) -> str:
        """The target whose capabilities this version has."""
        old = self.name == "tensorrt-rtx" and self.version < RTX_GROUPED_3D
        return "tensorrt-rtx-1.4" if old else self.name

    def network_flags(self, *, aot: bool = False) -> int:
        """Strongly typed, where that is still a choice; the flags' numbers differ by version.

        Args:
            aot: Prefer plugins that the engine holds.
        """
        flags = self.module.NetworkDefinitionCreationFlag
        value = 0
        preferred = ("PREFER_AOT_PYTHON_PLUGINS",) if aot else ()
        for name in ("EXPLICIT_BATCH", "STRONGLY_TYPED", *preferred):
            flag = getattr(flags, name, None)
            value |= 0 if flag is None else 1 << int(flag)
        return value

    def enum(self, kind: str, name: str, option: str) -> Any:
        """A member of one of the module's enumerations.

        Raises:
            UsageError: This version does not have it.
        """
        members = getattr(getattr(self.module, kind, None), "__members__", {})
        if name.upper() not in members:
            raise UsageError(
                f"{self.title} has no {kind} {name}",
                where=f"{option} {name}",
                help=f"it has {', '.join(members)}" if members else f"leave {option} out",
            )
        return members[name.upper()]


def load_backend(name: str) -> Backend:
    """Import a backend; `auto` takes the first that is installed.

    Raises:
        UsageError: There is no such backend.
        MissingPartError: It is not installed, not complete, or too old.
    """
    if name not in BACKENDS:
        raise UsageError(f"no backend {name!r}", help=did_you_mean(name, BACKENDS))
    if name != "auto":
        return _load(name)
    for candidate in KNOWN:
        if _installed(candidate):
            return _load(candidate)
    raise MissingPartError(
        "neither TensorRT nor TensorRT-RTX is installed, so no engine can be built",
        help=f"{KNOWN['tensorrt-rtx'][3]} (builds on a CPU too), or {KNOWN['tensorrt'][3]}",
    )


def _installed(name: str) -> str | None:
    for module in KNOWN[name][1]:
        if importlib.util.find_spec(module) is not None:
            return module
    return None


def _load(name: str) -> Backend:
    title, _, oldest, install = KNOWN[name]
    module = _installed(name)
    if module is None:
        raise MissingPartError(f"{title} is not installed", help=install)
    try:
        loaded = importlib.import_module(module)
    except (ImportError, OSError) as error:
        raise MissingPartError(
            f"{title}'s Python module does not load", where=str(error), help=install
        ) from error
    version = getattr(loaded, "__version__", "0")
    if _numbers(version) < oldest:
        raise MissingPartError(
            f"{title} {version} is too old",
            where=f"module {module}",
            help=f"at least {oldest[0]}.{oldest[1]}: {install}",
        )
    return Backend(name, loaded)


def _numbers(version: str) -> tuple[int, ...]:
    parts: Sequence[str] = version.split(".")
    return tuple(int(p) for p in parts if p.isdigit())
