"""Where the labels of a plot's marks go, so that they hide neither marks nor each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Pixels: the narrowest plot, from a mark to its label's far side, a letter, and half a mark.
NARROW, FAR, LETTER, HALF_MARK = 300, 22, 7, 6
# From a mark to its label's near side, above and below or beside it; half a line of text.
NEAR, BESIDE, HALF_LINE = 8, 9, 7
# From a mark's middle down to the line that its label stands on: above, below and beside it.
UP, DOWN, LEVEL = -10, 20, 5
# In percent of the width: where a label may reach over the plot's edge to one side alone.
EDGE = 10


@dataclass(frozen=True, slots=True)
class Point:
    """A mark: x in percent, y in pixels from the top, where its tail ends, and its label."""

    x: float
    y: float
    tail: float | None
    label: str


@dataclass(frozen=True, slots=True)
class Place:
    """How far a label is from its mark, in pixels, and which end of its text is there."""

    dx: int
    dy: int
    anchor: str


ABOVE = Place(0, UP, "middle")


@dataclass(frozen=True, slots=True)
class Box:
    """In pixels of the narrowest plot."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether two boxes overlap."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def place_labels(points: Sequence[Point], height: int) -> list[Place]:
    """One for each point: above it, else wherever its label covers least."""
    marks = [_marked(p) for p in points]
    labels: list[Box] = []
    result = []
    for i, point in enumerate(points):
        taken = [b for j, boxes in enumerate(marks) if j != i for b in boxes] + labels
        options = _options(point, height)
        best = min(options, key=lambda option: sum(map(option[1].meets, taken)))
        result.append(best[0])
        if point.label:
            labels.append(best[1])
    return result


def _marked(point: Point) -> list[Box]:
    x, y = point.x / 100 * NARROW, point.y
    boxes = [Box(x - HALF_MARK, y - HALF_MARK, x + HALF_MARK, y + HALF_MARK)]
    if point.tail is not None:
        boxes.append(Box(x - 1, min(y, point.tail), x + 1, max(y, point.tail)))
    return boxes


def _options(point: Point, height: int) -> list[tuple[Place, Box]]:
    """Above, below, right, left, as far as they are on the plot."""
    x, y, width = point.x / 100 * NARROW, point.y, LETTER * len(point.label)
    anchor = "end" if point.x > 100 - EDGE else "start" if point.x < EDGE else "middle"
    left = {"end": x - width, "start": x, "middle": x - width / 2}[anchor]
    options = [(Place(0, UP, anchor), Box(left, y - FAR, left + width, y - NEAR))]
    if y + FAR <= height:
        options.append((Place(0, DOWN, anchor), Box(left, y + NEAR, left + width, y + FAR)))
    if x + BESIDE + width <= NARROW:
        box = Box(x + BESIDE, y - HALF_LINE, x + BESIDE + width, y + HALF_LINE)
        options.append((Place(BESIDE, LEVEL, "start"), box))
    if x - BESIDE - width >= 0:
        box = Box(x - BESIDE - width, y - HALF_LINE, x - BESIDE, y + HALF_LINE)
        options.append((Place(-BESIDE, LEVEL, "end"), box))
    return options
