"""Fit the cost model of `ort-cpu` to measured times, and state how often it picks well.

    python benchmarks/calibrate.py models ../shared/corpus --threads 1 --threads 2 --write

Every ConvTranspose of the models, and single nodes of benchmarks/forms_cpu.py, are timed in every
form as `optimize --tune` does. Times are kept in a cache folder: a second run measures what is
new. Then the coefficients are fitted (non-negative least squares on relative errors). The error is
stated out of sample: nodes are split into folds by geometry, and each fold is predicted by a fit to
the others. `--write` puts the table into the package.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
import onnx
import onnx_ir as ir
from corpus_table import inputs_beside
from environment import environment
from forms_cpu_rows import ROWS, model_of
from scipy.optimize import nnls

from convt_onnx import model_io, pipeline
from convt_onnx.decide import Choice
from convt_onnx.decision import Decision
from convt_onnx.errors import ConvtError
from convt_onnx.passes.base import Context
from convt_onnx.passes.lower import Lower
from convt_onnx.prediction.features import node_features
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.prediction.table import TABLE_PATH
from convt_onnx.targets import get_target
from convt_onnx.tuning.cache import TimingCache
from convt_onnx.tuning.jobs import Job, Weighed
from convt_onnx.tuning.nodes import NodeTuner
from convt_onnx.tuning.options import SizeSet, TuneOptions
from convt_onnx.tuning.ort import ort_runtime
from convt_onnx.tuning.sizes import ModelInputs

TARGET = get_target("ort-cpu")
FOLDS = 5
# How many times faster a form must be expected to be: the value with which most picks are good.
SWITCH_GAINS = (1.0, 1.05, 1.1, 1.15, 1.2, 1.3)
FIT_ROUNDS = 12
LARGE_ERROR = 0.3
# Within this of the best is as good as it.
GOOD = 1.15


@dataclass(slots=True)
class Collector(NodeTuner):
    """Takes down what there is to time, and leaves every decision as it is."""

    found: list[Job] = field(default_factory=list)

    def decide(self, model: ir.Model, nodes: Sequence[Weighed]) -> list[Decision]:
        """The decisions as they are."""
        self.found += self.jobs(model, nodes)
        return [w.decision for w in nodes]


@dataclass(frozen=True, slots=True)
class Row:
    """One form of one node: what it takes, and what the cost model sees of it."""

    node: str
    threads: int
    form: str
    micros: float
    features: dict[str, float]


def collector(folder: Path, inputs: Path | None, cache: Path, threads: int) -> Collector:
    """For one model."""
    runtime = ort_runtime("CPUExecutionProvider", threads)
    if runtime is None:
        raise click.ClickException("onnxruntime is not installed")
    sizes = ModelInputs(inputs, (SizeSet({}),), 0)
    predictor = Predictor(TARGET, threads)
    return Collector(runtime, TARGET, TuneOptions(), sizes, folder, TimingCache(cache), predictor)


def jobs_of(path: Path, cache: Path, threads: int) -> list[Job]:
    """The nodes of one model, as the last pass finds them."""
    mine = collector(path.parent, inputs_beside(path), cache, threads)
    loaded = model_io.load(path)
    if loaded.has_conv_transpose:
        context = Context(TARGET, {}, Choice(), tuner=mine)
        pipeline.run((*pipeline.PREPARATIONS, *pipeline.FOLDS, Lower), loaded, context)
    return mine.found


def all_jobs(paths: Sequence[Path], cache: Path, threads: int) -> Iterator[Job]:
    """Each node once."""
    seen = set()
    for path in paths:
        try:
            jobs = jobs_of(path, cache, threads)
        except ConvtError:  # some models of the corpus are wrong on purpose
            continue
        for job in jobs:
            key = json.dumps(job.key)
            if key not in seen:
                seen.add(key)
                yield job


def measure(job: Job, cache: Path, threads: int, seconds: float) -> Iterator[Row]:
    """Every form of a node, at its first sizes."""
    outcome = collector(Path(), None, cache, threads).outcome(job, seconds)
    if not outcome.heats:
        return
    heat = outcome.heats[0]
    name = json.dumps([job.key["spec"], job.key["x_shapes"], job.key["dtype"], job.key["opset"]])
    keep = heat[job.forms[0]].time
    for form, m in heat.items():
        features = node_features(job.node, form, job.setting, TARGET, job.shapes[0], job.activation)
        if keep is None or m.speedup is None or features is None:
            continue
        # The ratio of paired runs, not of medians: it does not see the machine change its speed.
        yield Row(name, threads, form, keep.median_us / m.speedup.median, features)


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """Nanoseconds a count, none negative, that make the squared errors of log times small.

    The squares of (predicted - time) / sqrt(predicted * time) are those of log errors to second
    order; the prediction in the divisor is the last round's. Errors beyond LARGE_ERROR count less
    than by their square, for a machine that does something else now and then.
    """
    names = sorted({name for r in rows for name in r.features})
    matrix = np.array([[r.features.get(n, 0.0) for n in names] for r in rows])
    times = np.array([1e3 * r.micros for r in rows])
    solved, divisor = np.zeros(len(names)), times
    for _ in range(FIT_ROUNDS):
        solved = nnls(matrix / divisor[:, None], times / divisor)[0]
        guess = np.maximum(matrix @ solved, 0.05 * times)
        error = np.abs(np.log(guess / times))
        divisor = np.sqrt(guess * times * np.maximum(1.0, error / LARGE_ERROR))
    return {n: float(x) for n, x in zip(names, solved, strict=True) if x > 0}


def predicted(table: dict[str, float], row: Row) -> float:
    """Microseconds."""
    return sum(table.get(n, 0.0) * count for n, count in row.features.items()) / 1e3


@dataclass(frozen=True, slots=True)
class Pick:
    """What the cost model takes for a node: its time over the best's, and over the node's own."""

    node: str
    form: str
    best: str
    loss: float
    over_keep: float


def picks(rows: Sequence[Row], table: dict[str, float], gain: float) -> list[Pick]:
    """One for each node."""
    result = []
    for node in dict.fromkeys(r.node for r in rows):
        mine = {r.form: r for r in rows if r.node == node}
        expected = {f: predicted(table, r) for f, r in mine.items()}
        first = next(iter(mine))
        form = min(expected, key=lambda f: expected[f])
        if first == "keep" and expected["keep"] < gain * expected[form]:
            form = "keep"
        best = min(mine, key=lambda f: mine[f].micros)
        loss = mine[form].micros / mine[best].micros
        result.append(Pick(node, form, best, loss, mine[form].micros / mine[first].micros))
    return result


def fold_of(node: str) -> int:
    """The same geometry at another size is in the same fold."""
    return zlib.crc32(json.dumps(json.loads(node)[0]).encode()) % FOLDS


def out_of_sample(rows: Sequence[Row], gain: float) -> list[Pick]:
    """Each node predicted by a fit to the other folds."""
    result = []
    for k in range(FOLDS):
        table = fit([r for r in rows if fold_of(r.node) != k])
        result += picks([r for r in rows if fold_of(r.node) == k], table, gain)
    return result


def share(found: Sequence[Pick], limit: float) -> float:
    """Of nodes whose form takes at most `limit` times as long as the best."""
    return sum(p.loss <= limit for p in found) / len(found)


def statement(found: Sequence[Pick]) -> dict[str, float]:
    """How good picks are, as numbers."""
    gains = [p.over_keep for p in found]
    return {
        "nodes": len(found),
        "best": round(share(found, 1.0), 3),
        "within_10_percent": round(share(found, 1.10), 3),
        "within_15_percent": round(share(found, GOOD), 3),
        "slower_than_the_node_by_over_5_percent": sum(g > 1.05 for g in gains),
        "geometric_mean_of_time_over_the_node": round(float(np.exp(np.mean(np.log(gains)))), 3),
        "the_same_with_the_best_forms": round(
            float(np.exp(np.mean(np.log([p.over_keep / p.loss for p in found])))), 3
        ),
    }


def model_files(folders: Sequence[Path], temporary: Path) -> list[Path]:
    """The models of the folders, and the single nodes of forms_cpu."""
    paths = [p for folder in folders for p in sorted(folder.rglob("*.onnx"))]
    for i, row in enumerate(ROWS):
        paths.append(temporary / f"row{i}.onnx")
        onnx.save(model_of(row), paths[-1])
    return paths


def measured_rows(paths: Sequence[Path], cache: Path, threads: int, seconds: float) -> list[Row]:
    """Every form of every node, printed as it goes."""
    rows: list[Row] = []
    for i, job in enumerate(all_jobs(paths, cache, threads)):
        mine = list(measure(job, cache, threads, seconds))
        rows += mine
        times = "  ".join(f"{r.form} {r.micros:.1f}" for r in mine)
        click.echo(f"{threads} {i:3} {job.paths[0][-40:]:40} us: {times}", err=True)
    return rows


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--threads", "counts", multiple=True, type=int, default=(1, 2), show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="At most, for one node.")
@click.option("--cache", type=click.Path(path_type=Path), required=True, help="Keeps the times.")
@click.option("--write", is_flag=True, help="Put the table into the package.")
@click.option("--worst", default=10, show_default=True, help="How many bad picks to list.")
def main(
    folders: tuple[Path, ...],
    counts: tuple[int, ...],
    seconds: float,
    cache: Path,
    write: bool,
    worst: int,
) -> None:
    """Measure what is not in the cache, fit, and state the error."""
    head = environment()
    click.echo(head)
    with tempfile.TemporaryDirectory() as temporary:
        paths = model_files(folders, Path(temporary))
        rows = {n: measured_rows(paths, cache, n, seconds) for n in counts}
    for threads, found_rows in rows.items():
        if len({fold_of(r.node) for r in found_rows}) < FOLDS:
            raise click.ClickException(
                f"only {len(found_rows)} forms were timed with {threads} threads: too few to fit; "
                "more --seconds or a quieter machine"
            )
    found = {g: {n: out_of_sample(rows[n], g) for n in counts} for g in SWITCH_GAINS}
    gain = max(SWITCH_GAINS, key=lambda g: sum(share(p, GOOD) for p in found[g].values()))
    for threads in counts:
        for g in SWITCH_GAINS:
            click.echo(f"{threads} threads, gain {g}: {json.dumps(statement(found[g][threads]))}")
        for p in sorted(found[gain][threads], key=lambda p: -p.loss)[:worst]:
            click.echo(f"  {p.loss:.2f} times the best: {p.form} for {p.best}, {p.node}")
    document = {
        "environment": head,
        "switch_gain": gain,
        "out_of_sample": {n: statement(found[gain][n]) for n in counts},
        "nanoseconds": {n: {k: float(f"{x:.4g}") for k, x in fit(rows[n]).items()} for n in counts},
    }
    if write:
        TABLE_PATH.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
