"""The sizes that nodes are timed with: what the model fixes, else what a run of it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from convt_onnx.costs import cost_shape
from convt_onnx.errors import ConvtError
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.tuning.options import SizeSet
from convt_onnx.verify.inputs import LIKELY_BATCH, LIKELY_SIZES, Inputs, candidates, from_file
from convt_onnx.verify.session import Arrays, RunError, Runner, Source
from convt_onnx.verify.twin import float32_twin, other_floats

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """What the whole model is run with, one for each set of sizes.

    Attributes:
        file: The user's arrays, which go before any sizes.
        sets: The user's sizes; one without any where there are none.
        seed: Of random inputs.
    """

    file: Path | None
    sets: tuple[SizeSet, ...]
    seed: int

    def run(self, runner: Runner) -> Iterator[tuple[Inputs, Arrays]]:
        """Inputs that a model runs on, and what it puts out.

        Raises:
            RunError: It runs on none.
            UsageError: The sizes or arrays do not fit.
        """
        if self.file is not None:
            inputs = from_file(self.file, runner.inputs)
            yield inputs, runner.run(inputs.arrays)
            return
        for sizes in self.sets:
            yield self._first_that_runs(runner, sizes)

    def _first_that_runs(self, runner: Runner, sizes: SizeSet) -> tuple[Inputs, Arrays]:
        refused: list[RunError] = []
        for inputs in candidates(
            runner.inputs,
            sizes.shapes,
            self.seed,
            open_sizes=LIKELY_SIZES,
            open_batch=LIKELY_BATCH,
        ):
            try:
                return inputs, runner.run(inputs.arrays)
            except RunError as error:
                refused.append(error)
        raise refused[0]


def node_shapes(
    source: Callable[[], Source], nodes: Sequence[ConvTransposeNode], inputs: ModelInputs
) -> list[dict[str, Shape]]:
    """Shape of x by node path, one mapping for each set of sizes.

    Args:
        source: Gives the model as it is now, whose values the nodes read.
        nodes: What is to be timed.
        inputs: What the model is run with.
    """
    known = {n.path: shape for n in nodes if (shape := _static(n)) is not None}
    assumed = {n.path: cost_shape(n)[0] for n in nodes}
    open_nodes = [n for n in nodes if n.path not in known]
    if not open_nodes:
        return [known]
    try:
        runs = list(_observed(source(), open_nodes, inputs))
    except ConvtError:
        runs = [{}]
    return [assumed | known | run for run in runs]


def _static(node: ConvTransposeNode) -> Shape | None:
    sizes = [n for n in node.sizes if n is not None]
    if node.batch is None or len(sizes) < len(node.sizes):
        return None
    return (node.batch, node.spec.in_channels, *sizes)


def _observed(
    source: Source, nodes: Sequence[ConvTransposeNode], inputs: ModelInputs
) -> Iterator[dict[str, Shape]]:
    source = float32_twin(source) if other_floats(source.proto) else source
    names = {n.path: n.x_name for n in nodes}
    runner = Runner(source, sorted(set(names.values())))
    for _, values in inputs.run(runner):
        yield {p: tuple(values[name].shape) for p, name in names.items() if name in values}
