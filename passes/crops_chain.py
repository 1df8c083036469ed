"""What follows a ConvTranspose, up to the last crop that its pads can take over."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import onnx_ir as ir

from convt_onnx.graph.bounds import Affine
from convt_onnx.graph.bounds_layout import NEW
from convt_onnx.graph.bounds_sizes import Sizes
from convt_onnx.graph.bounds_vectors import Vectors
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.passes.crops_passing import passage
from convt_onnx.passes.crops_reading import Cut, Reading, is_crop, read_crop, read_part
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard

# Nodes looked at behind one ConvTranspose, and behind one Shape of its output.
MAX_STEPS = 32
MAX_READERS = 256


@dataclass(slots=True)
class Step:
    """One node of the chain.

    Attributes:
        node: The node.
        output: What it makes of the value before it.
        order: Axis of the ConvTranspose that each axis of its output is; one from its rank on
            for an axis of one row that the ConvTranspose does not have.
        crops: (begin, end) by axis of the ConvTranspose that the pads take over.
        crop: Whether it is a crop.
        rest: What a Slice does besides, by axis of its input.
    """

    node: ir.Node
    output: ir.Value
    order: tuple[int, ...]
    crops: dict[int, tuple[int, int]] = field(default_factory=dict)
    crop: bool = False
    rest: dict[int, Cut] = field(default_factory=dict)

    @property
    def goes(self) -> bool:
        """Nothing is left of the node."""
        return self.crop and not self.rest

    @property
    def effective(self) -> bool:
        """The node goes, or does less."""
        return self.goes or any(b or e for b, e in self.crops.values())


class Chain:
    """The nodes behind one ConvTranspose, each the only reader of the one before."""

    def __init__(self, read: ConvTransposeNode, sizes: Sizes, vectors: Vectors, opset: int) -> None:
        self.read = read
        self.steps: list[Step] = []
        self.misses: list[Refusal] = []
        self.vectors = vectors
        self._rank = read.spec.ndim + 2
        self._known = sizes
        self._opset = opset
        self._order = tuple(range(self._rank))
        self._pinned: dict[int, str] = {}
        sizes.know(read)
        inputs = [sizes.size(read.x, a) for a in range(2, self._rank)]
        sizes.assume(inputs, [along.least_length for along in read.spec.axes()])
        self._lengths = dict(enumerate(inputs, 2))
        self._sizes = {0: sizes.size(read.x, 0), 1: Affine(read.spec.out_channels)}
        for a, (along, length) in enumerate(zip(read.spec.axes(), inputs, strict=True), 2):
            self._sizes[a] = length.times(along.stride).plus(along.offset - along.stride)
        self._dropped: dict[int, int] = {}
        self._follow()

    @property
    def rank(self) -> int:
        """Axes of the value that the next node reads."""
        return len(self._order)

    def least(self, key: Hashable) -> int | None:
        """Lower bound of a symbol in a size, None where it has none."""
        return self._known.least(key)

    def size(self, axis: int) -> Affine:
        """Size of an axis of the value that the next node reads."""
        return self._sizes[self._order[axis]]

    def values(self, end: int) -> list[ir.Value]:
        """The output of the ConvTranspose and of each step before `end`."""
        return [self.read.node.outputs[0], *(s.output for s in self.steps[:end])]

    def order(self, end: int) -> tuple[int, ...]:
        """Axis of the ConvTranspose that each axis of the value behind `end` steps is."""
        return self.steps[end - 1].order if end else tuple(range(self._rank))

    def total(self, start: int, end: int) -> dict[int, tuple[int, int]]:
        """(begin, end) that steps drop, by axis of the ConvTranspose."""
        sums = dict.fromkeys(range(self._rank), (0, 0))
        for step in self.steps[start:end]:
            for axis, (begin, back) in step.crops.items():
                before = sums.get(axis, (0, 0))
                sums[axis] = (before[0] + begin, before[1] + back)
        return sums

    def _follow(self) -> None:
        value = self.read.node.outputs[0]
        while len(self.steps) < MAX_STEPS:
            node = self._next(value)
            if node is None:
                return
            step = self._crop(node) if is_crop(node) else self._pass(node, value)
            if step is None:
                return
            self.steps.append(step)
            value = step.output

    def _next(self, value: ir.Value) -> ir.Node | None:
        """The only reader besides Shape."""
        users = [u for u in value.uses() if not _is_shape(u.node)]
        cropped = any(is_crop(u.node) and u.idx == 0 for u in users)
        refusal = None
        if value.is_graph_output():
            refusal = Refusal("CT402", f"{value.name!r}")
        elif len(users) > 1:
            refusal = Refusal("CT401", f"{value.name!r} has {len(users)} readers")
        elif users and users[0].node.graph is not self.read.node.graph:
            refusal = Refusal("CT410", f"{value.name!r}")
        if refusal is not None:
            if cropped:
                self.misses.append(refusal)
            return None
        if not users or (is_crop(users[0].node) and not cropped):
            return None
        return users[0].node

    def _pass(self, node: ir.Node, value: ir.Value) -> Step | None:
        own = [self.size(axis) for axis in range(self.rank)]
        found = passage(node, value, own, self._known, self._opset)
        if found is None:
            return None
        self._order = tuple(self._new_axis() if i == NEW else self._order[i] for i in found.order)
        for axis in found.pinned:
            self._pinned.setdefault(self._order[axis], node.op_type)
        return Step(node, node.outputs[0], self._order)

    def _new_axis(self) -> int:
        axis = len(self._sizes)
        self._sizes[axis] = Affine(1)
        return axis

    def _crop(self, node: ir.Node) -> Step | None:
        reading = read_crop(node, self)
        if isinstance(reading, Refusal):
            self.misses.append(reading)
        if reading is None or isinstance(reading, Refusal):
            return None
        folded: dict[int, tuple[int, int]] = {}
        kept = dict(reading.kept)
        for axis, (begin, end) in reading.crops.items():
            refusal = self._refusal(self._order[axis], begin, end)
            if refusal is None:
                folded[axis] = (begin, end)
            else:
                kept[axis] = refusal
        return self._step(node, reading, folded, kept)

    def _step(
        self,
        node: ir.Node,
        reading: Reading,
        folded: dict[int, tuple[int, int]],
        kept: dict[int, Refusal],
    ) -> Step | None:
        self.misses += kept.values()
        if kept and not reading.cuts:
            return None
        rest = {axis: reading.cuts[axis] for axis in kept}
        open_bounds = any(None in (c.start, c.end, c.step) for c in rest.values())
        if open_bounds and any(b or e for b, e in folded.values()):
            self.misses.append(Refusal("CT414", f"axes {sorted(kept)}"))
            folded = {}
        step = Step(node, read_part(node), self._order, crop=True, rest=rest)
        for axis in kept:
            self._pin(axis, node)
        for axis, (begin, end) in reading.crops.items():
            if axis in folded:
                self._drop(step, self._order[axis], begin, end)
            elif axis not in kept:
                step.rest[axis] = reading.cuts[axis]
                self._pin(axis, node)
        return step

    def _pin(self, axis: int, node: ir.Node) -> None:
        """Later crops of an axis stay behind what this node does to it."""
        self._pinned.setdefault(self._order[axis], node.op_type)
        self._sizes[self._order[axis]] = self._known.size(node.outputs[0], axis)

    def _drop(self, step: Step, axis: int, begin: int, end: int) -> None:
        step.crops[axis] = (begin, end)
        self._dropped[axis] = self._dropped.get(axis, 0) + begin + end
        self._sizes[axis] = self._sizes[axis].plus(-begin - end)

    def _refusal(self, axis: int, begin: int, end: int) -> Refusal | None:
        """Why the pads cannot take over a crop of an axis of the ConvTranspose."""
        if not begin and not end:
            return None
        if not 2 <= axis < self._rank:
            where = ("batch", "channels")[axis] if axis < 2 else "an axis that was added"
            return Refusal("CT404", where)
        if axis in self._pinned:
            return Refusal("CT411", f"{self._pinned[axis]} on axis {axis}")
        left = self._smallest(axis) - self._dropped.get(axis, 0) - begin - end
        return Refusal("CT407", f"{left} rows on axis {axis}") if left < 1 else None

    def _smallest(self, axis: int) -> int:
        """Rows of the uncropped output for the smallest input that gives any."""
        along = tuple(self.read.spec.axes())[axis - 2]
        length = self._lengths[axis].lower(self.least) or 1
        if self._lengths[axis].value is None:
            length = max(length, along.least_length)
        return along.output_length(length)

    def readers_go(self, end: int) -> bool:
        """Whether each Shape of a value that changes is read for bounds that go with the steps."""
        gone = {s.node for s in self.steps[:end] if s.goes or (s.crop and s.effective)}
        pending = [u.node for v in self.values(end - 1) for u in v.uses() if _is_shape(u.node)]
        seen: set[ir.Node] = set()
        while pending:
            node = pending.pop()
            if node in gone or node in seen:
                continue
            seen.add(node)
            if len(seen) > MAX_READERS or any(o.is_graph_output() for o in node.outputs):
                return False
            if any(isinstance(a.value, ir.Graph) for a in node.attributes.values()):
                return False
            pending += [u.node for o in node.outputs for u in o.uses()]
        return True


def _is_shape(node: ir.Node) -> bool:
    return is_standard(node, "Shape")
