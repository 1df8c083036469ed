"""Inputs to verify with: the user's, or seeded random ones of stated sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx import spec
from convt_onnx.errors import UsageError
from convt_onnx.suggest import did_you_mean

InputShapes = Mapping[str, tuple[int, ...]]
Described = tuple[str, str, list[int | str | None]]

MAX_ELEMENTS = 1 << 28
# Sizes to try for open spatial axes: not square and odd first, then what strided encoders need.
OPEN_SIZES = ((13, 11, 9), (20, 24, 16), (64, 96, 32), (128, 192, 64), (256, 256, 64), (512, 512))
OPEN_BATCH = 2
# The same for timing and costs, what is likely first; unlike for verification, not small.
LIKELY_SIZES = ((128, 96, 32), (64, 64, 32), (256, 256, 64), (20, 24, 16), (13, 11, 9), (512, 512))
LIKELY_BATCH = 1
TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(uint16)": np.uint16,
    "tensor(uint32)": np.uint32,
    "tensor(uint64)": np.uint64,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arrays by input name, and where they come from ("file" or "random").

    `assumed`: whether the model leaves a size open, and the user did not give it.
    """

    arrays: dict[str, npt.NDArray[Any]]
    origin: str
    assumed: bool = False

    @property
    def shapes(self) -> dict[str, list[int]]:
        """Shape of each input."""
        return {name: list(a.shape) for name, a in self.arrays.items()}

    @property
    def words(self) -> str:
        """The shapes as `x:1,3,64,64`, and whether they are the user's."""
        return sizes_text(self.shapes) + (" (assumed)" if self.assumed else "")


def sizes_text(shapes: Mapping[str, Sequence[int]]) -> str:
    """Shapes by input name, as the command line takes them."""
    return ", ".join(f"{name}:{','.join(map(str, s))}" for name, s in shapes.items())


def from_file(path: Path, described: Sequence[Described]) -> Inputs:
    """Inputs from an .npz file; keys are input names, with or without a leading `in_`.

    Raises:
        UsageError: The file cannot be read, or an input is missing.
    """
    given = read_arrays(path)
    arrays = {}
    for name, kind, _ in described:
        key = name if name in given else f"in_{name}"
        if key not in given:
            raise UsageError(
                f"{path} has no array for input {name!r}",
                where=f"it has {', '.join(given) or 'nothing'}",
                help=f"name an array {name!r}",
            )
        arrays[name] = given[key].astype(TYPES.get(kind, given[key].dtype), copy=False)
    _check(_wanted(described), {name: a.shape for name, a in arrays.items()}, str(path))
    return Inputs(arrays, "file")


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz file by name.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        data = np.load(path, allow_pickle=False)
        if not isinstance(data, np.lib.npyio.NpzFile):
            raise TypeError("an .npy file holds one array without a name")
        with data:
            return {k: data[k] for k in data.files}
    except (OSError, TypeError, ValueError, EOFError, BadZipFile) as error:
        raise UsageError(
            f"cannot read inputs from {path}",
            where=str(error),
            help="numpy.savez(FILE, NAME=array, ...) writes one; it may hold no objects",
        ) from error


def candidates(
    described: Sequence[Described],
    shapes: InputShapes,
    seed: int,
    *,
    open_sizes: Sequence[Sequence[int]] = OPEN_SIZES,
    open_batch: int = OPEN_BATCH,
) -> Iterator[Inputs]:
    """Random inputs, sizes from likely to less likely; one only where no axis is open.

    Args:
        described: The inputs.
        shapes: Sizes that are given.
        seed: Of the values.
        open_sizes: What to try for open spatial axes.
        open_batch: For an open first axis.

    Raises:
        UsageError: A shape does not fit, a type cannot be made, or the input would be too large.
    """
    _check(_wanted(described), shapes, "--input-shapes")
    given = _given_symbols(described, shapes)
    assumed = any(
        not isinstance(dim, int) and dim not in given
        for name, _, shape in described
        if name not in shapes
        for dim in shape
    )
    made = set()
    for sizes in open_sizes:
        chosen = _choose_sizes(described, shapes, sizes, open_batch)
        key = tuple(sorted(chosen.items()))
        if key in made:
            continue
        made.add(key)
        rng = np.random.default_rng(seed)
        arrays = {name: _draw(rng, name, kind, chosen[name]) for name, kind, _ in described}
        yield Inputs(arrays, "random", assumed)


def check_shapes(graph: ir.Graph, shapes: InputShapes) -> None:
    """Refuse sizes that do not fit a graph's inputs, before anything is run with them.

    Raises:
        UsageError: An input has another shape, or there is none of that name.
    """
    wanted = {value.name or "": _dims(value) for value in graph.inputs}
    _check(wanted, shapes, "--input-shapes")


