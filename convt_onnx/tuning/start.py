"""Whether a target can be timed here, and everything that it takes."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from convt_onnx.errors import MissingPartError
from convt_onnx.model_io.targets import check_folder
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.targets import Target
from convt_onnx.tuning.cache import TimingCache, default_folder
from convt_onnx.tuning.nodes import NodeTuner, Progress
from convt_onnx.tuning.options import SizeSet, TuneOptions
from convt_onnx.tuning.ort import ort_runtime
from convt_onnx.tuning.runtime import Runtime
from convt_onnx.tuning.sizes import ModelInputs
from convt_onnx.verify import VerifyOptions
from convt_onnx.verify.inputs import InputShapes, check_shapes, file_shapes


def runtime_for(target: Target, threads: int) -> Runtime | None:
    """Where models for a target can be timed on this machine, None where nowhere."""
    return ort_runtime(target.provider, threads) if target.provider else None


def given_shapes(graph: ir.Graph, checks: VerifyOptions, options: TuneOptions) -> InputShapes:
    """Sizes of a model's inputs that its nodes are costed for; none where the user gave none.

    They are those of the arrays, else those of most weight, else the first.

    Raises:
        UsageError: The arrays cannot be read, or any of the sizes do not fit.
    """
    sets = _size_sets(checks, options)
    for shapes in (checks.input_shapes, *(s.shapes for s in sets)):
        check_shapes(graph, shapes)
    if checks.inputs is not None:
        return file_shapes(checks.inputs, graph)
    return max(sets, key=lambda s: s.weight or 0).shapes


def _size_sets(checks: VerifyOptions, options: TuneOptions) -> tuple[SizeSet, ...]:
    """The sets to time, or the sizes to verify with where there are none."""
    return options.sizes or (SizeSet(checks.input_shapes),)


def given_sets(checks: VerifyOptions, options: TuneOptions) -> list[InputShapes]:
    """Every set of sizes that the user gave, each once; one without any where there are none."""
    given = [checks.input_shapes]
    # Arrays go before any sizes.
    if checks.inputs is None:
        given += [s.shapes for s in options.sizes]
    sets = [s for i, s in enumerate(given) if s and s not in given[:i]]
    return sets or [{}]


def node_tuner(
    target: Target,
    options: TuneOptions,
    checks: VerifyOptions,
    folder: Path,
    progress: Progress,
    *,
    make_cache: bool = True,
) -> NodeTuner | None:
    """What times the nodes of one model, None where the cost model is to decide.

    Args:
        target: Where the model is to run.
        options: What the user says about timing.
        checks: Their inputs are run with, unless the options have sizes of their own.
        folder: Of the model's external data.
        progress: Called with what is timed, and the share of the time that has gone.
        make_cache: Whether the folder for times may be made; one that exists is used anyway.

    Raises:
        UsageError: The folder that the one for times is to be in does not exist.
        MissingPartError: Timing is asked for, and the target's runtime is not here.
    """
    runtime = _runtime_wanted(target, options)
    if runtime is None:
        return None
    inputs = ModelInputs(checks.inputs, _size_sets(checks, options), checks.seed)
    if options.cache is not None:
        check_folder(options.cache)
    cache = TimingCache(options.cache or default_folder(), create=make_cache)
    predictor = Predictor(target, options.threads)
    return NodeTuner(runtime, target, options, inputs, folder, cache, predictor, progress)


def _runtime_wanted(target: Target, options: TuneOptions) -> Runtime | None:
    """The target's runtime where forms are to be timed in it."""
    if options.enabled is False:
        return None
    runtime = runtime_for(target, options.threads)
    if runtime is None and options.enabled:
        raise MissingPartError(
            f"nothing can be timed for target {target.name!r} on this machine",
            where=f"it needs ONNX Runtime with {target.provider}" if target.provider else "",
            help="--no-tune decides by expected cost",
        )
    return runtime
