"""What is installed, and which parts of convt-onnx work with it."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Iterator
from dataclasses import dataclass

from convt_onnx.errors import MissingPartError, install
from convt_onnx.machine import installed_version

PACKAGES = (
    "onnx onnx-ir numpy ml_dtypes click rich platformdirs jinja2 onnxruntime onnxruntime-gpu "
    "onnxscript torch triton tensorrt tensorrt-rtx-cu13-libs cuda-bindings"
).split()

# Of ONNX Runtime: those that targets run in.
PROVIDERS = ("CPUExecutionProvider", "CUDAExecutionProvider")


@dataclass(frozen=True, slots=True)
class Package:
    """An installed distribution; version None where it is absent."""

    name: str
    version: str | None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the tool, whether it works here, and what to do where it does not.

    `partly`: it works, but for something that the detail names.
    """

    name: str
    works: bool
    detail: str
    partly: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The environment."""

    python: str
    platform: str
    packages: tuple[Package, ...]
    parts: tuple[Part, ...]


def diagnose() -> Diagnosis:
    """Look; import nothing heavy but what runs models."""
    return Diagnosis(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=tuple(Package(name, installed_version(name)) for name in PACKAGES),
        parts=(_rewriting(), _verification(), _model_export(), *_engines(), _run(), _ort_library()),
    )


def _rewriting() -> Part:
    missing = [m for m in ("onnx", "onnx_ir", "numpy", "ml_dtypes") if not _importable(m)]
    if missing:
        return Part("inspect, optimize", False, f"{', '.join(missing)}: reinstall convt-onnx")
    return Part("inspect, optimize", True, f"onnx-ir {installed_version('onnx-ir')}")


def _verification() -> Part:
    name = "verify (also in optimize)"
    if not _importable("onnxruntime"):
        return Part(name, False, install("cpu"))
    import onnxruntime

    found = [p for p in onnxruntime.get_available_providers() if p in PROVIDERS]
    return Part(name, True, f"onnxruntime {onnxruntime.__version__}: {', '.join(found)}")


def _model_export() -> Part:
    missing = [m for m in ("torch", "onnxscript") if not _importable(m)]
    if missing:
        return Part(
            "models export",
            False,
            f"{', '.join(missing)} missing: {install('models')}",
        )
    return Part("models export", True, f"torch {installed_version('torch')}")


def _engines() -> Iterator[Part]:
    from convt_onnx.engine.backend import KNOWN, load_backend

    for name in KNOWN:
        try:
            yield Part(f"build, {name}", True, load_backend(name).title)
        except MissingPartError as error:
            yield Part(f"build, {name}", False, f"{error.what}: {error.help}")


def _run() -> Part:
    from convt_onnx.engine.device import cuda_runtime

    try:
        cuda_runtime()
    except MissingPartError as error:
        return Part("run, verify of engines", False, f"{error.what}: {error.help}")
    return Part("run, verify of engines", True, "a CUDA device; with the builder of the engine")


def _ort_library() -> Part:
    from convt_onnx.plugins.onnxruntime.build import find_compiler

    name = "ort-library, register"
    try:
        compiler = " ".join(find_compiler())
    except MissingPartError as error:
        return Part(name, False, f"{error.what}: {error.help}")
    triton = installed_version("triton") if _importable("triton") else None
    if triton is None:
        detail = f"{compiler} builds the library; its kernels need Triton: {install('gpu')}"
        return Part(name, True, detail, partly=True)
    return Part(name, True, f"{compiler}, Triton {triton}")


def _importable(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
