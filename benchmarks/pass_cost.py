"""Time of every pass on a 10,000-node graph with 1,000 foldable crops.

python benchmarks/pass_cost.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click
import numpy as np
import onnx
from environment import environment

from convt_onnx import model_io, pipeline
from convt_onnx.collector import collector_paused
from convt_onnx.decide import Choice
from convt_onnx.passes.base import Context
from convt_onnx.targets import get_target


def model(crops: int, fillers: int) -> onnx.ModelProto:
    """A chain of ConvTranspose, Slice and `fillers` elementwise nodes, `crops` times."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = np.random.default_rng(0).standard_normal((4, 4, 4)).astype(np.float32)
    tensors = [onnx.numpy_helper.from_array(weight, "w")]
    for name, value in (("starts", [1]), ("ends", [-1]), ("axes", [2])):
        tensors.append(onnx.numpy_helper.from_array(np.array(value), name))
    nodes, x = [], "x"
    for i in range(crops):
        nodes.append(helper.make_node("ConvTranspose", [x, "w"], [f"c{i}"], name=f"ct{i}"))
        nodes.append(helper.make_node("Slice", [f"c{i}", "starts", "ends", "axes"], [f"s{i}"]))
        x = f"s{i}"
        for j in range(fillers):
            nodes.append(helper.make_node("Relu" if j % 2 else "Abs", [x], [f"f{i}_{j}"]))
            x = f"f{i}_{j}"
    inputs = [helper.make_tensor_value_info("x", kind, ["N", 4, "T"])]
    outputs = [helper.make_tensor_value_info(x, kind, ["N", 4, None])]
    graph = helper.make_graph(nodes, "long", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@click.command()
@click.option("--crops", default=1000, show_default=True)
@click.option("--fillers", default=8, show_default=True, help="Elementwise nodes behind each.")
@click.option("--target", default="ort-cpu", show_default=True)
def main(crops: int, fillers: int, target: str) -> None:
    """Print seconds by pass, first and second run."""
    click.echo(environment())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.onnx"
        onnx.save(model(crops, fillers), path)
        loaded = model_io.load(path)
    context = Context(get_target(target), {}, Choice())
    start = time.perf_counter()
    pipeline.run((), loaded, context)
    click.echo(f"{'shape inference':18} {time.perf_counter() - start:6.2f} s")
    total = 0.0
    for cls in pipeline.PASSES:
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            with collector_paused():
                cls(context)(loaded.model)
            seconds.append(time.perf_counter() - start)
        total += seconds[0]
        changes = len(context.changes[cls.name])
        click.echo(
            f"{cls.name:18} {seconds[0]:6.2f} s, again {seconds[1]:5.2f} s, {changes} changes"
        )
    click.echo(f"{'all passes':18} {total:6.2f} s")


if __name__ == "__main__":
    main()
