"""`optimize --target ort-cuda` with timing on the GPU, through the command line: what it takes.

    python benchmarks/ort_cuda.py prepare --folder F
    python benchmarks/ort_cuda_tuning.py --folder F --json ort_cuda_tuning.json

The originals of benchmarks/ort_cuda.py are optimised with and without `--plugin`, timed. Of each
node: the forms' times, and whether the fastest was taken. Of each model: whether what was kept made
the whole model faster while tuning, by the tuner's own margin, and the result's time against the
original's, measured anew. One more model hides a node in a chain of ten thousand activations, where
a form gains next to nothing: mostly it stays as it was (CT606).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import onnx
from environment import environment
from onnx import helper
from ort_cuda_report import mean
from ort_cuda_sessions import bound, inputs_of, interleaved_us, opened

from convt_onnx.machine import gpu, installed_version
from convt_onnx.tuning.race import MARGIN
from convt_onnx.tuning.whole import MARGIN as WHOLE_MARGIN

# What is timed twice may swap places by this much more.
NOISE = 0.03
CHAIN = 10_000
HIDDEN = "hidden"
# In order of value, for a --budget.
NAMES = (
    "flaggems-2-s2_g2-float32-b16",
    HIDDEN,
    "models-fsrcnn-float16-b8",
    "models-istft-float32-b1",
    "models-mask_decoder-float32-b8",
    "flaggems-7-s4_g2-float16-b16",
    "models-dcgan-float32-b8",
    "flaggems-8-s4_32-float32-b8",
    "models-stylegan2-float32-b1",
    "flaggems-5-s3_k5_128-float32-b4",
    "flaggems-9-s8_32-float16-b4",
    "deployed-depthwise-1-D-k4-s2-float16-b8",
    "models-codec-float16-b1",
)


def main() -> None:
    """Optimise, check, time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--tune-seconds", type=float, default=10)
    parser.add_argument("--target", default="ort-cuda")
    parser.add_argument("--provider", default="CUDAExecutionProvider")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for everything")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.budget
    versions = environment([p for p in ("onnx", "numpy", "triton") if installed_version(p)])
    document: dict[str, Any] = {"environment": f"{gpu() or 'no GPU'}; {versions}"}
    document |= {"rows": [], "left_out": []}
    _hide(arguments.folder)
    for name in arguments.names:
        for plugin in (False, True):
            if time.monotonic() > end or not (arguments.folder / f"{name}.onnx").is_file():
                document["left_out"].append(f"{name}{' --plugin' if plugin else ''}")
                continue
            row = tune(arguments, name, plugin=plugin)
            document["rows"].append(row)
            arguments.json.write_text(json.dumps(document, indent=1))
            print(words(row), flush=True)
    arguments.json.write_text(json.dumps(document, indent=1))
    ratios = [r["speed_up"] for r in document["rows"] if "speed_up" in r]
    wrong = [p for r in document["rows"] for p in r["problems"]]
    if ratios:
        print(f"{len(ratios)} models, {mean(ratios):.2f} geometric mean, {min(ratios):.2f} lowest")
    print(f"left out: {', '.join(document['left_out']) or 'nothing'}; {len(wrong)} problems")
    sys.exit(bool(wrong))


def _hide(folder: Path) -> None:
    """A node behind a chain of activations that takes some hundred times as long."""
    shown = folder / "flaggems-8-s4_32-float32-b8.onnx"
    if not shown.is_file():
        return
    model = onnx.load(shown)
    (node,), (x,) = model.graph.node, model.graph.input
    chain = [helper.make_node("Sigmoid", [f"h{i}"], [f"h{i + 1}"]) for i in range(CHAIN)]
    chain[0].input[0], node.input[0] = x.name, chain[-1].output[0]
    del model.graph.node[:]
    model.graph.node.extend([*chain, node])
    onnx.save(model, folder / f"{HIDDEN}.onnx")


