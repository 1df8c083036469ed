"""Fit the cost model of `ort-cpu` to measured times, and state how often it picks well.

    python benchmarks/calibrate.py models ../shared/corpus --threads 1 --threads 2 --write

Every ConvTranspose of the models, and single nodes of benchmarks/forms_cpu.py, are timed in every
form as `optimize --tune` does. Times are kept in a cache folder: a second run measures what is
new. Then the coefficients are fitted (non-negative least squares on relative errors), and what a
form must gain before it replaces the node is chosen. The error is stated out of sample: nodes are
split into folds by geometry, and each fold is predicted by what was fitted to and chosen by the
others alone. `--write` puts the table into the package, for processors of this kind.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import onnx
import onnx_ir as ir
from calibrate_fit import FOLDS, Row, best_switch, fit, fold_of, statement, unseen
from corpus_table import inputs_beside
from environment import environment
from forms_cpu_rows import ROWS, model_of

from convt_onnx import model_io, pipeline
from convt_onnx.decide import Choice
from convt_onnx.decision import Decision
from convt_onnx.errors import ConvtError
from convt_onnx.passes.base import Context
from convt_onnx.passes.lower import Lower
from convt_onnx.prediction.features import node_features
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.prediction.table import TABLE_PATH
from convt_onnx.prediction.vectors import vectors_here
from convt_onnx.targets import get_target
from convt_onnx.tuning.cache import TimingCache
from convt_onnx.tuning.jobs import Job, Weighed
from convt_onnx.tuning.nodes import NodeTuner
from convt_onnx.tuning.options import SizeSet, TuneOptions
from convt_onnx.tuning.ort import ort_runtime
from convt_onnx.tuning.sizes import ModelInputs

TARGET = get_target("ort-cpu")


@dataclass(slots=True)
class Collector(NodeTuner):
    """Takes down what there is to time, and leaves every decision as it is."""

    found: list[Job] = field(default_factory=list)

    def decide(self, model: ir.Model, nodes: Sequence[Weighed]) -> list[Decision]:
        """The decisions as they are."""
        self.found += self.jobs(model, nodes)
        return [w.decision for w in nodes]


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
        where = (job.setting, TARGET, job.shapes[0], vectors_here())
        features = node_features(job.node, form, *where, job.activation)
        if keep is None or m.speedup is None or features is None:
            continue
        # The ratio of paired runs, not of medians: it does not see the machine change its speed.
        yield Row(name, threads, form, keep.median_us / m.speedup.median, features)


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
    found = {n: unseen(rows[n]) for n in counts}
    switches = {n: best_switch(rows[n]) for n in counts}
    for threads in counts:
        click.echo(
            f"{threads} threads, {switches[threads]}: {json.dumps(statement(found[threads]))}"
        )
        for p in sorted(found[threads], key=lambda p: -p.loss)[:worst]:
            click.echo(f"  {p.loss:.2f} times the best: {p.form} for {p.best}, {p.node}")
    document = {
        "environment": head,
        "switch": {n: asdict(switches[n]) for n in counts},
        "out_of_sample": {n: statement(found[n]) for n in counts},
        "nanoseconds": {n: {k: float(f"{x:.4g}") for k, x in fit(rows[n]).items()} for n in counts},
    }
    if write:
        tables = {**json.loads(TABLE_PATH.read_text()), vectors_here().name: document}
        TABLE_PATH.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
