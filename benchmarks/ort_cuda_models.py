"""The models that benchmarks/ort_cuda.py times: written, optimised, their kernels compiled.

Needs torch, onnxscript and Triton; no GPU. Folder/cases.json lists what was made.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from gpu_suites import SUITES as GPU_SUITES
from gpu_suites import Shape
from onnx import helper, numpy_helper
from ort_cuda_kinds import GROUPED, drawn
from ort_cuda_report import FORCED

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.models import exporting, get
from convt_onnx.plugins.onnxruntime import build
from convt_onnx.plugins.onnxruntime.wanted import compile_text, wanted_kernels
from convt_onnx.tuning.options import TuneOptions

TARGET = "ort-cuda"
OPSET = 18
DTYPES = {"float32": np.float32, "float16": np.float16}
MODELS = {
    "codec": "full",
    "dcgan": "full",
    "fcn8s": "full",
    "fsrcnn": "full",
    "hifigan": "full",
    "istft": "full",
    "mask_decoder": "full",
    "stylegan2": "full",
    "unet": "full",
    "unet3d": "full",
}
SUITES = {**GPU_SUITES, "grouped": GROUPED, "drawn": drawn()}
# What takes longest to write.
SLOW = ("fcn8s", "hifigan", "codec", "unet")
# Forms of standard operators that are timed against each other, node by node.
FORMS = ("conv", "gemm", "phases", "phases-window", "phases-split", "overlap-add", "undilate")


@dataclass(frozen=True, slots=True)
class Job:
    """One original: a node of a suite, or a decoder of models/."""

    suite: str
    row: str
    dtype: str
    batch: int
    forms: bool

    @property
    def name(self) -> str:
        """Also its file name."""
        words = (self.suite, *self.row.split(), self.dtype, f"b{self.batch}")
        return "-".join(words)


@dataclass(slots=True)
class Case:
    """What was made of a job: file by variant, which are the original's, why others are missing."""

    suite: str
    row: str
    dtype: str
    batch: int
    files: dict[str, str] = field(default_factory=dict)
    same: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    chosen: list[str] = field(default_factory=list)
    seconds: float = 0.0


def jobs(suites: list[str], batches: list[int], dtypes: list[str], forms: bool) -> Iterator[Job]:
    """Everything to make; `forms` also every form of each node."""
    for suite in suites:
        for dtype in dtypes:
            if suite == "models":
                yield from (Job(suite, n, dtype, b, False) for n in MODELS for b in batches)
            else:
                yield from (Job(suite, s.name, dtype, s.batch, forms) for s in SUITES[suite])


