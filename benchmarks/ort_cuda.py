"""ONNX Runtime's CUDA provider: models as they were, and optimised with and without the plugin.

    python benchmarks/ort_cuda.py prepare --folder F --suites flaggems models deployed
    python benchmarks/ort_cuda.py share --folder F
    python benchmarks/ort_cuda.py time --folder F --json ort_cuda.json
    python benchmarks/ort_cuda.py show ort_cuda.json --svg ort_cuda.svg

Times are whole runs of a session through IOBinding, the session's own overhead included: medians
of blocks that take turns. `prepare` needs torch, onnxscript and Triton, and no GPU. TF32 is
allowed on all sides, as ONNX Runtime does by default. `share` and `time` take --budget SECONDS,
go through the cases in the order in which `prepare` was told the suites, write their file after
each case, and say what was left out.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
from environment import environment
from ort_cuda_report import FORCED, VARIANTS, print_tables, write_svg

from convt_onnx.machine import gpu, installed_version

MAX_DIFFERENCE = {"float32": 5e-3, "float16": 2e-2}
SHARES = "shares.json"
# What tells rows apart.
KEY = ("suite", "row", "dtype", "batch")
PROFILED_RUNS = 4


def main() -> None:
    """One of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    prepare = steps.add_parser("prepare")
    prepare.add_argument("--suites", nargs="+", default=["flaggems", "models", "deployed"])
    prepare.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    prepare.add_argument("--dtypes", nargs="+", default=["float32", "float16"])
    prepare.add_argument("--compute-capability", nargs="+", type=int, default=[90])
    prepare.add_argument("--rows", nargs="+", default=[], help="these alone, by their names")
    prepare.add_argument("--forms", action="store_true", help="every form of each node")
    prepare.add_argument("--processes", type=int, default=os.cpu_count())
    run = steps.add_parser("time")
    run.add_argument("--json", type=Path, required=True)
    run.add_argument("--seconds", type=float, default=0.25, help="of timing for each case")
    run.add_argument("--provider", default="CUDAExecutionProvider")
    run.add_argument("--no-graphs", action="store_true")
    for step in (prepare, run):
        step.add_argument("--folder", type=Path, required=True)
    show = steps.add_parser("show")
    show.add_argument("json", type=Path, nargs="+", help="rows of later files take the place")
    show.add_argument("--svg", type=Path)
    share = steps.add_parser("share", help="before `time`, for models: ConvTranspose's share")
    share.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    share.add_argument("--folder", type=Path, required=True)
    for step in (run, share):
        step.add_argument("--budget", type=float, default=1e9, help="seconds for everything")
    arguments = parser.parse_args()
    {"prepare": _prepare, "time": _time, "show": _show, "share": _share}[arguments.step](arguments)


def _prepare(arguments: argparse.Namespace) -> None:
    from ort_cuda_models import jobs, prepare

    arguments.folder.mkdir(parents=True, exist_ok=True)
    every = jobs(arguments.suites, arguments.batches, arguments.dtypes, arguments.forms)
    wanted = [j for j in every if not arguments.rows or j.row in arguments.rows]
    library = arguments.folder / "libconvt_ort.so"
    prepare(arguments.folder, wanted, arguments.processes, library, arguments.compute_capability)


def _time(arguments: argparse.Namespace) -> None:
    cases = json.loads((arguments.folder / "cases.json").read_text())
    end = time.monotonic() + arguments.budget
    document: dict[str, Any] = {"environment": _environment(), "rows": [], "left_out": []}
    for case in cases:
        name = f"{case['suite']} {case['row']} {case['dtype']} b{case['batch']}"
        start = time.monotonic()
        if start > end:
            document["left_out"].append(name)
            continue
        document["rows"].append(measure(case, arguments))
        _save(arguments.json, document)
        print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
        gc.collect()
    _save(arguments.json, document)
    print_tables(document)


def _save(path: Path, document: dict[str, Any]) -> None:
    """In one step: what is there is whole whenever the time runs out."""
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(document, indent=1))
    aside.replace(path)


