"""Several models, or one model for several targets, timed against each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from convt_onnx import model_io
from convt_onnx.errors import MissingPartError, UsageError, install
from convt_onnx.graph.counting import op_counts
from convt_onnx.optimization import OptimizeOptions, OptimizeResult, optimize
from convt_onnx.tuning.choosing import measured
from convt_onnx.tuning.options import SizeSet, TuneOptions
from convt_onnx.tuning.ort import ort_runtime
from convt_onnx.tuning.race import Limits, Race
from convt_onnx.tuning.runtime import Runtime
from convt_onnx.tuning.sizes import ModelInputs
from convt_onnx.tuning.times import Timing, speed
from convt_onnx.verify import Source, VerifyOptions
from convt_onnx.verify.compare import compare
from convt_onnx.verify.inputs import Inputs
from convt_onnx.verify.session import Arrays, RunError, Runner
from convt_onnx.verify.twin import other_floats
from convt_onnx.verify.verification import input_names, quantises, tolerance_for

PROVIDER = "CPUExecutionProvider"

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Everything that `bench` takes besides the files.

    Attributes:
        targets: What each model is rewritten for besides being timed as it is.
        seconds: For each set of input sizes.
        checks: Inputs and tolerances; also for the rewritten models.
        tune: How forms are timed where models are rewritten; its sizes and threads are used
            throughout.
    """

    targets: tuple[str, ...] = ()
    seconds: float = 20.0
    checks: VerifyOptions = field(default_factory=VerifyOptions)
    tune: TuneOptions = field(default_factory=TuneOptions)

    def __post_init__(self) -> None:
        if not 0 < self.seconds < inf:
            raise UsageError(
                "the time for a bench must be a positive number of seconds",
                where=f"--seconds {self.seconds}",
                help="--seconds 20",
            )


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One entry on one set of input sizes.

    Attributes:
        inputs: Shapes, in words.
        time: None where it does not run.
        speedup: The first entry's median time over its own.
        why: Why it does not run.
    """

    inputs: str
    time: Timing | None
    speedup: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class BenchEntry:
    """One model that was timed.

    Attributes:
        label: What tells it from the others.
        path: The file it comes from.
        target: What it was rewritten for; None where it was timed as it is.
        bytes: Model and external data.
        ops: Nodes by operator.
        rewriting: What `optimize` returned, where the model was rewritten.
        runs: One for each set of input sizes.
    """

    label: str
    path: Path
    target: str | None
    bytes: int
    ops: Mapping[str, int]
    rewriting: OptimizeResult | None = None
    runs: tuple[BenchRun, ...] = ()


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Times of several models; `seconds` is the wall time of everything."""

    runtime: str
    device: str
    threads: int
    seconds: float
    entries: tuple[BenchEntry, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contestant:
    """An entry, and the model to run."""

    entry: BenchEntry
    source: Source


def bench(
    models: str | Path | Sequence[str | Path],
    options: BenchOptions | None = None,
    *,
    progress: Progress = lambda text, share: None,
) -> BenchResult:
    """Time models in ONNX Runtime's CPU provider, run by run in turns.

    Args:
        models: One ONNX file, or several that take the same inputs; the first is what
            the others are held to.
        options: See BenchOptions.
        progress: Called with the current step, and the share of the work that is done.

    Raises:
        ModelError, UsageError: A file or an option is wrong, or inputs do not fit.
        VerificationError: What a model is rewritten to computes something else.
        RunError: The first model does not run.
        MissingPartError: onnxruntime is not installed.
    """
    start = time.perf_counter()
    options = options or BenchOptions()
    if not models:
        raise UsageError("no model to time", help="convt-onnx bench MODEL…")
    runtime = _runtime(options.tune.threads)
    paths = [Path(m) for m in ([models] if isinstance(models, str | Path) else models)]
    with TemporaryDirectory(prefix="convt-onnx-") as folder:
        contestants = list(_contestants(paths, options, Path(folder), progress))
        entries, notes = _timed(contestants, runtime, options, progress)
    return BenchResult(
        runtime=runtime.name,
        device=runtime.device,
        threads=runtime.threads,
        seconds=time.perf_counter() - start,
        entries=entries,
        notes=notes,
    )


def _runtime(threads: int) -> Runtime:
    runtime = ort_runtime(PROVIDER, threads)
    if runtime is None:
        raise MissingPartError(
            "onnxruntime is not installed, so nothing can be timed",
            help=install("cpu"),
        )
    return runtime


def _contestants(
    paths: Sequence[Path], options: BenchOptions, folder: Path, progress: Progress
) -> Iterator[Contestant]:
    steps = 1 + len(options.targets)
    for i, (path, label) in enumerate(zip(paths, _labels(paths), strict=True)):
        progress(f"reading {path.name}", i / len(paths))
        yield _contestant(path, BenchEntry(label, path, None, 0, {}))
        for j, target in enumerate(options.targets):
            share = (i + (j + 1) / steps) / len(paths)
            progress(f"optimising {path.name} for {target}", share)
            out = folder / f"{i}-{j}.onnx"
            wanted = OptimizeOptions(target=target, checks=options.checks, tune=options.tune)
            result = optimize(path, out, wanted, tune_progress=progress)
            made = replace(result, output=None)
            yield _contestant(out, BenchEntry(f"{label} · {target}", path, target, 0, {}, made))


def _labels(paths: Sequence[Path]) -> list[str]:
    """Names where they tell the files apart, else paths; numbered where a file is there twice."""
    names = [p.name for p in set(paths)]
    labels = [p.name if names.count(p.name) == 1 else str(p) for p in paths]
    return [
        f"{label} ({labels[:i].count(label) + 1})" if labels.count(label) > 1 else label
        for i, label in enumerate(labels)
    ]


def _contestant(path: Path, entry: BenchEntry) -> Contestant:
    loaded = model_io.load(path)
    size = loaded.proto_bytes + loaded.external_bytes
    entry = replace(entry, bytes=size, ops=op_counts(loaded.model))
    return Contestant(entry, Source(loaded.proto, path.parent))


def _timed(
    contestants: Sequence[Contestant],
    runtime: Runtime,
    options: BenchOptions,
    progress: Progress,
) -> tuple[tuple[BenchEntry, ...], tuple[str, ...]]:
    checks = options.checks
    sets = options.tune.sizes or (SizeSet(checks.input_shapes),)
    first = Runner(contestants[0].source)
    _require_same_inputs(contestants, first)
    runs: list[dict[str, BenchRun]] = []
    notes: dict[str, None] = {}
    for i, (inputs, outputs) in enumerate(ModelInputs(checks.inputs, sets, checks.seed).run(first)):
        text = inputs.words
        progress(f"timing {len(contestants)} models on {text}", i / len(sets))
        notes |= dict.fromkeys(_differences(contestants, inputs.arrays, outputs, checks))
        runs.append(_raced(contestants, runtime, inputs, options.seconds))
    entries = tuple(
        replace(c.entry, runs=tuple(r[c.entry.label] for r in runs)) for c in contestants
    )
    return entries, tuple(notes)


def _raced(
    contestants: Sequence[Contestant], runtime: Runtime, inputs: Inputs, seconds: float
) -> dict[str, BenchRun]:
    loaders = {c.entry.label: partial(runtime.load, c.source, inputs.arrays) for c in contestants}
    race = Race(loaders, Limits(seconds), to_the_end=True, fresh=True)
    race.run()
    found = measured(race)
    first = found[race.first].time
    return {
        label: BenchRun(inputs.words, m.time, _speed(first, m.time), m.why)
        for label, m in found.items()
    }


def _speed(first: Timing | None, own: Timing | None) -> float | None:
    return None if first is None or own is None else speed(first, own)


def _require_same_inputs(contestants: Sequence[Contestant], first: Runner) -> None:
    wanted = {name for name, _, _ in first.inputs}
    for c in contestants[1:]:
        found = input_names(c.source.proto.graph)
        if found != wanted:
            raise UsageError(
                "the models take different inputs, so they cannot be timed on the same",
                where=f"{contestants[0].entry.label}: {', '.join(sorted(wanted))}; "
                f"{c.entry.label}: {', '.join(sorted(found))}",
                help="time them one by one",
            )


def _differences(
    contestants: Sequence[Contestant], feeds: Arrays, wanted: Arrays, checks: VerifyOptions
) -> Iterator[str]:
    """What a reader should know before comparing times: models that compute something else."""
    first = contestants[0].source.proto
    # As they are, in their own types.
    tolerance = tolerance_for(checks, quantises(first), narrow=other_floats(first))
    for c in contestants[1:]:
        try:
            got = Runner(c.source).run(feeds)
        except RunError as error:
            yield f"{c.entry.label} does not run: {error.where}"
            continue
        for name in wanted:
            result = compare(name, got.get(name), wanted[name], tolerance)
            if not result.ok:
                what = result.note or f"differs by {result.max_abs:.3g}"
                yield f"{c.entry.label} computes something else: output {name!r} {what}"
                break
