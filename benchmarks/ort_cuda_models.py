"""The models that benchmarks/ort_cuda.py times: written, optimised, their kernels compiled.

Needs torch, onnxscript and Triton; no GPU. Folder/cases.json lists what was made.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from gpu_suites import SUITES, Shape
from onnx import helper, numpy_helper

from convt_onnx import ConvtError, OptimizeOptions, optimize
from convt_onnx.models import exporting, get
from convt_onnx.plugins.onnxruntime import build, kernel_file
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
    """What was made of a job: file by variant, and why others are missing."""

    suite: str
    row: str
    dtype: str
    batch: int
    files: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    chosen: list[str] = field(default_factory=list)
    seconds: float = 0.0


def jobs(suites: list[str], batches: list[int], dtypes: list[str], forms: bool) -> Iterator[Job]:
    """Everything to make."""
    for suite in suites:
        for dtype in dtypes:
            if suite == "models":
                yield from (Job(suite, n, dtype, b, False) for n in MODELS for b in batches)
            else:
                yield from (Job(suite, s.name, dtype, s.batch, forms) for s in SUITES[suite])


def prepare(
    folder: Path, wanted: list[Job], processes: int, library: Path, capabilities: list[int]
) -> list[Case]:
    """Write the models, then a library with the kernels of those with plugin nodes."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool:
        cases = pool.map(partial(make, folder), wanted, chunksize=1)
        files = [folder / c.files["plugin"] for c in cases if "plugin" in c.files]
        found = list(dict.fromkeys(w for ws in pool.map(_wanted, files, chunksize=1) for w in ws))
        compile_jobs = [(w, c) for w in found for c in capabilities]
        texts = pool.map(compile_text, compile_jobs, chunksize=1)
    build.build(library, texts)
    keys = {kernel_file.key(w.record) for w in found}
    print(f"{len(cases)} cases, {len(texts)} kernels of {len(keys)} nodes", flush=True)
    (folder / "cases.json").write_text(json.dumps([asdict(c) for c in cases], indent=1))
    return cases


def make(folder: Path, job: Job) -> Case:
    """The original, and what the target makes of it with and without the plugin."""
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
        return case
    _optimised(case, path, "standard", plugin=False)
    always = {} if job.suite == "models" else {"all": "plugin"}
    _optimised(case, path, "plugin", plugin=True, forms=always)
    for form in FORMS if job.forms else ():
        _optimised(case, path, form, forms={"ConvTranspose": form})
    case.seconds = time.perf_counter() - start
    return case


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
    except ConvtError as error:
        case.missing[variant] = str(error).splitlines()[0]
        return
    if plugin:
        case.chosen = [str(d.form) for d in result.decisions]
    case.files[variant] = output.name


def _wanted(path: Path) -> list[Any]:
    return wanted_kernels([path], (True,))


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