def likely_shapes(graph: ir.Graph, given: InputShapes) -> tuple[InputShapes, bool]:
    """Sizes of a graph's inputs: the given ones, and likely ones for what is left open.

    Returns:
        Shapes by input name, and whether any size is a likely one.
    """
    described = [
        (value.name or "", "", [d if isinstance(d, int) else d.value for d in value.shape])
        for value in graph.inputs
        if value.name not in graph.initializers and value.shape is not None
    ]
    known = {
        symbol
        for name, _, dims in described
        for symbol, _ in zip(dims, given.get(name, ()), strict=False)
    }
    open_dims = [
        dim for name, _, dims in described if name not in given
        for dim in dims if not isinstance(dim, int)
    ]  # fmt: skip
    chosen = _choose_sizes(described, given, LIKELY_SIZES[0], LIKELY_BATCH)
    return chosen, any(dim is None or dim not in known for dim in open_dims)


def file_shapes(path: Path, graph: ir.Graph) -> InputShapes:
    """Shapes of the arrays in an .npz file, by input of the graph.

    Raises:
        UsageError: As `from_file`.
    """
    described = [
        (value.name or "", "", _dims(value))
        for value in graph.inputs
        if value.name not in graph.initializers
    ]
    return {name: array.shape for name, array in from_file(path, described).arrays.items()}


def _dims(value: ir.Value) -> list[int | str | None]:
    return [d if isinstance(d, int) else str(d.value) for d in value.shape or ()]


def _wanted(described: Sequence[Described]) -> dict[str, Sequence[int | str | None]]:
    return {name: shape for name, _, shape in described}


def _check(
    names: Mapping[str, Sequence[int | str | None]], shapes: InputShapes, where: str
) -> None:
    for name, given in shapes.items():
        if name not in names:
            raise UsageError(f"no input {name!r}", where=where, help=did_you_mean(name, names))
        if prod(given) > spec.MAX_ELEMENTS:
            raise UsageError(
                f"the shape for input {name!r} is too large for any runtime",
                where=f"{where}: {list(given)}",
                help="2^48 elements are the most",
            )
        wanted = names[name]
        fits = len(wanted) == len(given) or not wanted
        if not fits or any(
            isinstance(w, int) and w != g for w, g in zip(wanted, given, strict=False)
        ):
            raise UsageError(
                f"the shape for input {name!r} does not fit",
                where=f"{where}: {list(given)}, the model has {wanted}",
                help="the sizes must be those of the model where it fixes them",
            )


def _given_symbols(described: Sequence[Described], shapes: InputShapes) -> dict[str, int]:
    """What the given shapes make of open sizes that have a name."""
    return {
        symbol: size
        for name, _, shape in described
        for symbol, size in zip(shape, shapes.get(name, ()), strict=False)
        if isinstance(symbol, str)
    }


def _choose_sizes(
    described: Sequence[Described], shapes: InputShapes, sizes: Sequence[int], batch: int
) -> dict[str, tuple[int, ...]]:
    symbols = _given_symbols(described, shapes)
    return {
        name: shapes.get(name) or _open_shape(shape, symbols, sizes, batch)
        for name, _, shape in described
    }


def _open_shape(
    shape: Sequence[int | str | None], symbols: dict[str, int], sizes: Sequence[int], batch: int
) -> tuple[int, ...]:
    result, used = [], 0
    for axis, dim in enumerate(shape):
        if isinstance(dim, int):
            result.append(dim)
            continue
        if isinstance(dim, str) and dim in symbols:
            result.append(symbols[dim])
            continue
        size = batch if axis == 0 and len(shape) > 1 else sizes[min(used, len(sizes) - 1)]
        used += axis > 0
        if isinstance(dim, str):
            symbols[dim] = size
        result.append(size)
    return tuple(result)


def _draw(
    rng: np.random.Generator, name: str, kind: str, shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    if int(np.prod(shape, dtype=object)) > MAX_ELEMENTS:
        raise UsageError(
            f"input {name!r} would be too large to verify with",
            where=f"shape {list(shape)}",
            help="--input-shapes NAME:… for a smaller one; optimize also takes --no-verify",
        )
    dtype = TYPES.get(kind)
    if dtype is None:
        raise UsageError(
            f"cannot make a random input of type {kind}",
            where=f"input {name!r}",
            help="--inputs FILE.npz with tensors; optimize also takes --no-verify",
        )
    if dtype is np.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if np.issubdtype(dtype, np.floating):
        return np.asarray(rng.standard_normal(shape)).astype(dtype)
    if dtype in (np.int8, np.uint8):
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(info.min, info.max, shape, endpoint=True)).astype(dtype)
    return np.asarray(rng.integers(0, 8, shape)).astype(dtype)
