"""Optimise and verify every model of a folder for every target; one line a model, then totals.

    python benchmarks/corpus_table.py ../shared/corpus ../shared/cases models

Forms are chosen by expected cost, not timed. Inputs are taken from a .npz beside the model
(<stem>.npz, inputs.npz or data_0.npz), else random.
"""

from __future__ import annotations

import collections
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import onnx
from environment import environment

from convt_onnx import OptimizeOptions, OptimizeResult, VerifyOptions, optimize
from convt_onnx.errors import ConvtError
from convt_onnx.targets import TARGETS
from convt_onnx.tuning.options import TuneOptions


@dataclass(frozen=True, slots=True)
class Line:
    """One model on one target."""

    model: str
    target: str
    outcome: str
    nodes: int
    forms: str
    left: str
    worst_output: float | None
    worst_node: float | None
    seconds: float
    before: dict[str, int]
    after: dict[str, int]


# What stands around a ConvTranspose and may go into it.
AROUND = ("Slice", "Pad", "BatchNormalization", "Mul", "Add")


def counts(path: Path) -> dict[str, int]:
    """Nodes of the main graph: all, ConvTranspose, and each kind of AROUND."""
    nodes = onnx.load(path, load_external_data=False).graph.node
    kinds = collections.Counter(n.op_type for n in nodes)
    return {"all": len(nodes)} | {k: kinds[k] for k in ("ConvTranspose", *AROUND)}


def inputs_beside(path: Path) -> Path | None:
    """The arrays that come with a model."""
    beside = (path.with_suffix(".npz"), path.with_name("inputs.npz"), path.with_name("data_0.npz"))
    return next((p for p in beside if p.is_file()), None)


def run(path: Path, name: str, target: str, folder: Path) -> Line:
    """Optimise one model."""
    start = time.perf_counter()
    options = OptimizeOptions(
        target=target,
        force=True,
        checks=VerifyOptions(inputs=inputs_beside(path)),
        tune=TuneOptions(enabled=False),
    )
    try:
        result = optimize(path, folder / "out.onnx", options)
    except ConvtError as error:
        seconds = time.perf_counter() - start
        outcome = f"exit {int(error.exit_code)}: {error.what}"
        return Line(name, target, outcome, 0, "", "", None, None, seconds, {}, {})
    line = describe(result, name, time.perf_counter() - start)
    return replace(line, before=counts(path), after=counts(folder / "out.onnx"))


def describe(result: OptimizeResult, name: str, seconds: float) -> Line:
    """What happened, in words and worst errors (1 is all that is allowed)."""
    forms = collections.Counter(d.form or "unchanged" for d in result.decisions)
    left = collections.Counter(d.reason.id for d in result.decisions if d.form is None)
    v = result.verification
    outcome = "copied" if not result.modified else "verified" if v and v.ok else "not verified"
    return Line(
        model=name,
        target=result.target,
        outcome=outcome,
        nodes=len(result.decisions),
        forms=", ".join(f"{n} {f}" for f, n in forms.items()),
        left=", ".join(f"{n} {i}" for i, n in left.items()),
        worst_output=max((c.excess for c in v.outputs), default=None) if v else None,
        worst_node=max((c.error / c.bound for c in v.nodes), default=None) if v else None,
        seconds=seconds,
        before={},
        after={},
    )


def text(line: Line) -> str:
    """One row."""

    def share(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.2g} %"

    cells = f"{line.model[:64]:64} {line.target:9} {line.outcome[:60]:12}"
    cells += f" {line.forms:44} {share(line.worst_output):>8} {share(line.worst_node):>8}"
    changed = [k for k in line.before if line.before[k] != line.after[k]]
    return cells + "  " + ", ".join(f"{k} {line.before[k]}->{line.after[k]}" for k in changed)


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--target", "targets", multiple=True, default=tuple(TARGETS), show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(folders: Sequence[Path], targets: Sequence[str], json_path: Path | None) -> None:
    """Print the table and the totals. The columns with % say how much of the tolerance was used."""
    click.echo(environment())
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        for folder in folders:
            for path in sorted(folder.rglob("*.onnx")):
                for target in targets:
                    name = str(path.relative_to(folder.parent))
                    lines.append(run(path, name, target, Path(temporary)))
                    click.echo(text(lines[-1]))
    for target in targets:
        mine = [x for x in lines if x.target == target]
        outcomes = collections.Counter(x.outcome.split(":")[0] for x in mine)
        left = sorted({x.left for x in mine if x.left})
        click.echo(
            f"{target}: {len(mine)} models, {sum(x.nodes for x in mine)} nodes, {dict(outcomes)}, "
            f"left alone: {', '.join(left) or 'none'}, {sum(x.seconds for x in mine):.0f} s"
        )
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(x) for x in lines], indent=2))


if __name__ == "__main__":
    main()
