"""The page's bar charts: places in percent of the width and in pixels of the height.

Everything is computed from the report's JSON document, so that both show the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convt_onnx.report.as_json import Document
from convt_onnx.report.units import count_text, time_text

# What is left of the width for the longest bar; its value is written behind it.
BAR_WIDTH = 74.0
# Times the longest bar; a quartile beyond is cut there.
MAX_WHISKER = 1.4
LABEL_HEIGHT, BAR_HEIGHT, BAR_GAP, GROUP_GAP = 20, 14, 3, 14


@dataclass(frozen=True, slots=True)
class Bar:
    """One value; `low` and `high` are its quartiles, in percent like `width`."""

    series: str
    value: float
    text: str
    y: int
    width: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one node or model, under its label."""

    label: str
    y: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bars on a linear scale from 0; `unit` is what their values count."""

    id: str
    title: str
    description: str
    unit: str
    height: int
    groups: tuple[Group, ...]
    left_out: int


# Series, value, quartiles.
Value = tuple[str, float, float | None, float | None]


def time_bars(document: Document, limit: int) -> BarChart | None:
    """Time of each node before and after; None where no node was timed."""
    nodes = [n for n in document["nodes"] if n["before"] and n["after"]]
    nodes.sort(key=lambda n: -n["before"]["median_us"])
    groups = [
        (_node_label(n), [_timing(s, n[s]) for s in ("before", "after")]) for n in nodes[:limit]
    ]
    return _bars(
        "time-per-node",
        "Time per node, before and after",
        "Median wall time of one call of each ConvTranspose as it was and in the form taken; "
        "the thin line spans the quartiles. Shorter is faster.",
        "µs",
        groups,
        max(0, len(nodes) - limit),
    )


def work_bars(document: Document, limit: int) -> BarChart | None:
    """Multiply-adds of each node before and after; None where no node's work is known."""
    groups = []
    for node in document["nodes"]:
        work = {c["form"]: c["macs"] for c in node["candidates"] if c["macs"] is not None}
        form = node["form"] or "keep"
        if node["costs"] and form in work:
            values: list[Value] = [
                ("before", node["costs"]["flops_native"], None, None),
                ("after", 2 * work[form], None, None),
            ]
            groups.append((_node_label(node), values))
    groups.sort(key=lambda g: -g[1][0][1])
    return _bars(
        "work-per-node",
        "Work per node, before and after",
        "Floating-point operations of one call of each ConvTranspose as it was (matrix product "
        "and col2im) and in the form taken, zero taps counted. Less work is not always less time.",
        "FLOP",
        groups[:limit],
        max(0, len(groups) - limit),
    )


def model_bars(document: Document) -> BarChart | None:
    """Time of each whole model for each set of input sizes; None where none was timed."""
    inputs = list(dict.fromkeys(r["inputs"] for m in document["models"] for r in m["runs"]))
    runs = [(r["inputs"], m["label"], r["time"]) for m in document["models"] for r in m["runs"]]
    groups: list[tuple[str, list[Value]]]
    if document["run"] == "optimize":
        groups = [(i, [_timing(label, t) for j, label, t in runs if i == j]) for i in inputs]
    else:
        first = document["models"][0]["label"]
        groups = [
            (
                label if len(inputs) == 1 else f"{label} · {text}",
                [_timing("before" if label == first else "after", time)],
            )
            for text, label, time in sorted(runs, key=lambda run: inputs.index(run[0]))
        ]
    return _bars(
        "time-per-model",
        "Time of the whole model",
        "Median wall time of one run of each whole model, taken in turns; the thin line spans "
        "the quartiles. Shorter is faster.",
        "µs",
        groups,
        0,
    )


def _timing(series: str, time: Document) -> Value:
    return series, time["median_us"], time["low_us"], time["high_us"]


def _node_label(node: Document) -> str:
    at = f" · {node['inputs']}" if node["inputs"] else ""
    return f"{node['number']}. {node['path']}{at}"


def _bars(
    id: str,
    title: str,
    description: str,
    unit: str,
    groups: Sequence[tuple[str, Sequence[Value]]],
    left_out: int,
) -> BarChart | None:
    if not groups:
        return None
    every = [value for _, values in groups for value in values]
    longest = max(value for _, value, _, _ in every)
    # A single slow quartile must not make all bars short.
    end = max(min(high or 0, MAX_WHISKER * longest) for _, _, _, high in every)
    scale = BAR_WIDTH / max(longest, end) if longest > 0 else 0.0
    y, drawn = 0, []
    for label, values in groups:
        bars = []
        start, y = y, y + LABEL_HEIGHT
        for series, value, low, high in values:
            text = time_text(value) if unit == "µs" else f"{count_text(value)}{unit}"
            ends = tuple(None if v is None else min(scale * v, BAR_WIDTH) for v in (low, high))
            bars.append(Bar(series, value, text, y, scale * value, ends[0], ends[1]))
            y += BAR_HEIGHT + BAR_GAP
        drawn.append(Group(label, start, tuple(bars)))
        y += GROUP_GAP
    return BarChart(id, title, description, unit, y - GROUP_GAP, tuple(drawn), left_out)
