"""Time every form of single ConvTranspose nodes in ONNX Runtime's CPU provider.

Input and output are bound to memory of their own. All forms take turns first (A B C A B C ...),
which finds the fastest few; then each of these runs against `keep` alone (A B A B ...), since forms
that take turns push each other's memory out of the caches. The medians of the round with the best
ratio are the figures.

Each node is timed both ways, with all rounds: `alone`, as a whole graph, and `followed` by a
LeakyRelu, native and rewritten alike. Most forms end with a Reshape, which is free before another
operator and a copy where it makes the graph's output, so that `alone` charges them for what a node
inside a model does not pay. What is required is required of both, each is marked where it falls
short, and the exit code is that of `alone`. Run it on a quiet machine:

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
# So many forms have a round of their own with `keep`.
FINALISTS = 5

Run = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Timing:
    """A node's native form and its best one, alone or followed; milliseconds.

    `ms` are medians of the round of all forms, `keep` and `best_ms` of the best round of two, each
    with its quartiles.
    """

    ms: dict[str, float]
    best: str
    keep: tuple[float, float, float]
    best_ms: tuple[float, float, float]

    @property
    def ratio(self) -> float:
        """How many times faster than the native node the best form is."""
        return self.keep[1] / self.best_ms[1]


@dataclass(frozen=True, slots=True)
class Result:
    """One node on one thread count."""

    row: Row
    threads: int
    alone: Timing
    followed: Timing
    expected: str
    required: float | None

    def met(self, timing: Timing) -> bool:
        """Whether its ratio is what is required of it."""
        return self.required is None or timing.ratio >= self.required


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


def time_forms(proto: onnx.ModelProto, x: np.ndarray, threads: int, seconds: float) -> Timing:
    """All rounds of a node, alone or followed; those of two take a third of `seconds`."""
    runs = {name: prepare(data, threads, x) for name, data in forms_of(proto).items()}
    ms = {n: statistics.median(t) for n, t in in_turn(runs, seconds).items()}
    finalists = sorted(ms.keys() - {"keep"}, key=ms.__getitem__)[:FINALISTS]
    timings = []
    for name in finalists:
        two = in_turn({"keep": runs["keep"], name: runs[name]}, seconds / 3)
        timings.append(Timing(ms, name, quartiles(two["keep"]), quartiles(two[name])))
    return max(timings, key=lambda t: t.ratio)


def time_row(row: Row, opset: int, threads: int, seconds: float) -> Result:
    """One node both ways."""
    alone = model_of(row, opset)
    shape = (row.batch, row.channels[0], *row.sizes)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    return Result(
        row=row,
        threads=threads,
        alone=time_forms(alone, x, threads, seconds),
        followed=time_forms(model_of(row, opset, followed=True), x, threads, seconds),
        expected=expected_form(alone, threads),
        required=REQUIRED.get(row.name),
    )


def line(result: Result) -> str:
    """One row of the table."""
    parts = [f"{result.row.name:28} {result.threads}"]
    for name, timing in (("alone", result.alone), ("followed", result.followed)):
        missed = "" if result.met(timing) else " MISSED"
        parts.append(
            f"{name} {timing.keep[1]:8.3f} ms  {timing.best:18} {timing.ratio:5.2f}x{missed}"
        )
    if result.required is not None:
        parts.append(f"required {result.required}x")
    ms = result.alone.ms
    others = sorted((t, n) for n, t in ms.items() if n != "keep")
    parts.append("  ".join(f"{n} {ms['keep'] / t:.2f}x" for t, n in others[:4]))
    return "  | ".join(parts)


def described(result: Result) -> dict[str, object]:
    """For JSON, with what follows from the times."""
    data = asdict(result)
    for name, timing in (("alone", result.alone), ("followed", result.followed)):
        data[name] |= {"ratio": timing.ratio, "met": result.met(timing)}
    return data


@click.command()
@click.option("--threads", multiple=True, type=int, default=(1, 2), show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="For the round of all forms.")
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
    """Print a table and write JSON.

    A row: native time and best form alone, the same followed by a LeakyRelu, the ratio required,
    and the best forms of the round of all, alone.
    """
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
        data = [described(r) for r in results]
        json_path.write_text(
            json.dumps({"environment": head, "opset": opset, "results": data}, indent=2)
        )
    if required and not all(r.met(r.alone) for r in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
