"""Time every form of single ConvTranspose nodes in ONNX Runtime's CPU provider.

Forms of one node are timed in turn (A B C A B C ...), so that a change of the machine's speed
meets all of them; medians and ratios to `keep` are printed. Run it on a quiet machine:

    python benchmarks/forms_cpu.py --threads 1 --threads 2 --json out.json
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from environment import environment

from convt_onnx.decide import Choice, decide
from convt_onnx.forms import FORMS, Setting
from convt_onnx.graph.node import ConvTransposeNode, find_nodes, read_node
from convt_onnx.passes.base import Context
from convt_onnx.passes.lower import Lower
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.targets import get_target


@dataclass(frozen=True, slots=True)
class Row:
    """One node: channels, one value an axis for the rest, sizes of the input."""

    name: str
    channels: tuple[int, int]
    group: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    sizes: tuple[int, ...]
    batch: int = 1
    dilation: int = 1


def _row(
    name: str,
    c: tuple[int, int],
    g: int,
    ksp: tuple[int, int, int],
    sizes: tuple[int, ...],
    d: int = 1,
) -> Row:
    n = len(sizes)
    k, s, p = ksp
    return Row(name, c, g, (k,) * n, (s,) * n, (p,) * n, sizes, dilation=d)


ROWS = (
    _row("FCN-32s g21 k64 s32", (21, 21), 21, (64, 32, 16), (16, 16)),
    _row("FCN-8s g21 k16 s8", (21, 21), 21, (16, 8, 4), (32, 32)),
    _row("FCN-8s g21 k4 s2", (21, 21), 21, (4, 2, 1), (32, 32)),
    _row("iSTFT k4096 s1024", (2050, 1), 1, (4096, 1024, 0), (44,)),
    _row("iSTFT k1024 s256", (514, 1), 1, (1024, 256, 0), (100,)),
    _row("iSTFT k16 s4", (18, 1), 1, (16, 4, 0), (2000,)),
    _row("groups 8, 128 ch k4 s2", (128, 128), 8, (4, 2, 1), (32, 32)),
    _row("groups 4, 64 ch k3 s2", (64, 64), 4, (3, 2, 1), (32, 32)),
    _row("groups 2, 64 ch k4 s2", (64, 64), 2, (4, 2, 1), (32, 32)),
    _row("depthwise 64 k4 s2", (64, 64), 64, (4, 2, 1), (48, 48)),
    _row("depthwise 512 1-D k6 s3", (512, 512), 512, (6, 3, 0), (200,)),
    _row("depthwise 512 1-D k4 s2", (512, 512), 512, (4, 2, 1), (200,)),
    _row("stride 1 k3 64 ch", (64, 64), 1, (3, 1, 1), (56, 56)),
    _row("stride 1 k3 16 ch", (16, 16), 1, (3, 1, 1), (64, 64)),
    _row("stride 1 k1 64 ch", (64, 64), 1, (1, 1, 0), (56, 56)),
    _row("stride 1 k5 1-D 64 ch", (64, 64), 1, (5, 1, 2), (400,)),
    _row("stride 1 k3 d2 32 ch", (32, 32), 1, (3, 1, 2), (56, 56), 2),
    _row("stride 1 k3 depthwise 64", (64, 64), 64, (3, 1, 1), (56, 56)),
    _row("stride 1 k3 3-D 16 ch", (16, 16), 1, (3, 1, 1), (16, 16, 16)),
    _row("HiFi-GAN 512->256 k16 s8", (512, 256), 1, (16, 8, 4), (50,)),
    _row("HiFi-GAN 256->128 k16 s8", (256, 128), 1, (16, 8, 4), (400,)),
    _row("HiFi-GAN 128->64 k4 s2", (128, 64), 1, (4, 2, 1), (3200,)),
    _row("HiFi-GAN 64->32 k4 s2", (64, 32), 1, (4, 2, 1), (6400,)),
    _row("DCGAN 512->256 k4 s2", (512, 256), 1, (4, 2, 1), (8, 8)),
    _row("DCGAN 128->3 k4 s2", (128, 3), 1, (4, 2, 1), (32, 32)),
    _row("U-Net 128->64 k2 s2", (128, 64), 1, (2, 2, 0), (64, 64)),
    _row("U-Net 32->16 k2 s2", (32, 16), 1, (2, 2, 0), (128, 128)),
    _row("k3 s2 64->32", (64, 32), 1, (3, 2, 1), (64, 64)),
    _row("FSRCNN 56->1 k9 s3", (56, 1), 1, (9, 3, 4), (64, 64)),
    _row("SAM 256->64 k2 s2", (256, 64), 1, (2, 2, 0), (64, 64)),
    _row("3-D 64->32 k2 s2", (64, 32), 1, (2, 2, 0), (16, 16, 16)),
    _row("3-D 32->16 k3 s2", (32, 16), 1, (3, 2, 1), (16, 16, 16)),
    _row("k4 s4 d3 32->32", (32, 32), 1, (4, 4, 0), (48, 48), 3),
    _row("k3 s5 32->32", (32, 32), 1, (3, 5, 0), (48, 48)),
)


def model_of(row: Row) -> onnx.ModelProto:
    """A model of that node alone, static sizes, opset 17."""
    helper = onnx.helper
    rng = np.random.default_rng(0)
    cin, cout = row.channels
    weight = rng.standard_normal((cin, cout // row.group, *row.kernel)).astype(np.float32)
    bias = rng.standard_normal(cout).astype(np.float32)
    node = helper.make_node(
        "ConvTranspose",
        ["x", "w", "b"],
        ["y"],
        name="ct",
        group=row.group,
        strides=list(row.stride),
        pads=list(row.pad) * 2,
        dilations=[row.dilation] * len(row.sizes),
    )
    kind = onnx.TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", kind, [row.batch, cin, *row.sizes])
    y = helper.make_tensor_value_info("y", kind, [None] * (2 + len(row.sizes)))
    tensors = [onnx.numpy_helper.from_array(a, n) for a, n in ((weight, "w"), (bias, "b"))]
    graph = helper.make_graph([node], "row", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def read(model: ir.Model) -> ConvTransposeNode:
    """The one node."""
    found = next(find_nodes(model))
    node = read_node(found.node, found.path, model.ir_version, {})
    if not isinstance(node, ConvTransposeNode):
        raise TypeError(node)
    return node


def forms_of(proto: onnx.ModelProto, max_work: float) -> dict[str, bytes]:
    """Each applicable form as a serialised model; far more work than `keep` is left out."""
    node = read(ir.from_proto(proto))
    setting = Setting(17)
    native = FORMS["keep"].work(node.spec, 1, [n or 1 for n in node.sizes]).macs
    models = {}
    for name, form in FORMS.items():
        if form.check(node, setting) is not None:
            continue
        if form.work(node.spec, 1, [n or 1 for n in node.sizes]).macs > max_work * native:
            continue
        model = ir.from_proto(proto)
        Lower(Context(get_target("ort-cpu"), {}, Choice({"ct": name})))(model)
        models[name] = ir.to_proto(model).SerializeToString()
    return models


def expected_form(node: ConvTransposeNode, threads: int) -> str:
    """What is taken where nothing is timed."""
    target, setting = get_target("ort-cpu"), Setting(17)
    decision = decide(node, target, setting, Choice())
    return Predictor(target, threads).applied(decision, node, setting).form or "keep"


def session(data: bytes, threads: int) -> ort.InferenceSession:
    """A session with that many threads."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def time_forms(row: Row, threads: int, seconds: float) -> dict[str, float]:
    """Median milliseconds by form, timed in turn for about `seconds` in all."""
    sessions = {n: session(m, threads) for n, m in forms_of(model_of(row), 8).items()}
    shape = (row.batch, row.channels[0], *row.sizes)
    feeds = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    for s in sessions.values():
        s.run(None, feeds)
    times: dict[str, list[float]] = {n: [] for n in sessions}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["keep"]) < 5:
        for name, s in sessions.items():
            start = time.perf_counter()
            s.run(None, feeds)
            times[name].append(time.perf_counter() - start)
    return {n: 1e3 * statistics.median(t) for n, t in times.items()}


def line(row: Row, threads: int, times: dict[str, float], chosen: str) -> str:
    """One row of the table."""
    keep = times["keep"]
    others = sorted((t, n) for n, t in times.items() if n != "keep")
    text = "  ".join(f"{n} {keep / t:.2f}x" for t, n in others[:4])
    start = f"{row.name:28} {threads}  keep {keep:8.3f} ms"
    return f"{start}  chosen {chosen:14} {keep / times[chosen]:5.2f}x  | {text}"


@click.command()
@click.option("--threads", multiple=True, type=int, default=(1, 2), show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="For one node and thread count.")
@click.option("--only", default="", help="Rows whose name holds this.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(threads: Sequence[int], seconds: float, only: str, json_path: Path | None) -> None:
    """Print a table and write JSON."""
    head = environment()
    click.echo(head)
    results = []
    for row in ROWS:
        if only not in row.name:
            continue
        node = read(ir.from_proto(model_of(row)))
        for count in threads:
            times = time_forms(row, count, seconds)
            chosen = expected_form(node, count)
            click.echo(line(row, count, times, chosen))
            results.append({"row": asdict(row), "threads": count, "ms": times, "chosen": chosen})
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps({"environment": head, "results": results}, indent=2))


if __name__ == "__main__":
    main()
