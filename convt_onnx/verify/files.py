"""Two files against each other."""

from __future__ import annotations

from pathlib import Path

import onnx

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
    _require_same_inputs(*(s.proto.graph for s in sources))
    return verify(sources[0], sources[1], options or VerifyOptions())


def _require_same_inputs(original: onnx.GraphProto, other: onnx.GraphProto) -> None:
    names = [sorted(input_names(g)) for g in (original, other)]
    ranks = [
        {i.name: len(i.type.tensor_type.shape.dim) for i in g.input if _has_shape(i)}
        for g in (original, other)
    ]
    differing = sorted(n for n, rank in ranks[0].items() if ranks[1].get(n, rank) != rank)
    where = ""
    if names[0] != names[1]:
        where = " against ".join(map(", ".join, names))
    elif differing:
        name = differing[0]
        where = f"{name} has {ranks[0][name]} axes against {ranks[1][name]}"
    if where:
        raise UsageError(
            "the models take different inputs, so they cannot be compared",
            where=where,
            help="only models with inputs of the same names and axes can be compared",
        )


def _has_shape(value: onnx.ValueInfoProto) -> bool:
    """Whether it declares how many axes it has."""
    return bool(value.type.tensor_type.HasField("shape"))
