"""Infer the shape of every value, with ConvTranspose sizes from the caller's formula."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from onnx import GraphProto, ModelProto, NodeProto, shape_inference

from convt_onnx.errors import ConvtError
from convt_onnx.model_io.declared import (
    Dim,
    Shape,
    declare,
    declared_shapes,
    fix_inputs,
    repeated_names,
)
from convt_onnx.model_io.records import LoadedModel
from convt_onnx.model_io.skeleton import skeleton
from convt_onnx.model_io.sliced import forget_names, misnaming, name_apart
from convt_onnx.model_io.walk import graphs, is_conv_transpose

ConvTransposeShape = Callable[
    [NodeProto, Sequence[Dim] | None, Sequence[Dim] | None], Sequence[Dim] | None
]

# onnx gives a size that it cannot compute a fresh name, and carries it on to other values.
_FRESH = "unk__"
_MAX_ROUNDS = 8
_LOGGER = logging.getLogger(__name__)


def infer_shapes(
    loaded: LoadedModel,
    conv_transpose_shape: ConvTransposeShape | None = None,
    make_explicit: Callable[[NodeProto, Sequence[Dim] | None], None] | None = None,
    given: Mapping[str, Sequence[int]] | None = None,
) -> Mapping[str, Shape]:
    """Infer the shapes of the values of the main graph and its subgraphs.

    It never fails: where onnx cannot infer, the result holds what the file declares.

    Args:
        loaded: The model, as its file has it.
        conv_transpose_shape: Gives the output shape of a ConvTranspose node from the shapes
            of its input and its weight, each None if unknown; it may return None. It is
            asked only where onnx does not find every size.
        make_explicit: Rewrites the attributes of a copy of each ConvTranspose node, given the
            shape of its weight, where onnx would infer something else than runtimes compute.
        given: Sizes of inputs, which hold for every axis of the same name.

    Returns:
        By value name, a size for each axis: a number, a name or expression, or None.
    """
    try:
        work = skeleton(loaded.proto, loaded.path.parent)
    except OSError as error:
        _LOGGER.debug("no shape inference: %s", error)
        return _Resolver(loaded.proto).known()
    fix_inputs(work.graph, given or {})
    if make_explicit is not None:
        _make_explicit(work, make_explicit)
    return _inferred(work, conv_transpose_shape).known()


def _make_explicit(
    work: ModelProto, rewrite: Callable[[NodeProto, Sequence[Dim] | None], None]
) -> None:
    resolver = _Resolver(work)
    for graph in graphs(work.graph):
        for node in graph.node:
            if is_conv_transpose(node) and len(node.input) > 1:
                rewrite(node, resolver.get(node.input[1]))


def _inferred(work: ModelProto, conv_transpose_shape: ConvTransposeShape | None) -> _Resolver:
    """What onnx infers, anew each time that `conv_transpose_shape` knows sizes it does not."""
    operators = misnaming(work)
    if operators:
        forget_names(work)
    resolver = _Resolver(work)
    answers: dict[str, Shape] = {}
    for _ in range(_MAX_ROUNDS):
        try:
            inferred = shape_inference.infer_shapes(work, data_prop=False)
        except Exception as error:
            _LOGGER.debug("shape inference stopped: %s", error)
            break
        if operators and name_apart(work, inferred, operators, _FRESH):
            continue
        resolver = _Resolver(inferred)
        if conv_transpose_shape is None or not resolver.ask(conv_transpose_shape, answers):
            break
        _declare_answers(work, answers)
    return resolver


def _declare_answers(model: ModelProto, answers: Mapping[str, Shape]) -> None:
    for graph in graphs(model.graph):
        for node in graph.node:
            if is_conv_transpose(node) and node.output and node.output[0] in answers:
                declare(graph, node.output[0], answers[node.output[0]])


class _Resolver:
    """The shapes that one inference gave, and the sizes found for the fresh names in them."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self._repeated = repeated_names(model)
        self._shapes = declared_shapes(model, without=self._repeated)
        self._sizes: dict[str, Dim] = {}

    def known(self) -> dict[str, Shape]:
        """All shapes; a fresh name is replaced by the size found for it, or by None."""
        return {name: tuple(map(self._size, shape)) for name, shape in self._shapes.items()}

    def ask(self, formula: ConvTransposeShape, answers: dict[str, Shape]) -> bool:
        """Ask `formula` for what is unknown, and add what it says to `answers`.

        Returns:
            Whether another inference that knows the answers could tell more.
        """
        again = False
        for graph in graphs(self._model.graph):
            for node in graph.node:
                if is_conv_transpose(node) and len(node.input) > 1 and node.output:
                    again |= self._ask_node(graph, node, formula, answers)
        return again

    def _ask_node(
        self,
        graph: GraphProto,
        node: NodeProto,
        formula: ConvTransposeShape,
        answers: dict[str, Shape],
    ) -> bool:
        name = node.output[0]
        shape = self.get(name)
        if name in self._repeated or (shape is not None and None not in shape):
            return False
        answer = _call(formula, node, self.get(node.input[0]), self.get(node.input[1]))
        if answer is None or (shape is not None and len(answer) != len(shape)):
            return False
        is_new = answers.get(name) != answer
        answers[name] = answer
        before = self._shapes.get(name, (None,) * len(answer))
        self._shapes[name] = tuple(
            a if b is None else b for a, b in zip(answer, before, strict=True)
        )
        learnt = [size for b, size in zip(before, answer, strict=True) if self._learn(b, size)]
        # Names spread by replacing the fresh ones; numbers let onnx compute further sizes, and
        # what leaves a subgraph has a fresh name of its own outside.
        in_subgraph = graph is not self._model.graph
        return is_new and (
            self._shapes[name] != before
            or any(isinstance(size, int) or in_subgraph for size in learnt)
        )

    def _learn(self, fresh: Dim, size: Dim) -> bool:
        if size is None or not isinstance(fresh, str) or not fresh.startswith(_FRESH):
            return False
        return self._sizes.setdefault(fresh, size) == size

    def get(self, name: str) -> Shape | None:
        """The shape of a value, None where it is unknown."""
        shape = self._shapes.get(name)
        return None if shape is None else tuple(map(self._size, shape))

    def _size(self, dim: Dim) -> Dim:
        if isinstance(dim, str) and dim.startswith(_FRESH):
            return self._sizes.get(dim)
        return dim


def _call(
    formula: ConvTransposeShape, node: NodeProto, x: Shape | None, weight: Shape | None
) -> Shape | None:
    try:
        answer = formula(node, x, weight)
    except ConvtError as error:
        _LOGGER.debug("no shape for %s: %s", node.name, error)
        return None
    return None if answer is None else tuple(answer)
