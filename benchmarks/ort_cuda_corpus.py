"""Every model of a folder on ONNX Runtime's CUDA provider: where its nodes run, and what comes out.

    python benchmarks/ort_cuda_corpus.py prepare --folder F --models FOLDERS...
    python benchmarks/ort_cuda_corpus.py check --folder F --json corpus.json

`prepare` needs Triton and no GPU. `check` reads the provider of each node from the session's
profile and compares with the original on the CPU provider; TF32 is off on all sides. Where the
outputs are further apart than rounding, and the original's on the GPU are as far, it says so: the
providers differ then, not the models.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from convt_onnx import ConvtError, OptimizeOptions, optimize
from convt_onnx.ort.placement_check import check_placement
from convt_onnx.ort.provider import CUDA, keep_on_device
from convt_onnx.ort.registration import register
from convt_onnx.plugins.onnxruntime import build, kernel_file, store
from convt_onnx.plugins.onnxruntime.wanted import Wanted, compile_text, wanted_kernels
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.verify.compare import HALF, QUANTISED, Tolerance, compare
from convt_onnx.verify.inputs import TYPES
from convt_onnx.verify.session import Source
from convt_onnx.verify.twin import float32_twin
from convt_onnx.verify.verification import VerifyOptions, run_on_some

PROVIDERS = [(CUDA, {"use_tf32": "0"}), "CPUExecutionProvider"]
VARIANTS = ("original", "standard", "plugin")
# bfloat16 rounds to 4e-3 in every layer.
ROUGH = Tolerance(relative_atol=0.05, rtol=0.05, share=0.001)


def main() -> None:
    """Prepare or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["prepare", "check"])
    parser.add_argument("--models", nargs="+", type=Path, default=[])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--compute-capability", type=int, default=90)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.processes) as pool:
        (_prepare if arguments.step == "prepare" else _check)(arguments, pool)


def _prepare(arguments: argparse.Namespace, pool: Any) -> None:
    arguments.folder.mkdir(parents=True, exist_ok=True)
    named = [(f"{i:03}", path) for i, path in enumerate(_models(arguments.models))]
    cases = pool.map(partial(_make, arguments.folder), named, chunksize=1)
    files = [arguments.folder / c["plugin"] for c in cases if "plugin" in c]
    found = list(dict.fromkeys(w for ws in pool.map(_wanted, files, chunksize=1) for w in ws))
    stored = pool.map(_store, [(w, arguments.compute_capability) for w in found], chunksize=1)
    for why in filter(None, stored):
        print(f"! {why}")
    build.cached_library()
    (arguments.folder / "corpus.json").write_text(json.dumps(cases, indent=1))
    print(f"{len(cases)} models, {len(found)} kernels")


def _models(given: list[Path]) -> list[Path]:
    return sorted(m for g in given for m in (g.rglob("*.onnx") if g.is_dir() else [g]))


def _make(folder: Path, named: tuple[str, Path]) -> dict[str, Any]:
    number, path = named
    case: dict[str, Any] = {"model": str(path), "original": str(path.resolve()), "forms": {}}
    for variant, plugin in (("standard", False), ("plugin", True)):
        output = folder / f"{number}.{variant}.onnx"
        options = OptimizeOptions(
            target="ort-cuda",
            plugin=plugin,
            verify=False,
            force=True,
            tune=TuneOptions(enabled=False),
        )
        try:
            result = optimize(path, output, options)
        except ConvtError as error:
            case[f"no {variant}"] = str(error).splitlines()[0]
            continue
        case[variant] = output.name
        case["forms"][variant] = [d.form for d in result.decisions]
    return case


def _wanted(path: Path) -> list[Wanted]:
    return wanted_kernels([path], (False,))


def _store(job: tuple[Wanted, int]) -> str:
    """Compile a kernel into the user's cache folder; why not, where that fails."""
    wanted, capability = job
    folder = store.private_folder(store.kernel_folder())
    name = kernel_file.file_name(wanted.record, wanted.kernel, capability)
    try:
        if not (folder / name).exists():
            store.write(folder / name, compile_text(job).encode())
    except Exception as error:  # Triton's exceptions are of many kinds
        return f"not compiled: {wanted}: {error}"
    return ""


def _check(arguments: argparse.Namespace, pool: Any) -> None:
    import onnxruntime as ort

    cases = json.loads((arguments.folder / "corpus.json").read_text())
    start = time.perf_counter()
    rows = pool.map(partial(_judge, arguments.folder), cases, chunksize=1)
    document = {"onnxruntime": ort.__version__, "rows": rows}
    arguments.json.write_text(json.dumps(document, indent=1))
    for row in rows:
        for variant in VARIANTS:
            for what in row.get(variant, {}).get("problems", ()):
                print(f"{variant:9} {row['model']}: {what}")
    for variant in VARIANTS:
        print(summary(variant, [r[variant] for r in rows if variant in r]))
    print(f"{time.perf_counter() - start:.0f} s")


