"""An engine's inputs and outputs as .npz files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from convt_onnx.engine.run import LoadedEngine
from convt_onnx.model_io import check_new_file, staging
from convt_onnx.verify.inputs import read_arrays


@dataclass(frozen=True, slots=True)
class RunResult:
    """What was run: the files, and the shape of each output."""

    engine: Path
    inputs: Path
    output: Path
    shapes: dict[str, list[int]]


def run_file(engine: Path, inputs: Path, output: Path | None, *, force: bool) -> RunResult:
    """Run an engine on the arrays of a file, and write what comes out.

    Args:
        engine: The engine.
        inputs: An .npz file.
        output: Where to write; `<stem>.out.npz` beside the engine by default.
        force: Whether to replace a file that exists.

    Raises:
        UsageError: A file cannot be read or written, or the arrays do not fit.
        MissingPartError: A library or a device is missing.
    """
    out = engine.parent / f"{engine.stem}.out.npz" if output is None else output
    check_new_file(out, engine, inputs, force=force)
    arrays = {name.removeprefix("in_"): a for name, a in read_arrays(inputs).items()}
    results = LoadedEngine(engine).run(arrays)
    with staging() as stage, stage.open(out) as file:
        _write_arrays(file, results)
    shapes = {name: list(a.shape) for name, a in results.items()}
    return RunResult(engine, inputs, out, shapes)


def _write_arrays(file: BinaryIO, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """What `numpy.savez` writes, which takes no array that is called as one of its parameters."""
    with ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _savable(array), allow_pickle=False)


def _savable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """NumPy files hold no bfloat16."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array
