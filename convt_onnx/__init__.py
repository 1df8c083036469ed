"""Transposed convolution in deployed ONNX models: found, rewritten, verified, explained.

    from convt_onnx import optimize, OptimizeOptions
    result = optimize("model.onnx", options=OptimizeOptions(target="portable"))

Everything is imported on first use, so that `import convt_onnx` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convt_onnx._version import __version__

if TYPE_CHECKING:
    from convt_onnx.benching import BenchOptions, BenchResult, bench
    from convt_onnx.comparison import ModelComparison, compare_files
    from convt_onnx.dilated import DilatedConvolution, as_dilated_convolution
    from convt_onnx.doctor import Diagnosis, diagnose
    from convt_onnx.engine import BuildOptions, BuildResult, build_engine
    from convt_onnx.errors import ConvtError
    from convt_onnx.inspection import Inspection, inspect
    from convt_onnx.optimization import OptimizeOptions, OptimizeResult, optimize
    from convt_onnx.ort.registration import Registration, register
    from convt_onnx.ort.session import Session
    from convt_onnx.plugins.torch_op import (
        conv_transpose1d as conv_transpose1d,
    )
    from convt_onnx.plugins.torch_op import (
        conv_transpose2d as conv_transpose2d,
    )
    from convt_onnx.plugins.torch_op import (
        conv_transpose3d as conv_transpose3d,
    )
    from convt_onnx.reasons import Reason, get_reason
    from convt_onnx.reference import conv_transpose, conv_transpose_gradients
    from convt_onnx.report.writing import write_report
    from convt_onnx.spec import ConvTransposeSpec
    from convt_onnx.tuning.options import SizeSet, TuneOptions
    from convt_onnx.verify import Verification, VerifyOptions
    from convt_onnx.verify.files import verify_files

# A checkout that is not installed keeps passes/, plugins/ and models/ beside this package.
if not (Path(__file__).parent / "passes").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

_HOMES = {
    "BuildOptions": "engine",
    "BuildResult": "engine",
    "BenchOptions": "benching",
    "BenchResult": "benching",
    "ConvTransposeSpec": "spec",
    "ConvtError": "errors",
    "Diagnosis": "doctor",
    "DilatedConvolution": "dilated",
    "Inspection": "inspection",
    "ModelComparison": "comparison",
    "OptimizeOptions": "optimization",
    "OptimizeResult": "optimization",
    "Reason": "reasons",
    "Registration": "ort.registration",
    "Session": "ort.session",
    "SizeSet": "tuning.options",
    "TuneOptions": "tuning.options",
    "Verification": "verify",
    "VerifyOptions": "verify",
    "as_dilated_convolution": "dilated",
    "bench": "benching",
    "compare_files": "comparison",
    "build_engine": "engine",
    "conv_transpose": "reference",
    "conv_transpose1d": "plugins.torch_op",
    "conv_transpose2d": "plugins.torch_op",
    "conv_transpose3d": "plugins.torch_op",
    "conv_transpose_gradients": "reference",
    "diagnose": "doctor",
    "get_reason": "reasons",
    "inspect": "inspection",
    "optimize": "optimization",
    "register": "ort.registration",
    "verify_files": "verify.files",
    "write_report": "report.writing",
}

# Without the names that need torch: `import *` and `help` would fail where it is not installed.
__all__ = [
    "BenchOptions",
    "BenchResult",
    "BuildOptions",
    "BuildResult",
    "ConvTransposeSpec",
    "ConvtError",
    "Diagnosis",
    "DilatedConvolution",
    "Inspection",
    "ModelComparison",
    "OptimizeOptions",
    "OptimizeResult",
    "Reason",
    "Registration",
    "Session",
    "SizeSet",
    "TuneOptions",
    "Verification",
    "VerifyOptions",
    "__version__",
    "as_dilated_convolution",
    "bench",
    "build_engine",
    "compare_files",
    "conv_transpose",
    "conv_transpose_gradients",
    "diagnose",
    "get_reason",
    "inspect",
    "optimize",
    "register",
    "verify_files",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from convt_onnx.errors import MissingPartError, install

        raise MissingPartError(
            "torch is not installed", where=f"{__name__}.{name}", help=install("gpu")
        ) from error


def __dir__() -> list[str]:
    return __all__