def summary(variant: str, found: list[dict[str, Any]]) -> str:
    """One line of what became of a variant's models."""
    away = sum(bool(f["strays"]) for f in found)
    line = (
        f"{variant}: {len(found)} models, {away} with a node off the GPU, "
        f"{sum(f['ok'] for f in found)} ran and equal the CPU provider's results"
    )
    alike = sum(f.get("as_original", False) for f in found)
    return line + (f", {alike} more the original's on the GPU" if alike else "")


def _judge(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"model": case["model"], "forms": case["forms"]}
    path = Path(case["original"])
    try:
        proto = onnx.load(path, load_external_data=False)
        feeds, wanted = _reference(Source(proto, path.parent), path)
    except (ConvtError, OSError) as error:
        row["no reference"] = str(error).splitlines()[0]
        return row
    tolerance = _tolerance(proto)
    original: dict[str, Any] = {}
    for variant in VARIANTS:
        if variant not in case:
            continue
        result, got = _run(folder / case[variant], variant, feeds)
        row[variant] = result
        if got and variant == "original":
            original = got
        if got:
            result |= judged(got, wanted, original, tolerance)
            result["problems"] += result["strays"] if variant != "original" else []
    return row


def judged(
    got: dict[str, Any], wanted: dict[str, Any], original: dict[str, Any], tolerance: Tolerance
) -> dict[str, Any]:
    """Outputs on the GPU against the CPU provider's, and against the original's on the GPU."""
    checks = [compare(n, got.get(n), w, tolerance) for n, w in wanted.items()]
    words = [f"{c.name}: {c.note or c.max_rel}" for c in checks if not c.ok]
    result = {"ok": not words, "worst": max((c.max_rel for c in checks), default=0.0)}
    if words and original and got is not original:
        alike = [compare(n, got.get(n), w, tolerance) for n, w in original.items()]
        result["as_original"] = all(c.ok for c in alike)
        worst = max(c.max_rel for c in alike)
        words.append(f"to the original on the GPU: {worst}")
    return {**result, "problems": words}


def _reference(source: Source, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs, and the original's results on the CPU provider; in float32 where it has no kernel."""
    if any(t.data_type == onnx.TensorProto.BFLOAT16 for t in source.proto.graph.initializer):
        source = float32_twin(source)
    beside = (path.with_suffix(".npz"), path.with_name("inputs.npz"))
    given = next((p for p in beside if p.is_file()), None)
    inputs, wanted = run_on_some(source, VerifyOptions(inputs=given))
    return inputs.arrays, wanted


def _run(path: Path, variant: str, feeds: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """One file on the GPU: where its nodes ran, and its outputs, none where it did not run."""
    import onnxruntime as ort

    result: dict[str, Any] = {"ok": False, "strays": [], "problems": []}
    try:
        options = _options(path, variant)
        session = ort.InferenceSession(str(path), options, providers=PROVIDERS)
        values = {i.name: _value(feeds[i.name], i.type) for i in session.get_inputs()}
        names = [o.name for o in session.get_outputs()]
        got = dict(zip(names, session.run_with_ort_values(names, values), strict=True))
        with tempfile.TemporaryDirectory() as folder:
            placement = check_placement(
                _options(path, variant), path, values, PROVIDERS, Path(folder)
            )
    except Exception as error:  # onnxruntime's exceptions share no base of their own
        result["problems"].append(" ".join(str(error).split())[:300])
        return result, {}
    kinds = [n.op_type for n in placement.nodes]
    result["kernels"] = kinds.count("FusedConvTranspose")
    result["strays"] = [f"{n.op_type} {n.name} on {n.provider}" for n, _ in placement.strays]
    return result, {n: _array(v) for n, v in got.items()}


def _options(path: Path, variant: str) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    if variant != "original":
        keep_on_device(options)
    if variant == "plugin":
        done = register(options, path, tf32=False)
        if not done.registered:
            raise RuntimeError(done.why)
    return options


def _value(array: Any, kind: str) -> Any:
    import ml_dtypes
    import onnxruntime as ort

    if kind != "tensor(bfloat16)":
        return ort.OrtValue.ortvalue_from_numpy(array.astype(TYPES.get(kind, array.dtype)))
    bits = array.astype(ml_dtypes.bfloat16).view(np.uint16)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)


def _array(value: Any) -> Any:
    if value is None or not value.is_tensor():
        return None
    if value.element_type() != onnx.TensorProto.BFLOAT16:
        return value.numpy()
    import torch

    return torch.from_dlpack(value).float().numpy()


def _tolerance(proto: onnx.ModelProto) -> Tolerance:
    kinds = {t.data_type for t in proto.graph.initializer}
    if any("QuantizeLinear" in n.op_type for n in proto.graph.node):
        return QUANTISED
    if onnx.TensorProto.BFLOAT16 in kinds:
        return ROUGH
    return HALF if onnx.TensorProto.FLOAT16 in kinds else Tolerance(relative_atol=2e-4, rtol=2e-4)


if __name__ == "__main__":
    sys.exit(main())
