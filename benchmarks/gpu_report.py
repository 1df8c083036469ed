"""Table and plot of what gpu_shapes.py measured.

PYTHONPATH=. python benchmarks/gpu_report.py shapes.json --plot shapes.svg
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu_suites import FLAGGEMS, FLAGGEMS_US

LAYOUTS = ("nchw", "nhwc")
SLACK = 1.03  # a row this much slower than the library still counts as level
FIRST_SUITE = {row.name for row in FLAGGEMS}
# Rows whose launch is a large part, and what they are to take: so much more than a launch of
# nothing, or so many times the floor, whichever is larger.
SMALL, SMALL_MODES = ("1", "2", "6", "7", "8", "9"), ("float16", "bfloat16")
OVER_EMPTY_US, OVER_FLOOR = 4.0, 2.5
Row = dict[str, Any]


def geometric(values: Iterable[float]) -> float:
    """Geometric mean."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def best(row: Row, who: str) -> float:
    """Microseconds in the better layout."""
    return min(row.get(f"{who}_{layout}", math.inf) for layout in LAYOUTS)


def routed(row: Row) -> float:
    """What the operator takes in the better layout: the kernel where it is worth it, or cuDNN."""
    who = {layout: "ours" if row[f"worth_{layout}"] else "cudnn" for layout in LAYOUTS}
    return min(row.get(f"{who[layout]}_{layout}", math.inf) for layout in LAYOUTS)


def table(rows: list[Row]) -> str:
    """Markdown, microseconds; cold in brackets."""
    lines = [
        "| row | type | floor | cuDNN NCHW | cuDNN NHWC | ours NCHW | ours NHWC | FlagGems |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row["row"], row["mode"], f"{row['floor']:.1f}"]
        for who in ("cudnn", "ours"):
            cells += [_cell(row, f"{who}_{layout}") for layout in LAYOUTS]
        cells.append(str(FLAGGEMS_US.get(row["row"], {}).get(row["mode"], "-")))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(rows: list[Row]) -> str:
    """Means and the rows that miss, a line each."""
    lines = []
    for mode in dict.fromkeys(r["mode"] for r in rows):
        for name, first in (("FlagGems rows", True), ("deployed rows", False)):
            found = [r for r in rows if r["mode"] == mode and (r["row"] in FIRST_SUITE) == first]
            found = [r for r in found if "cudnn_nchw" in r]
            means = [
                geometric(r["cudnn_nchw"] / r[f"ours_{o}"] for r in found if f"ours_{o}" in r)
                for o in LAYOUTS
            ]
            behind = [r["row"] for r in found if routed(r) > SLACK * best(r, "cudnn")]
            unrouted = [r["row"] for r in found if best(r, "ours") > SLACK * best(r, "cudnn")]
            lines.append(
                f"{name}, {mode}: over cuDNN NCHW {means[0]:.2f} (NCHW), {means[1]:.2f} (NHWC); "
                f"behind the best cuDNN with the router: {', '.join(behind) or 'none'}; "
                f"without: {', '.join(unrouted) or 'none'}"
            )
    return "\n".join(lines)


def report(content: dict[str, Any]) -> str:
    """Everything as text."""
    parts = [content["device"], table(content["rows"]), summary(content["rows"])]
    parts.append(small_rows(content))
    parts += [_epilogue(e) for e in content["epilogue"]]
    return "\n\n".join(parts)


def small_rows(content: dict[str, Any]) -> str:
    """The small rows of 2-byte types against what is aimed at, a line each."""
    empty = {int(programs): time for programs, time in content["empty"].items()}
    launch = min(empty.values())
    each = ", ".join(f"{programs} programs {time:.2f}" for programs, time in empty.items())
    lines = [f"an empty launch, us: {each}"]
    for row in content["rows"]:
        if (
            row["row"].split()[0] in SMALL
            and row["row"] in FIRST_SUITE
            and row["mode"] in SMALL_MODES
        ):
            aim = max(launch + OVER_EMPTY_US, OVER_FLOOR * row["floor"])
            times = [f"{o.upper()} {row[f'ours_{o}']:.2f}" for o in LAYOUTS]
            lines.append(f"{row['row']} {row['mode']}: aim {aim:.2f}, {', '.join(times)}")
    return "\n".join(lines)


def _epilogue(e: dict[str, Any]) -> str:
    cells = []
    for state in ("", "_cold"):
        if f"bare{state}" in e:
            bare = e[f"bare{state}"]
            relu, added = (e[f"{k}{state}"] / bare for k in ("bias_relu", "bias_relu_residual"))
            cells.append(
                f"{state[1:] or 'warm'} bare {bare:.1f} us, bias and Relu {_percent(relu)}, with "
                f"residual {_percent(added)}, over its bytes {_percent(added / e['bytes'])}"
            )
    head = f"epilogue {e['row']} {e['layout']}: a residual's bytes {_percent(e['bytes'])}"
    return "; ".join([head, *cells])


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def plot(rows: list[Row], path: Path) -> None:
    """Achieved fraction of the floor, a bar each for cuDNN and the kernels in the better layout."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    modes = list(dict.fromkeys(r["mode"] for r in rows))
    figure, axes = plt.subplots(1, len(modes), figsize=(4 * len(modes), 10), sharex=True)
    for axis, mode in zip([axes] if len(modes) == 1 else axes, modes, strict=True):
        found = [r for r in rows if r["mode"] == mode]
        places = range(len(found))
        for offset, who, label in ((0.2, "cudnn", "cuDNN"), (-0.2, "ours", "this project")):
            share = [100 * r["floor"] / best(r, who) for r in found]
            axis.barh([p + offset for p in places], share, height=0.4, label=label)
        axis.set_yticks(list(places), [r["row"] for r in found], fontsize=6)
        axis.invert_yaxis()
        axis.set_title(mode)
        axis.set_xlabel("floor / time, %")
    figure.legend(*axis.get_legend_handles_labels(), loc="lower center", ncols=2)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, metadata={"Date": None})


def _cell(row: Row, key: str) -> str:
    if key not in row:
        return "-"
    cold = row.get(f"{key}_cold")
    return f"{row[key]:.1f}" + ("" if cold is None else f" ({cold:.1f})")


def main() -> None:
    """Print the report and write the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    content = json.loads(args.json.read_text())
    print(report(content))
    if args.plot:
        plot(content["rows"], args.plot)


if __name__ == "__main__":
    main()
