"""Export decoders of public libraries at their published sizes, then optimise and verify each.

    python benchmarks/full_size.py --only vits-decoder --exporter dynamo --json full_size.json

Weights are random: nothing is downloaded. It needs torch and onnxscript, and of transformers, monai
and diffusers what is there; the models of a library that is not are skipped. Where torch's exporter
does not write a model, the line says so. One line a target; the last columns say how much of the
tolerance the worst output and the worst node used.
"""

from __future__ import annotations

import collections
import importlib.util
import itertools
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import onnx
from environment import environment

from convt_onnx import OptimizeOptions, OptimizeResult, VerifyOptions, optimize
from convt_onnx.errors import ConvtError
from convt_onnx.targets import TARGETS
from convt_onnx.tuning.options import TuneOptions

if TYPE_CHECKING:
    from full_size_export import Built

# The smallest largest magnitude of an output that a comparison proves something on.
TOO_SMALL = 1e-3
EXPORTERS = ("dynamo", "torchscript")
DEFAULT_TARGETS = ("ort-cpu", "portable")
SIZES = {"static": False, "dynamic": True}


@dataclass(frozen=True, slots=True)
class Case:
    """One export, and one target or none where there is no file."""

    library: str
    model: str
    exporter: str
    sizes: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """What became of a case.

    Attributes:
        outcome: "verified", "copied", or why not.
        weights: Nodes by what makes their weight in the exported file.
        scale: Largest magnitude of the module's output, the smallest over its outputs.
        worst_output, worst_node: 1 is all that is allowed.
    """

    case: Case
    outcome: str
    scale: float | None = None
    nodes: int = 0
    nodes_after: int = 0
    conv_transpose: int = 0
    forms: str = ""
    left: str = ""
    weights: str = ""
    changes: str = ""
    worst_output: float | None = None
    worst_node: float | None = None
    seconds: float = 0.0
    input_bytes: int = 0
    output_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Exported:
    """A file and what is known of it."""

    path: Path
    built: Built
    scale: float
    dynamic: bool

    def optimized(self, target: str) -> OptimizeResult:
        """Optimise at other sizes than those it was exported at, where any are open."""
        shapes = self.built.other_shapes() if self.dynamic else dict(self.built.inputs)
        options = OptimizeOptions(
            target=target,
            force=True,
            checks=VerifyOptions(input_shapes=shapes),
            tune=TuneOptions(enabled=False),
        )
        return optimize(self.path, self.path.with_name("out.onnx"), options)


def lines_of(library: str, name: str, wanted: Selection) -> Iterator[Line]:
    """Every line of one model."""
    nothing = Case(library, name, "", "")
    if importlib.util.find_spec(library) is None:
        yield Line(nothing, f"skipped: {library} is not installed")
        return
    from full_size_export import ExportError, export, output_scale, prepare
    from full_size_models import MODELS

    try:
        built = prepare(MODELS[name][1])
    except (ImportError, AttributeError) as error:  # the library is older or newer
        yield Line(nothing, f"skipped: this {library} does not have it ({error})")
        return
    _, scale = output_scale(built)
    for exporter, sizes in itertools.product(wanted.exporters, wanted.sizes):
        case = Case(library, name, exporter, sizes)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            try:
                export(built, path, exporter, dynamic=SIZES[sizes])
            except ExportError as error:
                yield Line(case, f"torch does not export it: {error}", scale)
                continue
            if wanted.keep is not None:
                keep(path, wanted.keep / f"{library}-{name}-{exporter}-{sizes}.onnx")
            exported = Exported(path, built, scale, SIZES[sizes])
            for target in wanted.targets:
                yield line(Case(library, name, exporter, sizes, target), exported)


def keep(path: Path, at: Path) -> None:
    """A copy of an export in one file, for benchmarks/corpus.py."""
    at.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx.load(path), at)


@dataclass(frozen=True, slots=True)
class Selection:
    """What to run of each model; exports are kept in `keep` where it is a folder."""

    exporters: Sequence[str]
    sizes: Sequence[str]
    targets: Sequence[str]
    keep: Path | None = None


