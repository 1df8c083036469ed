"""Time every form of single ConvTranspose nodes in ONNX Runtime's CPU provider.

Two rounds a node and thread count, input and output bound to memory of their own: all forms in turn
(A B C A B C ...), which finds the fastest; then that one against `keep` alone (A B A B ...), whose
medians are the figures, since forms that take turns push each other's memory out of the caches.
Run it on a quiet machine:

    python benchmarks/forms_cpu.py --json out.json               # every node
    python benchmarks/forms_cpu.py --required --json out.json    # exit code 1 where one falls short
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from environment import environment
from forms_cpu_rows import OPSET, REQUIRED, ROWS, Row, model_of

from convt_onnx.decide import Choice, decide, setting_for
from convt_onnx.forms import FORMS, forms_for
from convt_onnx.graph.node import ConvTransposeNode, find_nodes, read_node
from convt_onnx.passes.base import Context
from convt_onnx.passes.lower import Lower
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.targets import get_target

# Forms with this many times the multiply-adds of `keep` are not timed.
MAX_WORK = 8
FEWEST_RUNS = 15

Run = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Result:
    """One node on one thread count; milliseconds.

    `ms` are medians of the round of all forms, `keep` and `best_ms` of the round of two, each with
    its quartiles.
    """

    row: Row
    threads: int
    ms: dict[str, float]
    best: str
    keep: tuple[float, float, float]
    best_ms: tuple[float, float, float]
    expected: str
    required: float | None

    @property
    def ratio(self) -> float:
        """How many times faster than the native node the best form is."""
        return self.keep[1] / self.best_ms[1]

    @property
    def met(self) -> bool:
        """Whether the ratio is what is required of it."""
        return self.required is None or self.ratio >= self.required


def read(model: ir.Model) -> ConvTransposeNode:
    """The one node."""
    found = next(find_nodes(model))
    node = read_node(found.node, found.path, model.ir_version, {})
    if not isinstance(node, ConvTransposeNode):
        raise TypeError(node)
    return node


def forms_of(proto: onnx.ModelProto) -> dict[str, bytes]:
    """Each applicable form as a serialised model; far more work than `keep` is left out."""
    target = get_target("ort-cpu")
    node = read(ir.from_proto(proto))
    setting = setting_for(opset_of(proto), target, node.dtype)
    sizes = [n or 1 for n in node.sizes]
    native = FORMS["keep"].work(node.spec, 1, sizes).macs
    models = {}
    for form in forms_for(setting):
        if form.check(node, setting) is not None:
            continue
        if form.work(node.spec, 1, sizes).macs > MAX_WORK * native:
            continue
        model = ir.from_proto(proto)
        Lower(Context(target, {}, Choice({"ct": form.name})))(model)
        models[form.name] = ir.to_proto(model).SerializeToString()
    return models


def opset_of(proto: onnx.ModelProto) -> int:
    """Version of the standard operators."""
    return next(i.version for i in proto.opset_import if i.domain == "")


def expected_form(proto: onnx.ModelProto, threads: int) -> str:
    """The form that is taken where nothing is timed."""
    target = get_target("ort-cpu")
    node = read(ir.from_proto(proto))
    setting = setting_for(opset_of(proto), target, node.dtype)
    decision = decide(node, target, setting, Choice())
    return Predictor(target, threads).applied(decision, node, setting).form or "keep"


def prepare(data: bytes, threads: int, x: np.ndarray) -> Run:
    """A session whose output goes where it went before; it runs once."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that spin on after a run would take the next session's core.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    output = ort.OrtValue.ortvalue_from_numpy(session.run(None, {"x": x})[0])
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x))
    binding.bind_ortvalue_output("y", output)
    return lambda: session.run_with_iobinding(binding)


def in_turn(runs: Mapping[str, Run], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of every run of each, taken in turn for about `seconds` in all."""
    times: dict[str, list[float]] = {n: [] for n in runs}
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end or rounds < FEWEST_RUNS:
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
        rounds += 1
    return times


def quartiles(times: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile."""
    low, middle, high = statistics.quantiles(times, n=4)
    return low, middle, high


def time_row(row: Row, opset: int, threads: int, seconds: float) -> Result:
    """Both rounds of one node."""
    proto = model_of(row, opset)
    shape = (row.batch, row.channels[0], *row.sizes)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    runs = {name: prepare(data, threads, x) for name, data in forms_of(proto).items()}
    ms = {n: statistics.median(t) for n, t in in_turn(runs, seconds).items()}
    best = min((n for n in ms if n != "keep"), key=ms.__getitem__)
    two = in_turn({"keep": runs["keep"], best: runs[best]}, seconds)
    return Result(
        row=row,
        threads=threads,
        ms=ms,
        best=best,
        keep=quartiles(two["keep"]),
        best_ms=quartiles(two[best]),
        expected=expected_form(proto, threads),
        required=REQUIRED.get(row.name),
    )


def line(result: Result) -> str:
    """One row of the table."""
    keep = result.ms["keep"]
    others = sorted((t, n) for n, t in result.ms.items() if n != "keep")
    text = "  ".join(f"{n} {keep / t:.2f}x" for t, n in others[:4])
    start = f"{result.row.name:28} {result.threads}  keep {result.keep[1]:8.3f} ms"
    needs = "" if result.required is None else f" of {result.required}x"
    missed = "" if result.met else " MISSED"
    return f"{start}  {result.best:14} {result.ratio:5.2f}x{needs}{missed}  | {text}"


@click.command()
@click.option("--threads", multiple=True, type=int, default=(1, 2), show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="For one round.")
@click.option("--opset", default=OPSET, show_default=True)
@click.option("--only", default="", help="Rows whose name holds this.")
@click.option("--required", is_flag=True, help="Rows that have to reach a ratio.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(
    threads: Sequence[int],
    seconds: float,
    opset: int,
    only: str,
    required: bool,
    json_path: Path | None,
) -> None:
    """Print a table and write JSON."""
    head = environment()
    click.echo(head)
    results = []
    for row in ROWS:
        if only not in row.name or (required and row.name not in REQUIRED):
            continue
        for count in threads:
            results.append(time_row(row, opset, count, seconds))
            click.echo(line(results[-1]))
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        data = [asdict(r) | {"ratio": r.ratio, "met": r.met} for r in results]
        json_path.write_text(
            json.dumps({"environment": head, "opset": opset, "results": data}, indent=2)
        )
    if required and not all(r.met for r in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
