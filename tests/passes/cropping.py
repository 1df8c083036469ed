"""Models of a crop behind a ConvTranspose."""

from __future__ import annotations

import numpy as np

from ..graph.building import array, ints, model

HUGE = (1 << 63) - 1
UP = "y = ConvTranspose <strides=[2]> (x, w, b)"
UP2 = "y = ConvTranspose <strides=[2,2]> (x, w, b)"


def graph(nodes, x="float[1,3,7]", inputs="", outputs="float[] z"):
    return f"g ({x} x{inputs}) => ({outputs}) {{ {nodes} }}"


def one(nodes, x="float[1,3,7]", kernel=(5,), opset=17, **arrays):
    """x -> ConvTranspose to 4 channels -> nodes -> z."""
    weight = array(3, 4, *kernel)
    return model(graph(nodes, x), opset=opset, w=weight, b=array(4, seed=1), **arrays)


def bounds(starts, ends, axes, steps=None):
    arrays = {"s": ints(*starts), "e": ints(*ends), "a": ints(*axes)}
    return arrays if steps is None else {**arrays, "t": ints(*steps)}


def pads(applied):
    return applied.attributes["pads"], applied.attributes["output_padding"]


OF_Y = "q = Shape (y) h = Slice (q, two, three, zero)"
NUMBERS = {
    "zero": ints(0),
    "one": ints(1),
    "two": ints(2),
    "three": ints(3),
    "axis": np.array(2, np.int64),
    "scale": np.array(2, np.int64),
    "three0": np.array(3, np.int64),
}


def numbers(nodes):
    words = set(nodes.replace("(", " ").replace(")", " ").replace(",", " ").split())
    return {name: a for name, a in NUMBERS.items() if name in words}