def line(case: Case, exported: Exported) -> Line:
    """Optimise one file for one target."""
    start = time.perf_counter()
    proto = onnx.load(exported.path)
    nodes, weights = node_count(proto), weight_kinds(proto)
    try:
        result = exported.optimized(case.target)
    except ConvtError as error:
        outcome = f"exit {int(error.exit_code)}: {error.what} ({error.where})"
        seconds = time.perf_counter() - start
        return Line(case, outcome, exported.scale, nodes, weights=weights, seconds=seconds)
    v = result.verification
    outcome = "copied" if not result.modified else "verified" if v and v.ok else "not verified"
    if exported.scale < TOO_SMALL:
        outcome += ", but the output is too small to prove anything"
    return Line(
        case=case,
        outcome=outcome,
        scale=exported.scale,
        nodes=nodes,
        nodes_after=node_count(onnx.load(str(result.output))),
        conv_transpose=len(result.decisions),
        forms=counted(d.form or "unchanged" for d in result.decisions),
        left=counted(d.reason.id for d in result.decisions if d.form is None),
        weights=weights,
        changes=", ".join(f"{len(done)} {name}" for name, done in result.changes.items() if done),
        worst_output=max((c.excess for c in v.outputs), default=None) if v else None,
        worst_node=max((c.error / c.bound for c in v.nodes), default=None) if v else None,
        seconds=time.perf_counter() - start,
        input_bytes=result.input_bytes,
        output_bytes=result.output_bytes or 0,
    )


def node_count(proto: onnx.ModelProto) -> int:
    """Nodes of the main graph and of functions."""
    return len(proto.graph.node) + sum(len(f.node) for f in proto.functions)


def weight_kinds(proto: onnx.ModelProto) -> str:
    """What makes the weight of each ConvTranspose: an initializer, or the operator behind it."""
    graphs = [proto.graph, *proto.functions]
    makers = {o: n.op_type for graph in graphs for n in graph.node for o in n.output}
    nodes = [n for graph in graphs for n in graph.node if n.op_type == "ConvTranspose"]
    return counted(makers.get(n.input[1], "initializer") for n in nodes)


def counted(names: Iterable[str]) -> str:
    """How many of each."""
    return ", ".join(f"{count} {name}" for name, count in collections.Counter(names).items())


def text(x: Line) -> str:
    """One row."""

    def share(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.2g} %"

    case = x.case
    head = f"{case.library:12} {case.model:20} {case.exporter:11} {case.sizes:7} {case.target:9}"
    if not x.nodes_after:
        return f"{head} {x.outcome}"
    size = f"{x.input_bytes / 1e6:6.1f} -> {x.output_bytes / 1e6:6.1f} MB"
    return (
        f"{head} {x.outcome:9} scale {x.scale:.2g}, nodes {x.nodes} -> {x.nodes_after}, "
        f"{x.conv_transpose} ConvTranspose: {x.forms}; weights {x.weights}; {x.changes}; "
        f"{size}, {x.seconds:.1f} s, {share(x.worst_output)}, {share(x.worst_node)}"
    )


def totals(lines: Sequence[Line]) -> Iterator[str]:
    """One line a target, one for the files that there are none of."""
    for target in dict.fromkeys(x.case.target for x in lines if x.case.target):
        mine = [x for x in lines if x.case.target == target]
        outcomes = dict(collections.Counter(x.outcome.split(":")[0] for x in mine))
        count = sum(x.conv_transpose for x in mine)
        left = counted(x.left for x in mine if x.left) or "none"
        seconds = sum(x.seconds for x in mine)
        yield (
            f"{target}: {len(mine)} files, {count} nodes, {outcomes}, "
            f"left alone: {left}, {seconds:.0f} s"
        )
    without = [x for x in lines if not x.case.target]
    yield f"no file: {dict(collections.Counter(x.outcome.split(':')[0] for x in without))}"


@click.command()
@click.option("--only", "names", multiple=True, help="Name of a model; several allowed.")
@click.option("--exporter", "exporters", multiple=True, type=click.Choice(EXPORTERS))
@click.option("--sizes", multiple=True, type=click.Choice(list(SIZES)))
@click.option("--target", "targets", multiple=True, type=click.Choice(list(TARGETS)))
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for the exports.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(
    names: Sequence[str],
    exporters: tuple[str, ...],
    sizes: tuple[str, ...],
    targets: tuple[str, ...],
    keep: Path | None,
    json_path: Path | None,
) -> None:
    """Print one line a file and target, then totals. Exits 1 where a rewrite does not verify."""
    if importlib.util.find_spec("torch") is None:
        raise click.ClickException("torch is not installed: pip install '.[models]'")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.disable(logging.WARNING)
    from full_size_models import MODELS

    unknown = set(names) - MODELS.keys()
    if unknown:
        raise click.UsageError(f"no model {sorted(unknown)}; there are {', '.join(MODELS)}")
    click.echo(environment())
    wanted = Selection(
        exporters or EXPORTERS, sizes or tuple(SIZES), targets or DEFAULT_TARGETS, keep
    )
    lines: list[Line] = []
    for name, (library, _) in MODELS.items():
        if names and name not in names:
            continue
        for x in lines_of(library, name, wanted):
            lines.append(x)
            click.echo(text(x))
        if json_path is not None:  # a whole run takes an hour
            json_path.write_text(json.dumps([asdict(x) for x in lines], indent=2))
    for total in totals(lines):
        click.echo(total)
    if any(x.outcome.startswith(("exit", "not verified")) for x in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
