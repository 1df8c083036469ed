"""The main job: read, run the passes, prove, write."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from convt_onnx import model_io, pipeline
from convt_onnx.decide import Choice
from convt_onnx.decision import Decision
from convt_onnx.dumps import Dumps
from convt_onnx.errors import UsageError
from convt_onnx.graph.counting import op_counts
from convt_onnx.graph.quantised import integer_variants
from convt_onnx.notes import notes_on
from convt_onnx.passes.base import Context, Miss
from convt_onnx.passes.replace_off_device import ReplaceOffDevice
from convt_onnx.passes.restore_plugins import RestorePlugins
from convt_onnx.placement import off_device
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.proof import checked, verified
from convt_onnx.targets import get_target, require_plugin
from convt_onnx.tuning.nodes import NodeTuner
from convt_onnx.tuning.nodes import Progress as TuneProgress
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.tuning.start import given_sets, given_shapes, node_tuner
from convt_onnx.tuning.times import Tuning
from convt_onnx.tuning.whole import Rewrite, Trial, left_as_it_was
from convt_onnx.verify import Source, Verification, VerifyOptions
from convt_onnx.verify.inputs import InputShapes, sizes_text

Progress = Callable[[str], None]

_EXAMPLES = {"tune": "enabled=False", "checks": "seed=0"}


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """Everything that `optimize` takes besides the files.

    Attributes:
        target: Name of a target.
        forms: Form by node path; the path `all` stands for every node where the form applies.
        skip: Node paths to leave exactly as they are.
        verify: Whether to run both models and compare.
        checks: Inputs and tolerances for that.
        force: Whether to replace files that exist.
        dry_run: Decide and verify, write nothing but times into a cache that exists.
        dequantize: Fold quantised weights and biases into float ones; kept quantised by default.
        passes: Names of the passes to run; all by default.
        plugin: Whether nodes of the plugin may be written; the target must be able to load it.
        dump: A folder that gets the model after each pass that changed it.
        tune: How forms are timed against each other.
    """

    target: str = "ort-cpu"
    forms: Mapping[str, str] = field(default_factory=dict)
    skip: frozenset[str] = frozenset()
    verify: bool = True
    checks: VerifyOptions = field(default_factory=VerifyOptions)
    force: bool = False
    dry_run: bool = False
    dequantize: bool = False
    passes: tuple[str, ...] = ()
    dump: Path | None = None
    plugin: bool = False
    tune: TuneOptions = field(default_factory=TuneOptions)

    def __post_init__(self) -> None:
        for name, wanted in (("tune", TuneOptions), ("checks", VerifyOptions)):
            value = getattr(self, name)
            if not isinstance(value, wanted):
                raise UsageError(
                    f"{name} must be of type {wanted.__name__}",
                    where=f"{name} = {value!r}",
                    help=f"pass {name}={wanted.__name__}({_EXAMPLES[name]})",
                )
        if self.dry_run and self.dump is not None:
            raise UsageError(
                "a dry run writes no model, and so no dump of one",
                where=f"--dry-run --dump-dir {self.dump}",
                help="leave one of the two out",
            )


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """What was done.

    Attributes:
        source, output: The files; output is None on a dry run.
        target: Name of the target.
        decisions: One for each ConvTranspose.
        changes: What each pass did, by pass name.
        misses: What a pass saw and refused, with the reason.
        notes: What a reader should know besides.
        modified: False where the output is a copy of the source, byte for byte.
        verification: None where it was not asked for or nothing was modified.
        tuning: What was timed; None where nothing was.
        input_bytes, output_bytes: Model and external data.
        ops_before, ops_after: How many nodes of each operator, in all graphs and functions
            but the bodies of the plugin's nodes.
        seconds: Wall time of the whole run.
    """

    source: Path
    output: Path | None
    target: str
    decisions: tuple[Decision, ...]
    changes: Mapping[str, tuple[str, ...]]
    misses: tuple[Miss, ...]
    notes: tuple[str, ...]
    modified: bool
    verification: Verification | None
    tuning: Tuning | None
    input_bytes: int
    output_bytes: int | None
    ops_before: Mapping[str, int]
    ops_after: Mapping[str, int]
    seconds: float


def default_output(source: Path) -> Path:
    """`<stem>.convt.onnx` beside the input."""
    return source.parent / f"{source.stem}.convt.onnx"


def optimize(
    source: str | Path,
    output: str | Path | None = None,
    options: OptimizeOptions | None = None,
    *,
    progress: Progress = lambda step: None,
    tune_progress: TuneProgress = lambda step, share: None,
) -> OptimizeResult:
    """Rewrite the ConvTranspose nodes of a model for a target, verify, and write the result.

    Args:
        source: An ONNX file.
        output: Where to write; `<stem>.convt.onnx` beside the source by default.
        options: See OptimizeOptions.
        progress: Called with the name of each step.
        tune_progress: Called with what is timed, and the share of the timing that is done.

    Raises:
        ModelError, GeometryError, UsageError: The model, a node or an option is wrong.
        VerificationError: The results differ; nothing is written.
        MissingPartError: Verification needs onnxruntime, and timing the target's runtime.
    """
    start = time.perf_counter()
    options = options or OptimizeOptions()
    source = Path(source)
    out = default_output(source) if output is None else Path(output)
    progress("reading")
    loaded = _loaded(source, out, options)
    given = given_shapes(loaded.model.graph, options.checks, options.tune)
    ops_before = op_counts(loaded.model)
    tuner = _tuner(source.parent, options, tune_progress)
    call = _Call(options, progress, tuner, given, Dumps(options.dump))
    rewrite = _rewritten(loaded, call)
    verification = _proven(rewrite, options, progress)
    saved = None if options.dry_run else _written(rewrite, out, options, progress)
    return _result(rewrite, verification, saved, ops_before, start)


def _loaded(source: Path, out: Path, options: OptimizeOptions) -> model_io.LoadedModel:
    """The model, for a target that takes what is asked for and an output that may be written."""
    target = get_target(options.target)
    if options.plugin:
        require_plugin(target)
    loaded = model_io.load(source)
    if not options.dry_run:
        model_io.check_destination(loaded, out, force=options.force)
    return loaded


def _tuner(folder: Path, options: OptimizeOptions, progress: TuneProgress) -> NodeTuner | None:
    target, make_cache = get_target(options.target), not options.dry_run
    return node_tuner(target, options.tune, options.checks, folder, progress, make_cache=make_cache)


def _result(
    rewrite: Rewrite,
    verification: Verification | None,
    saved: model_io.SavedModel | None,
    ops_before: Mapping[str, int],
    start: float,
) -> OptimizeResult:
    loaded, context = rewrite.loaded, rewrite.context
    return OptimizeResult(
        source=loaded.path,
        output=None if saved is None else saved.path,
        target=context.target.name,
        decisions=tuple(context.decisions),
        changes={name: tuple(lines) for name, lines in context.changes.items()},
        misses=tuple(context.misses),
        notes=notes_on(loaded, context, verification),
        modified=rewrite.modified,
        verification=verification,
        tuning=None if context.tuner is None else context.tuner.tuning(),
        input_bytes=loaded.proto_bytes + loaded.external_bytes,
        output_bytes=None if saved is None else saved.bytes + saved.external_bytes,
        ops_before=ops_before,
        ops_after=op_counts(loaded.model),
        seconds=time.perf_counter() - start,
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """What every rewrite of one model is made with."""

    options: OptimizeOptions
    progress: Progress
    tuner: NodeTuner | None
    given: InputShapes
    dumps: Dumps


def _rewritten(loaded: model_io.LoadedModel, call: _Call) -> Rewrite:
    """After all passes; where forms are timed, only what makes the whole model faster."""
    rewrite = _run_passes(loaded, call)
    if call.tuner is None or not rewrite.modified:
        return rewrite
    return _settled(rewrite, call, call.tuner)


def _run_passes(loaded: model_io.LoadedModel, call: _Call) -> Rewrite:
    options, given = call.options, call.given
    target = get_target(options.target)
    choice = Choice(options.forms, options.skip)
    passes = pipeline.select(options.passes)
    dequantize = options.dequantize or target.float_weights
    context = Context(
        target,
        {},
        choice,
        dequantize=dequantize,
        tuner=call.tuner,
        predictor=Predictor(target, options.tune.threads),
        plugin=options.plugin,
        given=given,
        given_name=sizes_text(given) if len(given_sets(options.checks, options.tune)) > 1 else "",
    )
    context.misses += [Miss(name, "read", why) for name, why in integer_variants(loaded.model)]
    context.off_device = off_device(loaded.model, target)
    if not loaded.has_conv_transpose:
        choice.check(set())
        passes = tuple(cls for cls in passes if cls is ReplaceOffDevice)
        if not context.off_device:
            return Rewrite(loaded, context, False)
    modified = pipeline.run(passes, loaded, context, call.progress, call.dumps)
    return Rewrite(loaded, context, modified)


def _settled(first: Rewrite, call: _Call, tuner: NodeTuner) -> Rewrite:
    """What is faster than the original: the rewrite, one of fewer nodes, or neither."""

    def again() -> Rewrite:
        call.dumps.discard()
        return _run_passes(model_io.load(path), call)

    options = call.options
    path = first.loaded.path
    asked_for = bool(options.forms or options.passes or options.dequantize or options.plugin)
    asked_for = asked_for or bool(first.context.changes.get(RestorePlugins.name))
    folds = frozenset() if options.passes else frozenset(cls.name for cls in pipeline.FOLDS)
    trial = Trial(tuner, Source(first.loaded.proto, path.parent), asked_for, folds)
    settled = trial.settle(first, again)
    if settled is not None:
        return settled
    call.dumps.discard()
    return Rewrite(model_io.load(path), left_as_it_was(first.context), False)


def _proven(rewrite: Rewrite, options: OptimizeOptions, progress: Progress) -> Verification | None:
    if not rewrite.modified:
        return None
    progress("checking")
    proto = checked(rewrite.loaded)
    if not options.verify:
        return None
    progress("verifying")
    sets = given_sets(options.checks, options.tune)
    return verified(rewrite.loaded, proto, options.checks, rewrite.context.nodes, sets)


def _written(
    rewrite: Rewrite, out: Path, options: OptimizeOptions, progress: Progress
) -> model_io.SavedModel:
    """The rewritten model, or a copy of the source byte for byte."""
    progress("writing")
    loaded = rewrite.loaded
    if rewrite.modified:
        return model_io.save(loaded, loaded.model, out, force=options.force)
    return model_io.copy_unchanged(loaded, out, force=options.force)
