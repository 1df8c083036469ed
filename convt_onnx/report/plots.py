"""The page's scatter plots: places in percent of the width and in pixels of the height.

Everything is computed from the report's JSON document, so that both show the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from convt_onnx.report.as_json import Document
from convt_onnx.report.axes import LogAxis, Tick
from convt_onnx.report.labels import ABOVE, NARROW, Place, Point, place_labels
from convt_onnx.report.units import count_text

PLOT_HEIGHT = 280
# Marks nearer than this on a narrow screen share one label.
NEAR_PIXELS = 12


@dataclass(frozen=True, slots=True)
class Mark:
    """A point: x in percent, y in pixels from the top.

    `tail` is the y it moved from; `place` is its label's.
    """

    series: str
    x: float
    y: float
    title: str
    label: str
    tail: float | None = None
    place: Place = ABOVE


@dataclass(frozen=True, slots=True)
class Plot:
    """Marks over two logarithmic axes; `area` is shaded, `line` drawn, both in percent."""

    id: str
    title: str
    description: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    area: tuple[tuple[float, float], ...]
    line: tuple[tuple[float, float], ...]
    marks: tuple[Mark, ...]
    height: int = PLOT_HEIGHT


def error_plot(document: Document) -> Plot | None:
    """Error of each node and output over what was allowed; None where nothing was checked."""
    points = [p for p in _errors(document) if p[3] and p[4] is not None]
    if not points:
        return None
    axis = LogAxis.over([v for p in points for v in p[3:]], decades=2)
    marks = [
        Mark(
            series,
            axis.at(allowed),
            _y(axis.at(error)),
            f"{name}: error {error:.2g}, allowed {allowed:.2g}",
            label,
        )
        for series, label, name, allowed, error in points
    ]
    return Plot(
        id="error-over-tolerance",
        title="Error over tolerance",
        description=f"{len(points)} points: the largest error of each node against the float64 "
        "oracle and of each output against the original, over what was allowed. Below the "
        "diagonal is within bounds; an error of 0 lies on the bottom edge.",
        x_label="allowed",
        y_label="error",
        x_ticks=tuple(axis.ticks()),
        y_ticks=tuple(axis.ticks()),
        area=((0, 0), (100, 100), (0, 100)),
        line=((0, 0), (100, 100)),
        marks=_labelled(marks),
    )


def _errors(document: Document) -> Iterator[tuple[str, str, str, float, float]]:
    """Series, label, name, what was allowed, and the error."""
    for node in document["nodes"]:
        if check := node["check"]:
            yield "node", str(node["number"]), node["path"], check["bound"], check["error"]
    outputs = document["proof"]["outputs"] if document["proof"] else []
    for i, output in enumerate(outputs, 1):
        allowed, excess = output["allowed"], output["excess"]
        if allowed and excess is not None:
            yield "output", f"y{i}", output["name"], allowed, excess * allowed


def roofline_plot(document: Document) -> Plot | None:
    """Each node's rate over its intensity, under the machine's roof."""
    peaks = document["peaks"]
    nodes = [n for n in document["nodes"] if n["costs"] and n["costs"]["flops_exact"]]
    if not nodes or (peaks is None and not any(n["before"] for n in nodes)):
        return None
    x = LogAxis.over([intensity(n) for n in nodes], decades=2)
    rates = [rate for n in nodes for rate in _rates(n, peaks).values()]
    line: tuple[tuple[float, float], ...] = ()
    if peaks is not None:
        rates.append(peaks["flops_per_s"])
        ridge = peaks["flops_per_s"] / peaks["bytes_per_s"]
        x = LogAxis.over([10**x.low, 10**x.high, ridge])
    y = LogAxis.over(rates, decades=2)
    if peaks is not None:
        line = _roof(x, y, peaks)
    marks = [mark for n in nodes for mark in _roof_marks(n, peaks, x, y)]
    return Plot(
        id="roofline",
        title="Roofline",
        description="Useful FLOP/s of each node over its FLOPs per byte of input, weight and "
        "output"
        + (", under the roof of this machine" if peaks else "")
        + ". Higher is faster; a point near the roof has little left to gain.",
        x_label="FLOP per byte",
        y_label="FLOP/s",
        x_ticks=tuple(x.ticks()),
        y_ticks=tuple(y.ticks()),
        area=(),
        line=line,
        marks=_labelled(marks),
    )


def intensity(node: Document) -> float:
    """FLOP a byte."""
    return float(node["costs"]["flops_exact"] / node["costs"]["bytes"])


def _rates(node: Document, peaks: Document | None) -> dict[str, float]:
    """FLOP/s by series; the roof itself where the node was not timed."""
    flops = node["costs"]["flops_exact"]
    timed = {s: 1e6 * flops / node[s]["median_us"] for s in ("before", "after") if node[s]}
    if timed or peaks is None:
        return timed
    return {"bound": roof(intensity(node), peaks)}


def roof(intensity: float, peaks: Document) -> float:
    """FLOP/s that the machine allows at that intensity."""
    return float(min(peaks["flops_per_s"], peaks["bytes_per_s"] * intensity))


def _roof(x: LogAxis, y: LogAxis, peaks: Document) -> tuple[tuple[float, float], ...]:
    """The roof from edge to edge: its corner, and where it meets the bottom or the left edge."""
    top, slope = peaks["flops_per_s"], peaks["bytes_per_s"]
    left = max(10**x.low, 10**y.low / slope)
    return (
        (x.at(left), y.at(slope * left)),
        (x.at(top / slope), y.at(top)),
        (100.0, y.at(top)),
    )


def _roof_marks(node: Document, peaks: Document | None, x: LogAxis, y: LogAxis) -> Iterable[Mark]:
    tail = None
    for series, rate in _rates(node, peaks).items():
        place = _y(y.at(rate))
        title = f"{node['path']}, {series}: {count_text(rate)}FLOP/s"
        label = str(node["number"]) if series != "before" else ""
        yield Mark(series, x.at(intensity(node)), place, title, label, tail)
        tail = place


def _y(percent: float) -> float:
    return PLOT_HEIGHT * (100 - percent) / 100


def _labelled(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """Marks that lie on top of each other get one label between them, at the highest."""
    groups: list[list[int]] = []
    for i, mark in enumerate(marks):
        if mark.label:
            near = next((g for g in groups if _near(marks[g[0]], mark)), None)
            if near is None:
                groups.append([i])
            else:
                near.append(i)
    texts = {
        min(group, key=lambda i: marks[i].y): _joined([marks[i].label for i in group])
        for group in groups
    }
    points = [Point(m.x, m.y, m.tail, texts.get(i, "")) for i, m in enumerate(marks)]
    return tuple(
        replace(mark, label=point.label, place=place)
        for mark, point, place in zip(marks, points, place_labels(points, PLOT_HEIGHT), strict=True)
    )


def _near(a: Mark, b: Mark) -> bool:
    across = abs(a.x - b.x) / 100 * NARROW
    return across < NEAR_PIXELS and abs(a.y - b.y) < NEAR_PIXELS


def _joined(labels: Sequence[str]) -> str:
    text = ", ".join(labels[:3])
    return text if len(labels) <= 3 else f"{text} +{len(labels) - 3}"
