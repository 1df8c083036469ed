"""What ConvTranspose's share of a run is: what goes away when its results are given.

A run has more in it than kernels: the call of the session takes most of a small model's. A profile
tells kernels apart, but adds some microseconds to each. So the model is timed against one in which
the ConvTranspose nodes are missing, and what they computed comes in through further inputs.

Both are made of what ONNX Runtime makes of the model at its basic level, which it would make of it
anyhow: functions are inlined there, constants computed, and a BatchNormalization behind a
ConvTranspose is gone into its weights, which would have to run where no ConvTranspose is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import peers
from onnx import helper

from convt_onnx.tuning.ort import OrtRuntime
from convt_onnx.tuning.race import Limits, Race
from convt_onnx.tuning.statistics import paired_ratio
from convt_onnx.verify.session import Arrays, RunError, Source

WITH, WITHOUT = "with", "without"
LEAST_ROUNDS, MAX_ROUNDS = 5, 41


@dataclass(frozen=True, slots=True)
class Given:
    """A computed value: its array, and its shape as ONNX Runtime knows it from the model."""

    array: np.ndarray[Any, Any]
    shape: Sequence[int | str | None]


def is_conv_transpose(node: onnx.NodeProto) -> bool:
    """The standard's."""
    return node.op_type == "ConvTranspose" and node.domain in ("", "ai.onnx")


def basic(path: Path, folder: Path) -> Source:
    """What ONNX Runtime makes of a file at its basic level; raises PeerError."""
    return Source(onnx.load(peers.apply("ort-basic", path, folder / "basic.onnx")), folder)


def ablation(source: Source, runtime: OrtRuntime, feeds: Arrays) -> tuple[Source, Arrays] | None:
    """The model with the results of its ConvTranspose nodes given, and its feeds.

    None where a ConvTranspose is in a subgraph: how often it runs is not in the graph.

    A value that was given becomes an input by its name, with the sizes that ONNX Runtime finds for
    it in the original: with more of them known it would compute shapes ahead of the run. Where the
    value is an output of the model, an Identity copies it there, so that the share of a model of
    one node is rather too small than too large. What nothing but a removed node reads stays, and
    ONNX Runtime computes it; what it adds around a ConvTranspose when it loads a model (from a
    blocked layout back to the standard's) goes with the node and counts into its share.

    Raises:
        RunError: ONNX Runtime does not run the model.
    """
    if any(map(is_conv_transpose, nested_nodes(source.proto.graph.node))):
        return None
    names = [n.output[0] for n in source.proto.graph.node if is_conv_transpose(n)]
    values = given_values(source, names, runtime, feeds)
    without = onnx.ModelProto()
    without.CopyFrom(source.proto)
    given = replace_nodes(without.graph, values)
    return replace(source, proto=without), {**feeds, **given}


def nested_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes of the subgraphs of these, at any depth."""
    for node in nodes:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from graph.node
                yield from nested_nodes(graph.node)


def given_values(
    source: Source, names: Sequence[str], runtime: OrtRuntime, feeds: Arrays
) -> dict[str, Given]:
    """Values of the main graph by name, computed by a model that returns them too."""
    model = onnx.ModelProto()
    model.CopyFrom(source.proto)
    present = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in present)
    session = runtime.load(replace(source, proto=model), feeds).session
    outputs = session.get_outputs()
    arrays = session.run(None, dict(feeds))
    found = {o.name: Given(a, o.shape) for o, a in zip(outputs, arrays, strict=True)}
    return {n: found[n] for n in names}


def replace_nodes(graph: onnx.GraphProto, values: Mapping[str, Given]) -> Arrays:
    """Remove the nodes that compute these values and give them as inputs; the further feeds."""
    nodes = [n for n in graph.node if not is_conv_transpose(n)]
    types = [v for v in graph.value_info if v.name not in values]
    arrays, copies = {}, []
    outputs = {o.name for o in graph.output}
    for name, value in values.items():
        fed = f"{name}__given" if name in outputs else name
        if name in outputs:
            copies.append(helper.make_node("Identity", [fed], [name]))
        kind = helper.np_dtype_to_tensor_dtype(value.array.dtype)
        graph.input.append(helper.make_tensor_value_info(fed, kind, value.shape))
        arrays[fed] = value.array
    del graph.node[:], graph.value_info[:]
    graph.node.extend([*copies, *nodes])
    graph.value_info.extend(types)
    return arrays


def run_share(
    path: Path, runtime: OrtRuntime, feeds: Arrays, seconds: float, folder: Path
) -> float | None:
    """Of ConvTranspose in a run; None where it is unknown, as `ablation` says or for an error."""
    try:
        source = basic(path, folder)
        pair = ablation(source, runtime, feeds)
        if pair is None:
            return None
        loaders = {
            WITH: partial(runtime.load, source, feeds),
            WITHOUT: partial(runtime.load, *pair),
        }
        limits = Limits(seconds, MAX_ROUNDS, LEAST_ROUNDS)
        race = Race(loaders, limits, to_the_end=True, fresh=True)
        race.run()
    except (peers.PeerError, RunError):
        return None
    return None if race.dropped else share_of(race.samples)


def share_of(samples: Mapping[str, Sequence[float]]) -> float:
    """1 - the median over rounds of without / with; 0 where noise has it below."""
    return max(0.0, 1 - paired_ratio(samples[WITHOUT], samples[WITH]).median)
