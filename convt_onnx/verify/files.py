"""Two files against each other."""

from __future__ import annotations

from pathlib import Path

from convt_onnx import model_io
from convt_onnx.engine.header import is_engine
from convt_onnx.errors import UsageError
from convt_onnx.verify.session import Source
from convt_onnx.verify.verification import (
    Verification,
    VerifyOptions,
    input_names,
    verify,
)


def verify_files(
    original: str | Path, other: str | Path, options: VerifyOptions | None = None
) -> Verification:
    """Run both models on the same inputs and compare every output.

    Args:
        original: The reference, which runs in ONNX Runtime.
        other: What must compute the same; its inputs and outputs must have the same names. An
            engine runs on the device that it was built for.
        options: Inputs, sizes, seed and tolerances.

    Raises:
        ModelError: A file cannot be read.
        UsageError: The models take different inputs, or those given do not fit.
        VerificationError: `other` does not run, or has other outputs.
        MissingPartError: onnxruntime is not installed.
    """
    if is_engine(Path(other)):
        from convt_onnx.engine.compare import verify_engine

        return verify_engine(Path(original), Path(other), options or VerifyOptions())
    sources = []
    for path in (Path(original), Path(other)):
        loaded = model_io.load(path)
        sources.append(Source(loaded.proto, loaded.path.parent))
    names = [input_names(s.proto.graph) for s in sources]
    if names[0] != names[1]:
        raise UsageError(
            "the models take different inputs, so they cannot be compared",
            where=" against ".join(", ".join(sorted(n)) for n in names),
            help="only models with the same input names can be compared",
        )
    return verify(sources[0], sources[1], options or VerifyOptions())
