"""Time original models against optimised ones, ours and others', all in turn.

    python benchmarks/corpus.py models ../shared/corpus --minutes 25 --json corpus.json

For each model and thread count: `optimize` tunes it as a user would, onnxslim, onnxsim and ONNX
Runtime's own offline optimiser process it as they come, and then sessions of each run in turn on
the same inputs, in a new order every round in which nobody follows itself, and new sessions for
every round as far as the time allows: where a session's memory lies makes small models some percent
faster or slower for its whole life. Ratios are medians over rounds of original / variant: above 1
is faster. Where the bounds (99 %) of our ratio leave open whether it is below `--least`, more
rounds of the two are run and counted. Where the time gets short, models get less of it each, and
the last line says how many got none.

ConvTranspose has two shares: of the kernel time in ONNX Runtime's profile, which is 100 % for a
model of one node, and of the time of a run, which also has the call of the session, most of it for
a small model, and is what somebody waits for. The second one is what goes away when the results of
ConvTranspose are given instead of computed (corpus_share.py): 1 - the median over rounds of the
model without / with it, the two in turn as above.

Where tuning keeps the original, the optimised file is a copy of it, and its ratio shows how far
equal things are apart in this benchmark. The exit code is 1 where a model that was rewritten is
slower than `--least` times the original.
"""

from __future__ import annotations

import json
import logging
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import onnx
import onnxruntime as ort
import peers
from corpus_lines import ORIGINAL, OTHERS, OURS, Line, slower, statistics_of, text, totals
from corpus_share import run_share
from corpus_table import inputs_beside
from environment import environment

from convt_onnx import OptimizeOptions, OptimizeResult, VerifyOptions, optimize
from convt_onnx.errors import ConvtError
from convt_onnx.tuning.options import SizeSet, TuneOptions
from convt_onnx.tuning.ort import OrtRuntime, ort_runtime
from convt_onnx.tuning.race import Limits, Loader, Race
from convt_onnx.tuning.sizes import ModelInputs
from convt_onnx.tuning.statistics import paired_ratio
from convt_onnx.verify.session import Arrays, Runner, Source

MIN_ROUNDS, MAX_ROUNDS = 9, 41
# Of the profile, behind a first one that it leaves out.
PROFILED_RUNS = 7
# The share of a run may take one part in so many of the time of the runs.
SHARE_COSTS = 5
# So many models could be tuned for all the time that they are given, or so many times their share.
TUNINGS = 20
# A model of this size counts twice where the time is shared out.
WEIGHT_BYTES = 2 << 20
# How many times as long as the first rounds the further ones may take.
LONGER = 3


def source_of(path: Path) -> Source:
    """A file without its external data."""
    return Source(onnx.load(path, load_external_data=False), path.parent)


def feeds_of(path: Path) -> Arrays:
    """Arrays that the original runs on, as `optimize` picks them."""
    runner = Runner(source_of(path))
    inputs = ModelInputs(inputs_beside(path), (SizeSet({}),), 0)
    return next(inputs.run(runner))[0].arrays


def kernel_times(
    path: Path, feeds: Arrays, threads: int, folder: Path
) -> Iterator[list[tuple[str, float]]]:
    """Operators and microseconds in ONNX Runtime's profile, of each of PROFILED_RUNS runs."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    for _ in range(1 + PROFILED_RUNS):
        session.run(None, dict(feeds))
    events = json.loads(Path(session.end_profiling()).read_text())
    kernels = [e for e in events if e["name"].endswith("_kernel_time")]
    for run in sorted((e for e in events if e["name"] == "model_run"), key=lambda e: e["ts"])[1:]:
        end = run["ts"] + run["dur"]
        yield [
            (e["args"].get("op_name", ""), e["dur"]) for e in kernels if run["ts"] <= e["ts"] <= end
        ]


def kernel_share(path: Path, feeds: Arrays, threads: int, folder: Path) -> float:
    """Of ConvTranspose in the kernel time of ONNX Runtime's profile, median over runs."""
    shares = []
    for times in kernel_times(path, feeds, threads, folder):
        total = sum(t for _, t in times)
        mine = sum(t for name, t in times if "ConvTranspose" in name)
        shares.append(mine / total if total else 0.0)
    return statistics.median(shares)


