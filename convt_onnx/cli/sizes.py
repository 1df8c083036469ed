"""`--input-shapes`: one or several sets of sizes, with or without weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from convt_onnx.cli.options import parse_shape
from convt_onnx.errors import UsageError

if TYPE_CHECKING:
    from convt_onnx.tuning.options import SizeSet
    from convt_onnx.verify.inputs import InputShapes

OPTION = "--input-shapes"


def parse_size_sets(texts: Sequence[str]) -> tuple[SizeSet, ...]:
    """The i-th shape of each name is of the i-th set; the last one of a name stands for the rest.

    Raises:
        UsageError: A text is not NAME:sizes or NAME:sizes@weight, or a set has two weights.
    """
    from convt_onnx.tuning.options import SizeSet

    by_name: dict[str, list[tuple[tuple[int, ...], float | None]]] = {}
    for text in texts:
        name, shape, weight = _parse(text)
        by_name.setdefault(name, []).append((shape, weight))
    sets = []
    for i in range(max((len(given) for given in by_name.values()), default=1)):
        chosen = {name: given[min(i, len(given) - 1)] for name, given in by_name.items()}
        weights = {w for _, w in chosen.values() if w is not None}
        if len(weights) > 1:
            raise UsageError(
                "one set of sizes has several weights",
                where=f"{OPTION}: {', '.join(f'{w:g}' for w in sorted(weights))}",
                help="give the weight with one of its inputs",
            )
        shapes = {name: shape for name, (shape, _) in chosen.items()}
        sets.append(SizeSet(shapes, next(iter(weights), None)))
    return tuple(sets)


def parse_one_set(texts: Sequence[str]) -> InputShapes:
    """Sizes where one set makes sense.

    Raises:
        UsageError: An input has several shapes, or there is a weight.
    """
    sets = parse_size_sets(texts)
    if len(sets) > 1:
        raise UsageError(
            "one input has several shapes",
            where=f"{OPTION} {' '.join(texts)}",
            help="this command takes one shape for each input",
        )
    if sets[0].weight is not None:
        raise UsageError(
            "a weight of sizes says nothing here",
            where=f"{OPTION} {' '.join(texts)}",
            help="leave out the @ and what is behind it",
        )
    return sets[0].shapes


def _parse(text: str) -> tuple[str, tuple[int, ...], float | None]:
    rest, at, weight = text.rpartition("@")
    if not at or ":" in weight:
        return *parse_shape(text, OPTION), None
    try:
        number = float(weight)
    except ValueError:
        raise UsageError(
            f"cannot read the shape {text!r}",
            where=OPTION,
            help="a weight is a positive number: NAME:1,3,64,64@2",
        ) from None
    return *parse_shape(rest, OPTION), number
