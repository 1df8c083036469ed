"""The report as one HTML page that loads nothing from anywhere."""

from __future__ import annotations

import math
import re
import shlex
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from convt_onnx.report.as_json import Document
from convt_onnx.report.bars import model_bars, time_bars, work_bars
from convt_onnx.report.plots import error_plot, intensity, roof, roofline_plot
from convt_onnx.report.units import (
    NO_BREAK,
    allowance_text,
    count_text,
    ratio_text,
    size_text,
    time_text,
)
from convt_onnx.report.verdict import facts, verdict
from convt_onnx.report.why_not import why_not

MAX_BYTES = 300_000
# How long lists may be; the first page that is small enough is taken.
LIMITS = (400, 150, 60, 30, 16)
MAX_BARS = 30
MAX_STRING = 240
CODE = re.compile("`([^`]+)`")
# Where a long name is broken first.
JOINT = re.compile(r"(?<=[_/.:])")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def page(document: Document) -> bytes:
    """The page of a report's JSON document, at most MAX_BYTES; long lists are cut to fit."""
    # What the package itself says of a reason is shown whole; other strings may be a model's.
    clean = _printable(document) | {"reasons": document["reasons"]}
    template = _environment().get_template("report.html")
    for limit in LIMITS:
        data = template.render(**_variables(clean, _cut(clean, limit), limit)).encode()
        if len(data) <= MAX_BYTES:
            break
    return data


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("convt_onnx.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {
        "allowance": allowance_text,
        "breakable": _breakable,
        "count": count_text,
        "marked": _marked,
        "ratio": ratio_text,
        "shell": shlex.quote,
        "shortened": _shortened,
        "size": size_text,
        "small": _small_text,
        "time": time_text,
        "why_not": why_not,
    }
    return environment


def _variables(full: Document, cut: Document, limit: int) -> Document:
    """What the template reads; `cut` is `full` with shorter lists."""
    timed = time_bars(full, min(limit, MAX_BARS))
    return {
        "d": cut,
        "full": full,
        "limit": limit,
        "timed": any(n["before"] or n["after"] for n in full["nodes"]),
        "several": any(n["inputs"] for n in full["nodes"]),
        "verdict": verdict(full),
        "facts": facts(full),
        "model_chart": model_bars(cut),
        "time_chart": timed,
        "work_chart": work_bars(full, min(limit, MAX_BARS)) if timed is None else None,
        "errors_plot": error_plot(cut),
        "roofline": roofline_plot(cut),
        "best": _best_times(cut),
        "input_sets": _input_sets(cut),
        "ops": _differing_ops(cut)[:limit],
        "bench_models": [m for m in cut["models"] if m["forms"]],
        "bench_forms": _bench_forms(cut)[:limit],
    }


def _best_times(document: Document) -> dict[int, float]:
    """Microseconds at the measured peaks, by node number."""
    peaks = document["peaks"]
    if peaks is None:
        return {}
    return {
        n["number"]: 1e6 * n["costs"]["flops_exact"] / roof(intensity(n), peaks)
        for n in document["nodes"]
        if n["costs"] and n["costs"]["flops_exact"]
    }


def _input_sets(document: Document) -> list[str]:
    return list(dict.fromkeys(r["inputs"] for m in document["models"] for r in m["runs"]))


def _differing_ops(document: Document) -> list[tuple[str, list[int]]]:
    models = document["models"]
    names = dict.fromkeys(op for m in models for op in m["ops"])
    rows = [(op, [m["ops"].get(op, 0) for m in models]) for op in names]
    return [(op, counts) for op, counts in rows if len(set(counts)) > 1]


def _bench_forms(document: Document) -> list[tuple[str, list[str | None]]]:
    models = [m for m in document["models"] if m["forms"]]
    paths = dict.fromkeys(path for m in models for path in m["forms"])
    return [(path, [m["forms"].get(path) for m in models]) for path in paths]


def _printable(value: Any) -> Any:
    """Strings cut in their middle where they are long, control characters spelt out."""
    if isinstance(value, str):
        text = value.encode("utf-8", "backslashreplace").decode()
        return CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", _shortened(text, MAX_STRING))
    if isinstance(value, dict):
        return {_printable(k): _printable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_printable(v) for v in value]
    return value


def _cut(value: Any, limit: int) -> Any:
    """Lists with no more than so many entries."""
    if isinstance(value, dict):
        return {k: _cut(v, limit) for k, v in value.items()}
    return [_cut(v, limit) for v in value[:limit]] if isinstance(value, list) else value


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 3]}…{text[-(limit - limit // 3 - 1) :]}"


def _breakable(text: str) -> Markup:
    """Text escaped, which may be broken behind the joints of its parts."""
    return Markup("<wbr>").join(JOINT.split(text))


def _marked(text: str) -> Markup:
    """Text escaped, with what stands between backticks as code; a number keeps its % sign."""
    parts = CODE.split(re.sub(r"(?<=\d) %", f"{NO_BREAK}%", text))
    return Markup().join(
        Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts)
    )


def _small_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}" if math.isfinite(value) else "∞"
