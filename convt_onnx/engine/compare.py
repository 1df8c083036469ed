"""An engine on its device against the model in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from convt_onnx import model_io
from convt_onnx.engine.run import Arrays, LoadedEngine
from convt_onnx.verify import Source, Verification, VerifyOptions
from convt_onnx.verify.compare import HALF, Comparison, compare
from convt_onnx.verify.twin import float32_twin, other_floats
from convt_onnx.verify.verification import quantises, run_on_some, tolerance_for


def verify_engine(model: Path, engine: Path, options: VerifyOptions) -> Verification:
    """Run both on the same inputs and compare every output.

    Args:
        model: The ONNX file that the engine is to equal.
        engine: The engine.
        options: Inputs, sizes, seed and tolerances.

    Raises:
        MissingPartError: A library or a device is missing; `where` says which.
        UsageError: The engine is none, of another version, or does not take the sizes.
        RunError: The model does not run in ONNX Runtime.
    """
    loaded = LoadedEngine(engine)
    file = model_io.load(model)
    quantised, narrow = quantises(file.proto), other_floats(file.proto)
    source = Source(file.proto, file.path.parent, as_written=quantised)
    if narrow:
        source = float32_twin(source)
    inputs, wanted = run_on_some(source, options)
    got = loaded.run(inputs.arrays)
    tolerance = tolerance_for(options, quantised, narrow=narrow)
    outputs = _compared(got, wanted, [compare(n, got.get(n), wanted[n], tolerance) for n in wanted])
    return Verification(
        ok=all(c.ok for c in outputs),
        outputs=outputs,
        nodes=(),
        arithmetic=loaded.backend.title,
        input_shapes=(inputs.shapes,),
        assumed_sizes=inputs.assumed,
        input_origin=inputs.origin,
        seed=options.seed,
        tolerance=tolerance,
        first_difference=next((c.name for c in outputs if not c.ok), None),
        notes=("TensorRT multiplies float32 in TF32 where it is not told otherwise",),
    )


def _compared(got: Arrays, wanted: Arrays, outputs: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """And what the engine has besides."""
    more = (compare(n, got[n], None, HALF) for n in got if n not in wanted)
    return (*outputs, *more)