def tune(arguments: argparse.Namespace, name: str, *, plugin: bool) -> dict[str, Any]:
    """One call of the command line; what it chose, and the whole model's times measured anew."""
    source = arguments.folder / f"{name}.onnx"
    made = arguments.folder / f"{name}.tuned{'.plugin' if plugin else ''}.onnx"
    command = [sys.executable, "-m", "convt_onnx", "optimize", str(source), "-o", str(made)]
    command += ["--target", arguments.target, "--force", "--json", "--tune"]
    command += ["--tune-seconds", f"{arguments.tune_seconds:g}", *(["--plugin"] if plugin else [])]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    row: dict[str, Any] = {"name": name, "plugin": plugin, "seconds": time.monotonic() - start}
    row["problems"] = []
    if done.returncode != 0:
        row["problems"].append(
            f"exit {done.returncode}: {(done.stdout + done.stderr).strip()[-600:]}"
        )
        return row
    judge(row, json.loads(done.stdout)["result"])
    _time(arguments, row, source, made)
    return row


def judge(row: dict[str, Any], result: dict[str, Any]) -> None:
    """Put what was chosen and why into the row, and what is wrong with it."""
    tuning = result["tuning"]
    row["reasons"] = {d["path"]: d["reason"]["id"] for d in result["decisions"]}
    row["forms"] = {d["path"]: d["form"] for d in result["decisions"]}
    row["verified"] = (result["verification"] or {}).get("ok")
    if tuning is None:
        row["problems"].append("nothing was timed")
        return
    row |= {k: tuning[k] for k in ("runtime", "device", "reverted", "models")}
    row["tuning_seconds"] = tuning["seconds"]
    row["nodes"] = [_node(n) for n in tuning["nodes"]]
    for node in row["nodes"]:
        fastest = min(node["us"].values())
        if node["us"][node["chosen"]] > fastest * (1 + MARGIN + NOISE):
            row["problems"].append(f"{node['path']}: {node['chosen']} is not the fastest")
    refused = {p: r for p, r in row["reasons"].items() if r in ("CT604", "CT605")}
    row["problems"] += [f"{p} was not timed: {r}" for p, r in refused.items()]
    least = min((m["ratio"] for m in row["models"]), default=float("inf"))
    if "CT602" in row["reasons"].values() and least <= 1 + WHOLE_MARGIN:
        row["problems"].append(f"a form was kept that the whole model does not gain by: {least}")


def _node(timed: dict[str, Any]) -> dict[str, Any]:
    us = {f["form"]: f["time"]["median_us"] for f in timed["forms"] if f["time"] is not None}
    why = {f["form"]: f["why"] for f in timed["forms"] if f["why"]}
    return {k: timed[k] for k in ("path", "x_shapes", "dtype", "chosen")} | {"us": us, "why": why}


def _time(arguments: argparse.Namespace, row: dict[str, Any], source: Path, made: Path) -> None:
    """The tuned model against the original, as benchmarks/ort_cuda.py times them."""
    feeds = inputs_of(source)
    names = {"original": source, "tuned": made}
    store = {"original": False, "tuned": row["plugin"]}
    sessions = [
        bound(opened(p, arguments.provider, plugin=p if store[v] else None), feeds)
        for v, p in names.items()
    ]
    row["times"] = dict(zip(names, interleaved_us(sessions, 0.25), strict=True))
    row["speed_up"] = row["times"]["original"]["us"] / row["times"]["tuned"]["us"]
    if row["speed_up"] < 1 - NOISE:
        row["problems"].append(f"slower than the original: {row['speed_up']:.2f}")


def words(row: dict[str, Any]) -> str:
    """One line, and one for each node."""
    head = f"{row['name']}{' --plugin' if row['plugin'] else ''}: {row['seconds']:.0f} s"
    if "speed_up" in row:
        head += f", {row['speed_up']:.2f} times the original's speed"
    lines = [f"  ! {p}" for p in row["problems"]]
    for node in row.get("nodes", ()):
        times = ", ".join(f"{f} {us:.0f}" for f, us in node["us"].items())
        reason = row["reasons"].get(node["path"], "")
        lines.append(f"  {node['path']} -> {node['chosen']} ({reason}): {times} us")
    ratios = [f"{timed['ratio']:.2f}" for timed in row.get("models", ())]
    lines += [f"  whole model while tuning: {r}" for r in ratios]
    return "\n".join([head, *lines])


if __name__ == "__main__":
    main()