def prepare(
    folder: Path, wanted: list[Job], processes: int, library: Path, capabilities: list[int]
) -> list[Case]:
    """Write the models, and a library with the kernels of those with plugin nodes.

    Kernels are compiled while other models are still being written.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of each process
    cases: dict[Job, Case] = {}
    texts: dict[tuple[Any, int], Future[str]] = {}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        longest_first = sorted(wanted, key=lambda j: (j.row not in SLOW, j.suite != "models"))
        made = {pool.submit(make, folder, job): job for job in longest_first}
        for future in as_completed(made):
            job = made[future]
            cases[job], kernels = future.result()
            for compiled in ((k, c) for k in kernels for c in capabilities):
                if compiled not in texts:
                    texts[compiled] = pool.submit(compile_text, compiled)
            _say(cases[job], len(cases), len(wanted))
        build.build(library, list(_compiled(texts)))
    ordered = [cases[job] for job in wanted]
    print(f"{len(ordered)} cases, {len(texts)} kernels", flush=True)
    (folder / "cases.json").write_text(json.dumps([asdict(c) for c in ordered], indent=1))
    return ordered


def _compiled(texts: dict[tuple[Any, int], Future[str]]) -> Iterator[str]:
    """Those that compile; a session that misses one says so."""
    for (wanted, capability), text in texts.items():
        try:
            yield text.result()
        except Exception as error:  # Triton's exceptions are of many kinds
            print(f"! not compiled for {capability}: {wanted}: {error}", flush=True)


def _say(case: Case, count: int, total: int) -> None:
    line = f"{count}/{total} {case.suite} {case.row} {case.dtype} b{case.batch}"
    print(f"{line}: {case.seconds:.1f} s {case.missing or ''}", flush=True)


def make(folder: Path, job: Job) -> tuple[Case, list[Any]]:
    """The original, what the target makes of it with and without the plugin, and its kernels."""
    start = time.perf_counter()
    case = Case(job.suite, job.row, job.dtype, job.batch)
    path = folder / f"{job.name}.onnx"
    try:
        if job.suite == "models":
            size = {**get(job.row).size(MODELS[job.row]), "batch": job.batch}
            exporting.export(job.row, path, size, dtype=job.dtype)  # type: ignore[arg-type]
        else:
            onnx.save(node_model(_shape(job), job.dtype), path)
        case.files["original"] = path.name
    except Exception as error:  # torch's exporters raise classes of their own
        case.missing["original"] = " ".join(str(error).split())[:200]
        return case, []
    _optimised(case, path, "standard")
    _optimised(case, path, "plugin", plugin=True)
    if job.suite != "models" and set(case.chosen) - {"plugin"}:
        _optimised(case, path, FORCED, plugin=True, forms={"all": "plugin"})
    for form in FORMS if job.forms else ():
        _optimised(case, path, form, forms={"ConvTranspose": form})
    plugged = [folder / case.files[v] for v in ("plugin", FORCED) if v in case.files]
    kernels = wanted_kernels(plugged, (True,)) if plugged else []
    case.seconds = time.perf_counter() - start
    return case, kernels


def _optimised(
    case: Case,
    path: Path,
    variant: str,
    *,
    plugin: bool = False,
    forms: Mapping[str, str] = MappingProxyType({}),
) -> None:
    output = path.with_name(f"{path.stem}.{variant}.onnx")
    options = OptimizeOptions(
        target=TARGET,
        plugin=plugin,
        forms=forms,
        verify=False,
        force=True,
        tune=TuneOptions(enabled=False),
    )
    try:
        result = optimize(path, output, options)
    except Exception as error:  # one case must not take the others with it
        case.missing[variant] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return
    if variant == "plugin":
        case.chosen = [str(d.form) for d in result.decisions]
    if result.modified:
        case.files[variant] = output.name
    else:
        case.same.append(variant)


def _shape(job: Job) -> Shape:
    return next(s for s in SUITES[job.suite] if s.name == job.row)


def node_model(row: Shape, dtype: str) -> onnx.ModelProto:
    """One ConvTranspose with bias and fixed sizes."""
    spec, rng = row.spec, np.random.default_rng(0)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[dtype]))
    scale = (spec.in_per_group * np.prod(spec.kernel) / np.prod(spec.strides)) ** -0.5
    w = (rng.standard_normal(spec.weight_shape) * scale).astype(DTYPES[dtype])
    b = rng.standard_normal(spec.out_channels).astype(DTYPES[dtype])
    node = helper.make_node(
        "ConvTranspose",
        ["x", "w", "b"],
        ["y"],
        name="ConvTranspose",
        group=spec.group,
        kernel_shape=list(spec.kernel),
        strides=list(spec.strides),
        dilations=list(spec.dilations),
        pads=[*spec.pads_begin, *spec.pads_end],
        output_padding=list(spec.output_padding),
    )
    x_shape = [row.batch, spec.in_channels, *row.sizes]
    y_shape = [row.batch, spec.out_channels, *spec.output_sizes(row.sizes)]
    graph = helper.make_graph(
        [node],
        row.name,
        [helper.make_tensor_value_info("x", kind, x_shape)],
        [helper.make_tensor_value_info("y", kind, y_shape)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
