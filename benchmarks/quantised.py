"""Quantised models in every form: how far results move, what is stored, which kernels run.

    python benchmarks/quantised.py ../shared

A step is the scale of the QuantizeLinear that reads the value; where none does, 1/255 of its range.
`node` feeds each rewritten node the original's own tensors, so that one rounding does not cascade
through the layers behind; `end` compares the models' outputs. Both run in ONNX Runtime without
graph optimisations. `one element` says how far rounding cascades in the original itself: one
element behind its first node, moved by one step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
import onnx
import onnxruntime as ort
from environment import environment
from quantised_models import (
    EXPORTS,
    Feeds,
    float_weights,
    integer_bytes,
    quantised_export,
    random_feeds,
    shared_models,
)

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.forms import FORMS
from convt_onnx.tuning.options import TuneOptions

QUANTIZE = "QuantizeLinear"
QDQ = (QUANTIZE, "DequantizeLinear")


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far elements moved.

    Attributes:
        elements: Elements compared.
        beyond: Further than one step.
        moved: Further than half a step.
        worst: The furthest, in steps.
        tie: The largest distance, in steps, that an integer which moved had before rounding from
            the middle of two integers; there the order of a sum decides.
    """

    elements: int = 0
    beyond: int = 0
    moved: int = 0
    worst: float = 0.0
    tie: float = 0.0

    def __add__(self, other: Deviation) -> Deviation:
        return Deviation(
            self.elements + other.elements,
            self.beyond + other.beyond,
            self.moved + other.moved,
            max(self.worst, other.worst),
            max(self.tie, other.tie),
        )

    @property
    def share(self) -> float:
        """Share beyond one step."""
        return self.beyond / max(1, self.elements)


@dataclass(frozen=True, slots=True)
class Row:
    """One model in one form."""

    model: str
    form: str
    nodes: int
    node: Deviation
    end: Deviation
    integers: tuple[int, int]
    floats: tuple[int, int]
    integer_convolutions: int


def run(model: onnx.ModelProto, feeds: Feeds, extra: Sequence[str] = ()) -> Feeds:
    """Outputs and further values by name, without graph optimisations."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    outputs = {o.name for o in copy.graph.output}
    copy.graph.output.extend(onnx.ValueInfoProto(name=n) for n in extra if n not in outputs)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(copy.SerializeToString(), options)
    wanted = {i.name for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    values = session.run(names, {n: a for n, a in feeds.items() if n in wanted})
    return dict(zip(names, values, strict=True))


def compare(got: np.ndarray, wanted: np.ndarray, step: float) -> Deviation:
    """Difference in steps."""
    steps = np.abs(got.astype(np.float64) - wanted.astype(np.float64)) / step
    beyond = int((steps > 1 + 1e-3).sum())
    return Deviation(steps.size, beyond, int((steps > 0.5).sum()), float(steps.max(initial=0.0)))


def step_of(model: onnx.ModelProto, name: str, values: np.ndarray) -> float:
    """Quantisation step of a value."""
    known = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        read = node.op_type == QUANTIZE and node.input[0] == name
        made = node.op_type == "DequantizeLinear" and node.output[0] == name
        if (read or made) and node.input[1] in known:
            return float(onnx.numpy_helper.to_array(known[node.input[1]]).max())
    return float(np.ptp(values.astype(np.float64))) / 255 or 1.0


def forced(model: onnx.ModelProto, inputs: Sequence[str]) -> onnx.ModelProto:
    """The model with these values as inputs, whatever made them."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    present = {i.name for i in copy.graph.input}
    for node in copy.graph.node:
        for i, name in enumerate(node.output):
            if name in inputs:
                node.output[i] = f"{name}/unused"
    info = onnx.helper.make_tensor_value_info
    copy.graph.input.extend(
        info(n, onnx.TensorProto.FLOAT, None) for n in inputs if n not in present
    )
    del copy.graph.value_info[:]
    return copy


def by_node(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    ends: Sequence[tuple[str, str]],
    feeds: Feeds,
) -> Deviation:
    """Each rewritten node on the original's input, behind the QuantizeLinear that reads it."""
    made = {o for n in before.graph.node for o in n.output} | {i.name for i in before.graph.input}
    also = {o for n in after.graph.node for o in n.output}
    pairs = [(x, y) for x, y in ends if x in made and y in made & also]
    readers = {n.output[0]: n.input[0] for n in after.graph.node if n.op_type == QUANTIZE}
    # Integers where they exist: there one is one step.
    ys = {y: [q for q, r in readers.items() if r == y and q in made] or [y] for _, y in pairs}
    wanted_names = sorted({n for pair in pairs for n in pair} | {n for q in ys.values() for n in q})
    truth = run(before, feeds, wanted_names)
    inputs = sorted({x for x, _ in pairs})
    got = run(forced(after, inputs), feeds | {x: truth[x] for x in inputs}, wanted_names)
    total = Deviation()
    for y, names in ys.items():
        for name in names:
            step = step_of(before, y, truth[y])
            found = compare(got[name], truth[name], 1.0 if name != y else step)
            tie = (
                0.0
                if name == y
                else from_tie(truth[y].astype(np.float64) / step, got[name] != truth[name])
            )
            total += replace(found, tie=tie)
    return total