def measure(case: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Every variant of a case: first without, then with a CUDA graph."""
    from ort_cuda_sessions import inputs_of, interleaved_us

    row: dict[str, Any] = {
        k: case[k] for k in ("suite", "row", "dtype", "batch", "same", "missing", "chosen")
    }
    row |= {"times": {}, "graph": {}, "errors": {}, "difference": {}}
    if "original" not in case["files"]:
        return row
    feeds = inputs_of(arguments.folder / case["files"]["original"])
    with ThreadPoolExecutor() as pool:
        waiting = {
            (v, g): pool.submit(_open, case, arguments, v, g) for v, g in _kinds(case, arguments)
        }
        wait(waiting.values())
    for key, graph in (("times", False), ("graph", True)):
        sessions = _warm({v: f for (v, g), f in waiting.items() if g is graph}, feeds, row, graph)
        if sessions:
            timed = interleaved_us(list(sessions.values()), arguments.seconds)
            row[key] = dict(zip(sessions, timed, strict=True))
        if not graph:
            _compare(case, row, {v: s.outputs() for v, s in sessions.items()})
    shares = arguments.folder / SHARES
    if shares.is_file():
        row["share"] = json.loads(shares.read_text()).get(case["files"]["original"])
    return row


def _kinds(case: dict[str, Any], arguments: argparse.Namespace) -> list[tuple[str, bool]]:
    """Variant, and whether with a CUDA graph."""
    graphs = not arguments.no_graphs and arguments.provider == "CUDAExecutionProvider"
    plain = [(v, False) for v in case["files"]]
    return plain + [(v, True) for v in (*VARIANTS, FORCED) if v in case["files"] and graphs]


def _open(case: dict[str, Any], arguments: argparse.Namespace, variant: str, graph: bool) -> Any:
    """Opening a session is the processor's work, and several are opened at once."""
    from ort_cuda_sessions import opened

    library = arguments.folder / "libconvt_ort.so" if variant in ("plugin", FORCED) else None
    path = arguments.folder / case["files"][variant]
    return opened(path, arguments.provider, library=library, graph=graph)


def _warm(
    waiting: dict[str, Future[Any]], feeds: Any, row: dict[str, Any], graph: bool
) -> dict[str, Any]:
    """The sessions one after the other: each one's first run times cuDNN's algorithms."""
    from ort_cuda_sessions import bound

    made = {}
    for variant, future in waiting.items():
        try:
            made[variant] = bound(future.result(), feeds)
        except Exception as error:  # onnxruntime's exceptions share no base of their own
            label = f"{variant}{' with a graph' if graph else ''}"
            row["errors"][label] = " ".join(str(error).split())[:300]
    return made


def _compare(case: dict[str, Any], row: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Largest difference to the original's outputs, over their largest value."""
    wanted = outputs.pop("original", None)
    for variant, values in outputs.items() if wanted is not None else ():
        worst = max(
            float(np.abs(v - w).max(initial=0) / max(np.abs(w).max(initial=0), 1e-6))
            for v, w in zip(values, wanted, strict=True)
        )
        row["difference"][variant] = worst
        if not worst <= MAX_DIFFERENCE[case["dtype"]]:
            row["errors"][f"{variant} differs"] = f"{worst:.2e}"


def _share(arguments: argparse.Namespace) -> None:
    """ConvTranspose's share of each original's GPU time, from profiles of waited-for launches."""
    if os.environ.get("CUDA_LAUNCH_BLOCKING") != "1":
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    end = time.monotonic() + arguments.budget
    shares: dict[str, float] = {}
    cases = json.loads((arguments.folder / "cases.json").read_text())
    wanted = [c for b in arguments.batches for c in cases if c["batch"] == b]
    for case in wanted:
        name = case["files"].get("original")
        if name is None or case["suite"] != "models":
            continue
        if time.monotonic() > end:
            print(f"{name}: left out", flush=True)
            continue
        try:
            shares[name] = conv_transpose_share(arguments.folder / name)
        except Exception as error:  # onnxruntime's exceptions share no base of their own
            print(f"{name}: {' '.join(str(error).split())[:300]}", flush=True)
            continue
        print(f"{name}: {shares[name]:.1%}", flush=True)
        (arguments.folder / SHARES).write_text(json.dumps(shares, indent=1))


def conv_transpose_share(path: Path) -> float:
    """Of one model, in the fastest of its runs."""
    import onnxruntime as ort
    from ort_cuda_sessions import inputs_of, providers

    options = ort.SessionOptions()
    options.enable_profiling = True
    options.log_severity_level = 4
    options.profile_file_prefix = str(path.with_suffix(""))
    chosen = providers("CUDAExecutionProvider", tf32=True, graph=False)
    session = ort.InferenceSession(str(path), options, providers=chosen)
    feeds = inputs_of(path)
    for _ in range(PROFILED_RUNS):
        session.run(None, feeds)
    profile = Path(session.end_profiling())
    nodes = [e for e in json.loads(profile.read_text()) if e.get("cat") == "Node"]
    profile.unlink()
    return share_of(nodes, PROFILED_RUNS)


def share_of(events: Sequence[dict[str, Any]], runs: int) -> float:
    """ConvTranspose's share in the fastest run; `events` are those of the nodes, run by run."""
    kept = [e for e in events if not e["args"]["op_name"].startswith("Memcpy")]
    each = len(kept) // runs
    slices = [kept[i * each : (i + 1) * each] for i in range(runs)]
    fastest = min(slices, key=lambda nodes: sum(e["dur"] for e in nodes))
    total = sum(e["dur"] for e in fastest)
    return float(sum(e["dur"] for e in fastest if e["args"]["op_name"] == "ConvTranspose") / total)


def _environment() -> str:
    import onnxruntime as ort

    packages = ("onnx", "onnx-ir", "numpy", "triton", "nvidia-cudnn-cu13")
    versions = environment([p for p in packages if installed_version(p)])
    return f"{gpu() or 'no GPU'}; ONNX Runtime {ort.__version__}; {versions}"


def merged(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document of several runs: a row of a later one takes the place of an earlier one's."""
    rows = {tuple(r[k] for k in KEY): r for d in documents for r in d["rows"]}
    environments = dict.fromkeys(d["environment"] for d in documents)
    left_out = [name for d in documents for name in d["left_out"]]
    return {
        "environment": "; then ".join(environments),
        "rows": list(rows.values()),
        "left_out": left_out,
    }


def _show(arguments: argparse.Namespace) -> None:
    document = merged([json.loads(path.read_text()) for path in arguments.json])
    print(document["environment"])
    print_tables(document)
    if arguments.svg is not None:
        write_svg(document, arguments.svg)


if __name__ == "__main__":
    main()
