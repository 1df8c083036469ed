"""Tables and a plot of what benchmarks/ort_cuda.py measured."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

VARIANTS = ("original", "standard", "plugin")
# The kernel on a node that `optimize --plugin` leaves to the library by itself (CT547).
FORCED = "kernel"
# A model in which ConvTranspose takes more than this share of the GPU's time.
LARGE_SHARE = 0.3
# cuDNN takes 30 to 50 ms for this model's node with its crop behind it, and up to a hundred times
# less with the crop in its pads: means are also given without it, since it would hide the others.
OUTLIERS = frozenset({"istft"})
# Between these, two medians are taken for equal.
NOISE = 0.98
BAR, GAP, LEFT, WIDTH = 12, 10, 220, 640
COLOURS = {"standard": "#7a9cc6", "plugin": "#2f6f4f"}


def print_tables(document: dict[str, Any]) -> None:
    """One table a suite, without and with CUDA graphs, geometric means, what is missing.

    The last column has the fastest other forms, and the kernel where the rules do not take it.
    """
    rows = document["rows"]
    for suite in dict.fromkeys(r["suite"] for r in rows):
        found = [r for r in rows if r["suite"] == suite]
        for key, title in (("times", "IOBinding"), ("graph", "IOBinding and CUDA graph")):
            if any(r[key] for r in found):
                _print_table(f"{suite}, {title}", found, key)
    for row in rows:
        for what, why in row["errors"].items():
            print(f"! {_label(row)}: {what}: {why}")
        for variant, why in row["missing"].items():
            print(f"! {_label(row)}: {variant} not made: {why}")
    for name in document["left_out"]:
        print(f"! {name}: left out, no time")


def _print_table(title: str, rows: Sequence[dict[str, Any]], key: str) -> None:
    head = ["row", "type", "batch", "original", "standard", "x", "plugin", "x", "share", "forms"]
    lines = [_cells(row, key) for row in rows]
    # Without the last ones where they say nothing.
    used = [i for i in range(len(head)) if i < len(head) - 2 or any(c[i] for c in lines)]
    print(f"\n{title} (microseconds)\n")
    for cells in (head, ["---"] * len(head), *lines):
        print("| " + " | ".join(cells[i] for i in used) + " |")
    print()
    for variant in VARIANTS[1:]:
        _print_means(rows, variant, key)


def _cells(row: dict[str, Any], key: str) -> list[str]:
    times, share = row[key], row.get("share")
    cells = [row["row"], row["dtype"], str(row["batch"]), _us(times, "original")]
    for variant in VARIANTS[1:]:
        ratio = speed_up(row, variant, key)
        us = "same file" if variant in row["same"] else _us(times, variant)
        cells += [us, "-" if ratio is None else f"{ratio:.2f}"]
    return [*cells, "" if share is None else f"{share:.0%}", _best_forms(times)]


def _print_means(rows: Sequence[dict[str, Any]], variant: str, key: str) -> None:
    all_ratios = {_label(r): speed_up(r, variant, key) for r in rows}
    ratios = {name: r for name, r in all_ratios.items() if r is not None}
    if not ratios:
        return
    slower = [f"{name} {r:.2f}" for name, r in ratios.items() if r < NOISE]
    text = f"{variant}: geometric mean {_mean_of(rows, variant, key)}"
    text += f", lowest {min(ratios.values()):.2f}"
    large = [r for r in rows if (r.get("share") or 0) > LARGE_SHARE]
    if any(speed_up(r, variant, key) for r in large):
        text += f"; where ConvTranspose takes over 30 %: {_mean_of(large, variant, key)}"
    print(text + (f"; slower: {', '.join(slower)}" if slower else ""))


def _mean_of(rows: Sequence[dict[str, Any]], variant: str, key: str) -> str:
    """Of all rows, and without the outliers where there are any."""
    ratios = [(r["row"], x) for r in rows if (x := speed_up(r, variant, key)) is not None]
    usual = [x for name, x in ratios if name not in OUTLIERS]
    text = f"{mean(x for _, x in ratios):.2f} of {len(ratios)}"
    if 0 < len(usual) < len(ratios):
        text += f" ({mean(usual):.2f} without {', '.join(sorted(OUTLIERS))})"
    return text


def speed_up(row: dict[str, Any], variant: str, key: str) -> float | None:
    """The original's time over the variant's; 1 where the target leaves the file as it is."""
    times = row[key]
    if variant in row["same"] and "original" in times:
        return 1.0
    if "original" not in times or variant not in times:
        return None
    ratio: float = times["original"]["us"] / times[variant]["us"]
    return ratio


def mean(values: Iterable[float]) -> float:
    """Geometric."""
    found = list(values)
    return exp(sum(map(log, found)) / len(found))


def _us(times: dict[str, Any], variant: str) -> str:
    return f"{times[variant]['us']:.1f}" if variant in times else "-"


def _best_forms(times: dict[str, Any]) -> str:
    others = {v: t["us"] for v, t in times.items() if v not in VARIANTS}
    return ", ".join(f"{v} {us:.0f}" for v, us in sorted(others.items(), key=lambda p: p[1])[:3])


def _label(row: dict[str, Any]) -> str:
    return f"{row['row']} {row['dtype']} b{row['batch']}"


def write_svg(document: dict[str, Any], path: Path) -> None:
    """Bars of the speed-up over the original, one pair a row."""
    bars, y = [], 40
    for row in document["rows"]:
        ratios = {v: speed_up(row, v, "times") for v in COLOURS}
        if not any(ratios.values()):
            continue
        bars.append(_text(LEFT - 8, y + BAR, _label(row), "end"))
        for variant, ratio in ratios.items():
            if ratio is not None:
                width = min(WIDTH, 60 * ratio)
                bars.append(
                    f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" '
                    f'fill="{COLOURS[variant]}"/>'
                )
                bars.append(_text(LEFT + width + 4, y + BAR - 2, f"{ratio:.2f}", "start"))
            y += BAR
        y += GAP
    line = f'<line x1="{LEFT + 60}" y1="30" x2="{LEFT + 60}" y2="{y}" stroke="#999"/>'
    title = _text(8, 20, f"Times faster than the original: {document['environment']}", "start")
    legend = _text(LEFT, y + 16, "light: standard operators, dark: plugin", "start")
    body = "\n".join([title, line, *bars, legend])
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 80}" height="{y + 30}" '
        f'font-family="sans-serif" font-size="11">\n{body}\n</svg>\n'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'
