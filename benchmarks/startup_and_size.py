"""Measure how long convt-onnx takes to start, and its time and memory on large models.

python benchmarks/startup_and_size.py --json
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from convt_onnx.machine import cores, processor

MODELS = ("external-500mb", "external-3gb", "nodes-50000")
START_RUNS = 10
PACKAGES = ("convt-onnx", "onnx", "onnx-ir", "numpy", "protobuf")


@dataclass(frozen=True, slots=True)
class Run:
    """One measured command: wall time in seconds, peak resident memory in MiB, file sizes."""

    command: str
    input_mib: float
    seconds: float
    peak_mib: float
    output_mib: float


def measure(arguments: list[str]) -> tuple[float, float]:
    """Run a command and return its wall time in seconds and its peak memory in MiB.

    Linux counts the memory that the parent had at the fork into the child's peak, which is
    why this script builds its models in another process and imports little.
    """
    with tempfile.TemporaryFile("w+") as messages:
        start = time.perf_counter()
        child = os.posix_spawn(
            arguments[0],
            arguments,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, messages.fileno(), 2),
            ],
        )
        _, status, usage = os.wait4(child, 0)
        seconds = time.perf_counter() - start
        if os.waitstatus_to_exitcode(status):
            messages.seek(0)
            raise click.ClickException(f"{' '.join(arguments)} failed:\n{messages.read()}")
    return seconds, usage.ru_maxrss / 1024


def measure_start(program: str) -> Run:
    """The median of several starts."""
    runs = [measure([program, "--help"]) for _ in range(START_RUNS)]
    seconds = statistics.median(run[0] for run in runs)
    return Run("convt-onnx --help", 0.0, seconds, max(run[1] for run in runs), 0.0)


def measure_optimize(program: str, name: str, folder: Path) -> Run:
    """Make a model, optimise it once, and remove it again."""
    maker = Path(__file__).with_name("make_models.py")
    made = [sys.executable, str(maker), str(folder), "--model", name]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    model, out = folder / f"{name}.onnx", folder / f"{name}.out.onnx"
    options = ["--target", "ort-cpu", "--no-verify", "--no-tune"]
    seconds, peak = measure([program, "optimize", str(model), *options, "-o", str(out)])
    run = Run(f"convt-onnx optimize {name}", total_mib(model), seconds, peak, total_mib(out))
    for file in folder.iterdir():
        file.unlink()
    return run


def total_mib(model: Path) -> float:
    """Size of a model and of its external data in MiB."""
    files = (model, model.with_name(model.name + ".data"))
    return sum(file.stat().st_size for file in files if file.exists()) / 2**20


def environment() -> dict[str, str]:
    """Where and when this ran."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": f"{processor()}, {cores()} cores",
        "python": platform.python_version(),
        **versions,
    }


def print_table(where: dict[str, str], runs: list[Run]) -> None:
    """Print what was measured, for a reader."""
    for key, value in where.items():
        click.echo(f"{key:12} {value}")
    click.echo(f"\n{'command':38} {'in MiB':>9} {'seconds':>9} {'peak MiB':>9} {'out MiB':>9}")
    for run in runs:
        click.echo(
            f"{run.command:38} {run.input_mib:9.1f} {run.seconds:9.2f} "
            f"{run.peak_mib:9.1f} {run.output_mib:9.1f}"
        )


@click.command()
@click.option(
    "--model", "names", multiple=True, type=click.Choice(MODELS), help="Only these models."
)
@click.option("--work-dir", type=click.Path(path_type=Path, exists=True), help="Needs 7 GB.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(names: tuple[str, ...], work_dir: Path | None, as_json: bool) -> None:
    """Measure the start, and `optimize --no-verify --no-tune` on each large model."""
    program = str(Path(sys.executable).with_name("convt-onnx"))
    where = environment()
    runs = [measure_start(program)]
    for name in names or MODELS:
        with tempfile.TemporaryDirectory(dir=work_dir) as folder:
            runs.append(measure_optimize(program, name, Path(folder)))
    if as_json:
        click.echo(json.dumps({**where, "runs": [asdict(run) for run in runs]}, indent=2))
    else:
        print_table(where, runs)


if __name__ == "__main__":
    main()
