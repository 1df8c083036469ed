"""What a report comes to, in a few words and numbers."""

from __future__ import annotations

from convt_onnx.report.as_json import Document
from convt_onnx.report.contents import Fact
from convt_onnx.report.units import NO_BREAK, percent_text, ratio_text, size_text, time_text


def verdict(document: Document) -> list[str]:
    """What came out, in a sentence or two."""
    if document["run"] == "bench":
        return [_bench_verdict(document)]
    nodes = document["nodes"]
    target = document["models"][-1]["target"]
    if not nodes and document["models"][0]["ops"].get("ConvTranspose"):
        return ["No form was chosen: the passes that were asked for do not replace nodes."]
    if not nodes:
        return ["The model has no ConvTranspose: there is nothing to do."]
    rewritten = sum(n["rewritten"] for n in nodes)
    lines = [f"{rewritten} of {len(nodes)} ConvTranspose nodes take another form on {target}."]
    if not rewritten:
        lines = [f"Every ConvTranspose stays one on {target}: {len(nodes)} of {len(nodes)}."]
    if not document["modified"]:
        lines[0] += " The original was kept, byte for byte."
    ratios = [run["speedup"] for run in document["models"][-1]["runs"]]
    if ratios:
        lines[0] += f" The whole model runs {_range_text(ratios)} as fast as before."
    proof = document["proof"]
    if proof:
        good = sum(n["check"]["ok"] for n in nodes if n["check"])
        checked = sum(n["check"] is not None for n in nodes)
        outputs = proof["outputs"]
        lines.append(
            f"{'Verified' if proof['ok'] else 'FAILED'}: "
            f"{sum(o['ok'] for o in outputs)} of {len(outputs)} outputs agree with the original, "
            f"{good} of {checked} nodes with the oracle."
        )
    return lines


def _bench_verdict(document: Document) -> str:
    models = [m for m in document["models"] if m["runs"]]
    first = models[0]
    best = max(models, key=lambda m: m["runs"][0]["speedup"])
    if best is first:
        return f"Of {len(models)} models none is faster than {first['label']}."
    speedup = ratio_text(best["runs"][0]["speedup"])
    return f"{best['label']} runs {speedup} as fast as {first['label']}."


def _range_text(ratios: list[float]) -> str:
    low, high = ratio_text(min(ratios)), ratio_text(max(ratios))
    return low if low == high else f"{low} to {high}"


def facts(document: Document) -> list[Fact]:
    """The few numbers that matter most."""
    models = document["models"]
    if document["run"] != "optimize":
        return []
    found = [
        Fact("nodes", _change([str(sum(m["ops"].values())) for m in models])),
        Fact("ConvTranspose", _change([str(m["ops"].get("ConvTranspose", 0)) for m in models])),
        Fact("size", _change([size_text(m["bytes"]) for m in models if m["bytes"] is not None])),
    ]
    times = [m["runs"][0]["time"]["median_us"] for m in models if m["runs"]]
    if times:
        found.append(Fact("time", _change([time_text(t) for t in times])))
    checks = [n["check"] for n in document["nodes"] if n["check"]]
    used = [c["error"] / c["bound"] for c in checks if c["bound"] and c["error"] is not None]
    if used:
        found.append(Fact("largest error, of what is allowed", percent_text(max(used))))
    return found


def _change(values: list[str]) -> str:
    return " → ".join(v.replace(" ", NO_BREAK) for v in dict.fromkeys(values))