def from_tie(steps: np.ndarray, moved: np.ndarray) -> float:
    """The largest distance of the values that moved from the middle of two integers."""
    exact = steps[moved]
    return float(np.abs(exact - np.floor(exact) - 0.5).max(initial=0.0))


def sensitivity(model: onnx.ModelProto, feeds: Feeds) -> Deviation:
    """The original against itself with one element moved by one step behind its first node."""
    first = next(n for n in model.graph.node if n.op_type == "ConvTranspose").output[0]
    readers = {n.input[0]: n for n in model.graph.node if n.op_type in QDQ}
    if first not in readers or readers[first].output[0] not in readers:
        return Deviation()
    name = readers[readers[first].output[0]].output[0]
    truth = run(model, feeds, [name])
    moved = truth[name].copy()
    moved[tuple(n // 2 for n in moved.shape)] += step_of(model, name, moved)
    got = run(forced(model, [name]), feeds | {name: moved})
    total = Deviation()
    for output, values in got.items():
        total += compare(values, truth[output], step_of(model, output, truth[output]))
    return total


def integer_convolutions(path: Path, folder: Path) -> int:
    """QLinearConv nodes after ONNX Runtime's optimiser, -1 where it does not load."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    try:
        ort.InferenceSession(path, options)
    except Exception:  # onnxruntime's exceptions share no base of their own
        return -1
    nodes = onnx.load(folder / "optimised.onnx", load_external_data=False).graph.node
    return sum(n.op_type == "QLinearConv" for n in nodes)


def measure(path: Path, name: str, folder: Path, forms: Iterable[str] = FORMS) -> Iterator[Row]:
    """One row for each form that any node can take."""
    before = onnx.load(path)
    feeds = feeds_of(path, before)
    truth = run(before, feeds)
    if (own := sensitivity(before, feeds)).elements:
        yield Row(name, "one element", 0, Deviation(), own, (0, 0), (0, 0), 0)
    for form in forms:
        out = folder / "rewritten.onnx"
        options = OptimizeOptions(
            forms={"all": form}, verify=False, force=True, tune=TuneOptions(enabled=False)
        )
        result = optimize(path, out, options)
        taken = sum(d.form == form for d in result.decisions)
        if not taken or (form == "keep" and not result.modified):
            continue
        after = onnx.load(out)
        end = Deviation()
        for output, values in run(after, feeds).items():
            step = step_of(before, output, truth[output])
            end += compare(values, truth[output], step)
        ends = [(d.x, d.output) for d in result.decisions]
        yield Row(
            name,
            form,
            taken,
            by_node(before, after, ends, feeds),
            end,
            (integer_bytes(before), integer_bytes(after)),
            (float_weights(before), float_weights(after)),
            integer_convolutions(out, folder) - integer_convolutions(path, folder),
        )


def feeds_of(path: Path, model: onnx.ModelProto) -> Feeds:
    """The arrays beside a model, or seeded ones."""
    beside = (path.with_suffix(".npz"), path.with_name("inputs.npz"))
    for file in beside:
        if file.is_file():
            with np.load(file) as arrays:
                known = {i.name for i in model.graph.input}
                named = {n.removeprefix("in_"): a for n, a in arrays.items()}
                return {n: a for n, a in named.items() if n in known}
    return random_feeds(model, 1000)


def text(row: Row) -> str:
    """One line of the table."""

    def deviation(d: Deviation) -> str:
        share = 100 * d.moved / max(1, d.elements)
        return f"{share:8.4f} {100 * d.share:8.4f} {d.worst:8.3g}"

    growth = row.integers[1] / max(1, row.integers[0])
    floats = row.floats[1] - row.floats[0]
    cells = f"{row.model[:28]:28} {row.form:14} {row.nodes:3} {deviation(row.node)} "
    cells += f"{row.node.tie:8.1g} {deviation(row.end)} {row.integers[0]:9} {growth:6.2f} "
    return f"{cells}{floats:7} {row.integer_convolutions:+5}"


HEADER = (
    f"{'model':28} {'form':14} {'n':>3} {'node %':>8} {'>1 %':>8} {'worst':>8} "
    f"{'tie':>8} {'end %':>8} {'>1 %':>8} {'worst':>8} {'int bytes':>9} {'ratio':>6} "
    f"{'+float':>7} {'+int':>5}"
)


@click.command()
@click.argument("shared", type=click.Path(path_type=Path), required=False)
@click.option("--export", "exports", multiple=True, default=EXPORTS, show_default=True)
def main(shared: Path | None, exports: Sequence[str]) -> None:
    """Print the table.

    Of the nodes and of the whole, in steps: share that moved by about one, share beyond one, the
    worst. `tie`: how far the elements that moved were from the middle of two integers, at most.
    """
    click.echo(environment())
    click.echo(HEADER)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for path in shared_models(shared) if shared is not None else ():
            name = path.parent.name[:3] if path.name == "model.onnx" else path.stem
            for row in measure(path, name, folder):
                click.echo(text(row))
        for export in exports:
            for per_channel in (False, True):
                path = quantised_export(export, folder, per_channel=per_channel)
                for row in measure(path, path.stem, folder):
                    click.echo(text(row))


if __name__ == "__main__":
    main()
