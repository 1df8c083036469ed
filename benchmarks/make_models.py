"""Make the large models that startup_and_size.py measures.

python benchmarks/make_models.py FOLDER --model external-500mb
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
MATRIX_SIZE = 3584
MATRIX_BYTES = MATRIX_SIZE * MATRIX_SIZE * 4
CHANNELS = 16
NODE_COUNT = 50_000
BLOCK_COUNT = 50


def upsampler(count: int, source: str) -> tuple[list[NodeProto], list[TensorProto], str]:
    """`count` times ConvTranspose by two, ReLU, and a pool that halves the size again."""
    random = np.random.default_rng(0)
    nodes, weights = [], []
    for i in range(count):
        weight = random.standard_normal((CHANNELS, CHANNELS, 4, 4)) / CHANNELS
        weights.append(numpy_helper.from_array(weight.astype(np.float32), f"up{i}.weight"))
        nodes += [
            helper.make_node(
                "ConvTranspose",
                [source, f"up{i}.weight"],
                [f"up{i}"],
                name=f"up{i}/ConvTranspose",
                strides=[2, 2],
                pads=[1, 1, 1, 1],
            ),
            helper.make_node("Relu", [f"up{i}"], [f"relu{i}"]),
            helper.make_node(
                "AveragePool", [f"relu{i}"], [f"pool{i}"], kernel_shape=[2, 2], strides=[2, 2]
            ),
        ]
        source = f"pool{i}"
    return nodes, weights, source


def make_external(folder: Path, name: str, matrices: int) -> Path:
    """A model of `matrices` MatMul weights of 49 MiB in external data, and 8 ConvTranspose."""
    nodes, weights, image = upsampler(8, "image")
    vector = "vector"
    for i in range(matrices):
        weights.append(external_matrix(f"matrix{i}", f"{name}.onnx.data", i))
        nodes.append(helper.make_node("MatMul", [vector, f"matrix{i}"], [f"vector{i}"]))
        vector = f"vector{i}"
    random = np.random.default_rng(1)
    matrix = random.standard_normal(MATRIX_SIZE**2, dtype=np.float32) / MATRIX_SIZE**0.5
    with (folder / f"{name}.onnx.data").open("wb") as file:
        for i in range(matrices):
            file.write(np.roll(matrix, i))
    graph = helper.make_graph(
        nodes,
        name,
        [value("image", (1, CHANNELS, 16, 16)), value("vector", (1, MATRIX_SIZE))],
        [value(image, (1, CHANNELS, 16, 16)), value(vector, (1, MATRIX_SIZE))],
        weights,
    )
    return write(graph, folder / f"{name}.onnx")


def external_matrix(name: str, location: str, index: int) -> TensorProto:
    """A square weight that is the `index`-th in the data file."""
    tensor = TensorProto(
        name=name,
        data_type=TensorProto.FLOAT,
        dims=[MATRIX_SIZE, MATRIX_SIZE],
        data_location=TensorProto.EXTERNAL,
    )
    entries = {"location": location, "offset": index * MATRIX_BYTES, "length": MATRIX_BYTES}
    for key, entry in entries.items():
        tensor.external_data.add(key=key, value=str(entry))
    return tensor


def make_many_nodes(folder: Path, name: str) -> Path:
    """A graph of 50,000 nodes, 50 of which are ConvTranspose."""
    nodes, weights, _ = upsampler(BLOCK_COUNT, "image")
    weights.append(numpy_helper.from_array(np.float32(0.001), "step"))
    filler = (NODE_COUNT - len(nodes)) // BLOCK_COUNT
    spread: list[NodeProto] = []
    for i in range(BLOCK_COUNT):
        spread += nodes[3 * i : 3 * i + 3]
        spread += chain_of_adds(f"pool{i}", filler)
        if i + 1 < BLOCK_COUNT:
            nodes[3 * i + 3].input[0] = spread[-1].output[0]
    graph = helper.make_graph(
        spread,
        name,
        [value("image", (1, CHANNELS, 8, 8))],
        [value(spread[-1].output[0], (1, CHANNELS, 8, 8))],
        weights,
    )
    return write(graph, folder / f"{name}.onnx")


def chain_of_adds(source: str, count: int) -> Iterator[NodeProto]:
    """`count` additions in a row."""
    before = source
    for i in range(count):
        after = f"{source}/add{i}"
        yield helper.make_node("Add", [before, "step"], [after], name=after)
        before = after


def value(name: str, shape: tuple[int, ...]) -> object:
    """A typed graph input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def write(graph: GraphProto, path: Path) -> Path:
    """Write a model file."""
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    path.write_bytes(model.SerializeToString())
    return path


MODELS: dict[str, Callable[[Path], Path]] = {
    "external-500mb": lambda folder: make_external(folder, "external-500mb", 10),
    "external-3gb": lambda folder: make_external(folder, "external-3gb", 63),
    "nodes-50000": lambda folder: make_many_nodes(folder, "nodes-50000"),
}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--model", "names", multiple=True, type=click.Choice(list(MODELS)), help="Which.")
def main(folder: Path, names: tuple[str, ...]) -> None:
    """Make models in FOLDER: all of them, or those named."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        click.echo(MODELS[name](folder))


if __name__ == "__main__":
    main()
