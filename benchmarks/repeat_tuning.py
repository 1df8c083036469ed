"""Tune the same models again and again, each time anew, and say how often the result is the same.

    python benchmarks/repeat_tuning.py models/fcn8s_tiny.onnx --runs 20 --threads 2

A run agrees where every node gets the form that most runs give it, or one not over 5 % slower than
that. To know it, the forms that were ever taken are timed in turn at the end, longer
than tuning does.
"""

from __future__ import annotations

import collections
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from calibrate import collector, jobs_of
from corpus import in_turn
from corpus_table import inputs_beside
from environment import environment

from convt_onnx import OptimizeOptions, VerifyOptions, optimize
from convt_onnx.tuning.jobs import Job
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.tuning.statistics import paired_ratio

# For each node on which runs differ.
FINAL_SECONDS = 5.0
# Forms within this of each other are as good as the same.
CLOSE = 1.05


@dataclass(frozen=True, slots=True)
class Agreement:
    """One node.

    Attributes:
        forms: How many runs took each form.
        slower: How many times longer than the commonest form each one takes.
        agreeing: For each run, whether its form is the commonest or not over 5 % slower.
    """

    path: str
    forms: dict[str, int]
    slower: dict[str, float]
    agreeing: tuple[bool, ...]


def tuned_once(path: Path, threads: int, seconds: float) -> dict[str, str]:
    """The form that was measured to be the best, by node; nothing is remembered."""
    with tempfile.TemporaryDirectory() as folder:
        tune = TuneOptions(True, seconds, threads, Path(folder))
        checks = VerifyOptions(inputs=inputs_beside(path))
        options = OptimizeOptions(tune=tune, dry_run=True, verify=False, checks=checks)
        result = optimize(path, options=options)
    return {n.path: n.chosen for n in result.tuning.nodes} if result.tuning else {}


def agreement(path: str, job: Job, taken: Sequence[str], threads: int, seconds: float) -> Agreement:
    """How far the runs agree on one node."""
    forms = dict(collections.Counter(taken).most_common())
    commonest = next(iter(forms))
    slower = dict.fromkeys(forms, 1.0)
    if len(forms) > 1:
        with tempfile.TemporaryDirectory() as folder:
            mine = collector(Path(folder), None, Path(folder), threads)
            loaders = {form: mine.loader(job, form, job.shapes[0]) for form in forms}
            samples = in_turn(loaders, seconds)
        slower = {f: paired_ratio(samples[f], samples[commonest]).median for f in forms}
    return Agreement(path, forms, slower, tuple(slower[form] <= CLOSE for form in taken))


def agreements(path: Path, runs: int, threads: int, seconds: float) -> Iterator[Agreement]:
    """Of every node of a model."""
    results = []
    for _ in range(runs):
        results.append(tuned_once(path, threads, seconds))
        click.echo(f"{path.name}: {results[-1]}", err=True)
    with tempfile.TemporaryDirectory() as folder:
        jobs = {p: job for job in jobs_of(path, Path(folder), threads) for p in job.paths}
    for node in results[0]:
        taken = [r.get(node, "keep") for r in results]
        yield agreement(node, jobs[node], taken, threads, FINAL_SECONDS)


@click.command()
@click.argument("models", nargs=-1, type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--runs", default=20, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--tune-seconds", default=60.0, show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(
    models: tuple[Path, ...], runs: int, threads: int, tune_seconds: float, json_path: Path | None
) -> None:
    """Print a line a node, then how many runs agree on every node of a model."""
    head = environment()
    click.echo(f"{head}, {threads} threads")
    document: dict[str, object] = {"environment": head, "threads": threads}
    for path in models:
        nodes = list(agreements(path, runs, threads, tune_seconds))
        for n in nodes:
            ratios = ", ".join(f"{f} {r:.3f}" for f, r in n.slower.items())
            click.echo(f"{path.name} {n.path}: {n.forms}, time over the commonest: {ratios}")
        agreeing = sum(all(n.agreeing[i] for n in nodes) for i in range(runs))
        click.echo(f"{path.name}: {agreeing} of {runs} runs agree")
        document[path.name] = [asdict(n) for n in nodes]
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