def variants(path: Path, ours: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Files by name; an optimiser that does not process the model is left out."""
    yield ORIGINAL, path
    yield OURS, ours
    for name in OTHERS:
        if not peers.available(name):
            continue
        try:
            yield name, peers.apply(name, path, folder / f"{name}.onnx")
        except peers.PeerError:
            continue


@dataclass(frozen=True, slots=True)
class Effort:
    """How much time one line may take."""

    tune_seconds: float
    run_seconds: float
    cache: Path
    least: float


def in_turn(loaders: Mapping[str, Loader], seconds: float) -> dict[str, list[float]]:
    """Seconds of a run by name, round by round; nobody leaves early, but what does not run."""
    race = Race(loaders, Limits(seconds, MAX_ROUNDS, MIN_ROUNDS), to_the_end=True, fresh=True)
    race.run()
    return {name: samples for name, samples in race.samples.items() if name not in race.dropped}


def go_on(samples: dict[str, list[float]], loaders: Mapping[str, Loader], effort: Effort) -> None:
    """More rounds of the original and ours alone, where it is open whether ours is too slow."""
    ratio = paired_ratio(samples[ORIGINAL], samples[OURS])
    if ratio.low < effort.least < ratio.high:
        more = in_turn({n: loaders[n] for n in (ORIGINAL, OURS)}, LONGER * effort.run_seconds)
        # The original's further rounds have none of the others' beside them: pairs are cut there.
        for name in (ORIGINAL, OURS):
            samples[name] += more[name]


def line(path: Path, name: str, threads: int, effort: Effort) -> Line:
    """Everything about one model with one number of threads."""
    empty = Line(name, threads, "")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tune = TuneOptions(True, effort.tune_seconds, threads, effort.cache)
        options = OptimizeOptions(
            tune=tune, force=True, checks=VerifyOptions(inputs=inputs_beside(path))
        )
        try:
            result = optimize(path, folder / "ours.onnx", options)
            if not result.decisions:
                return replace(empty, outcome="no ConvTranspose")
            feeds = feeds_of(path)
        except ConvtError as error:
            return replace(empty, outcome=f"{type(error).__name__}: {error.what}")
        runtime = ort_runtime("CPUExecutionProvider", threads)
        if runtime is None:
            raise click.ClickException("onnxruntime is not installed")
        shares = (
            kernel_share(path, feeds, threads, folder),
            run_share(path, runtime, feeds, effort.run_seconds / SHARE_COSTS, folder),
        )
        files = variants(path, folder / "ours.onnx", folder)
        loaders = {name: loader(file, runtime, feeds) for name, file in files}
        samples = in_turn(loaders, effort.run_seconds)
        if OURS not in samples:
            return replace(empty, outcome="what optimize wrote does not run")
        go_on(samples, loaders, effort)
    return _described(empty, result, samples, shares)


def loader(path: Path, runtime: OrtRuntime, feeds: Arrays) -> Loader:
    """Makes sessions of a file."""
    return partial(runtime.load, source_of(path), feeds)


def _described(
    empty: Line,
    result: OptimizeResult,
    samples: dict[str, list[float]],
    shares: tuple[float, float | None],
) -> Line:
    share, of_run = shares
    original = statistics.median(samples[ORIGINAL])
    forms = statistics_of(d.form or "unchanged" for d in result.decisions)
    return replace(
        empty,
        outcome="timed",
        share=share,
        run_share=of_run,
        forms=forms,
        copied=not result.modified,
        original_ms=1e3 * original,
        ratios={n: paired_ratio(samples[ORIGINAL], s) for n, s in samples.items() if n != ORIGINAL},
        rounds=len(samples[ORIGINAL]),
        tune_seconds=result.tuning.seconds if result.tuning else 0.0,
    )


def model_paths(folders: Sequence[Path], only: str) -> list[tuple[Path, str]]:
    """Files that hold a ConvTranspose, the small ones first."""
    found = []
    for folder in folders:
        paths = [folder] if folder.is_file() else sorted(folder.rglob("*.onnx"))
        for path in paths:
            name = path.name if folder.is_file() else str(path.relative_to(folder.parent))
            if only in name and b"ConvTranspose" in path.read_bytes():
                found.append((path, name))
    return sorted(found, key=lambda pair: pair[0].stat().st_size)


def weight(path: Path) -> float:
    """Of a model's share of the time: large ones take longer to load, to tune and to run."""
    return 1 + path.stat().st_size / WEIGHT_BYTES


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--threads", "counts", multiple=True, type=int, default=(1, 2), show_default=True)
@click.option("--minutes", default=25.0, show_default=True, help="For everything.")
@click.option("--tune-seconds", default=20.0, show_default=True, help="At most, for one model.")
@click.option("--seconds", default=12.0, show_default=True, help="At most, for runs of one model.")
@click.option("--least", default=0.97, show_default=True, help="Slower than this fails.")
@click.option("--only", default="", help="Part of a model's name.")
@click.option("--cache", type=click.Path(path_type=Path), help="Of timings; none by default.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(folders: tuple[Path, ...], json_path: Path | None, **choices: Any) -> None:
    """Print a line a model and number of threads, then totals."""
    logging.disable(logging.WARNING)
    head = environment()
    click.echo(head)
    lines: list[Line] = []
    todo = [(p, n, t) for p, n in model_paths(folders, choices["only"]) for t in choices["counts"]]
    end = time.perf_counter() + 60 * choices["minutes"]
    with tempfile.TemporaryDirectory() as temporary:
        cache = choices["cache"] or Path(temporary)
        weights = [weight(path) for path, _, _ in todo]
        for i, (path, name, threads) in enumerate(todo):
            left = end - time.perf_counter()
            if left <= 0:
                break
            # Most models leave most of their share to those behind them, and few take long to tune.
            share = left * weights[i] / sum(weights[i:])
            tune = max(1.0, min(choices["tune_seconds"], left / TUNINGS, TUNINGS * share))
            runs = max(0.5, min(choices["seconds"], share))
            lines.append(line(path, name, threads, Effort(tune, runs, cache, choices["least"])))
            click.echo(text(lines[-1]))
    for total in totals(lines, choices["least"]):
        click.echo(total)
    click.echo(f"not reached: {len(todo) - len(lines)} of {len(todo)}")
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        document = {"environment": head, "lines": [asdict(x) for x in lines]}
        json_path.write_text(json.dumps(document, indent=2))
    if slower(lines, choices["least"]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
