"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from convt_onnx.errors import UsageError

if TYPE_CHECKING:
    from convt_onnx.tuning.options import SizeSet

F = TypeVar("F", bound=Callable[..., Any])

ModelPath = click.Path(path_type=Path)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
report_option = click.option(
    "--report",
    type=ModelPath,
    metavar="FILE",
    help="Also write a report: one page FILE.html, or FILE.json.",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No table and no progress.")
# For help, which imports nothing heavy.
TARGETS_TEXT = "ort-cpu, ort-cuda, tensorrt, tensorrt-rtx, portable"
verbose_option = click.option(
    "-v", "--verbose", count=True, help="More; twice shows tracebacks of errors."
)


def input_options(function: F) -> F:
    """Inputs and tolerances of a comparison, passed on as `checks`, a VerifyOptions."""
    return _input_options(
        _with_checks(function, several=False), "may be repeated, once for each input."
    )


def sized_input_options(function: F) -> F:
    """The same, where several sets of sizes make sense; they are passed on as `sizes`."""
    command = _with_checks(function, several=True)
    return _input_options(
        command, "a second shape of one input begins a second set, and @2 behind it is its weight."
    )


def _input_options(command: F, repeated: str) -> F:
    for option in reversed(
        (
            click.option(
                "--inputs",
                type=ModelPath,
                metavar="FILE.npz",
                help="Arrays to run with, named as the inputs.  [default: seeded random]",
            ),
            click.option(
                "--input-shapes",
                multiple=True,
                metavar="NAME:1,3,64,64",
                help=f"Sizes for random inputs; {repeated}",
            ),
            click.option("--seed", default=0, show_default=True, help="Of the random inputs."),
            click.option("--atol", type=float, help="Absolute tolerance.  [default: scaled]"),
            click.option("--rtol", type=float, help="Relative tolerance.  [default: 1e-4]"),
        )
    ):
        command = option(command)
    return command


def _with_checks(function: F, *, several: bool) -> F:
    @functools.wraps(function)
    def gathering(
        *,
        inputs: Path | None,
        input_shapes: tuple[str, ...],
        seed: int,
        atol: float | None,
        rtol: float | None,
        **others: Any,
    ) -> Any:
        from convt_onnx.cli.sizes import parse_one_set, parse_size_sets
        from convt_onnx.verify import VerifyOptions

        if not several:
            checks = VerifyOptions(inputs, parse_one_set(input_shapes), seed, atol, rtol)
            return function(checks=checks, **others)
        sets = parse_size_sets(input_shapes)
        checks = VerifyOptions(inputs, sets[0].shapes, seed, atol, rtol)
        return function(checks=checks, sizes=sets if input_shapes else (), **others)

    return cast("F", gathering)


def tune_options(function: F) -> F:
    """How forms are timed, passed on as `tune`, a TuneOptions; stands below the inputs' options."""
    command = _with_tune(function)
    for option in reversed(
        (
            click.option(
                "--tune/--no-tune",
                default=None,
                help="Time the forms of each node, then the whole model.  "
                "[default: where the target's runtime is here]",
            ),
            click.option(
                "--tune-seconds",
                type=float,
                default=60,
                show_default=True,
                help="For the whole model; less where it is clear earlier.",
            ),
            click.option(
                "--tune-cache",
                type=ModelPath,
                metavar="FOLDER",
                help="For times of earlier runs; a dry run makes none.  "
                "[default: in your cache folder]",
            ),
            click.option(
                "--threads",
                default=0,
                show_default=True,
                help="That the model is to run with; 0 is the runtime's default.",
            ),
        )
    ):
        command = option(command)
    return command


def _with_tune(function: F) -> F:
    @functools.wraps(function)
    def gathering(
        *,
        tune: bool | None,
        tune_seconds: float,
        tune_cache: Path | None,
        threads: int,
        sizes: tuple[SizeSet, ...],
        **others: Any,
    ) -> Any:
        from convt_onnx.tuning.options import TuneOptions

        options = TuneOptions(tune, tune_seconds, threads, tune_cache, sizes)
        return function(tune=options, **others)

    return cast("F", gathering)


def parse_shape(text: str, option: str) -> tuple[str, tuple[int, ...]]:
    """`NAME:1,3,64` to a pair.

    Raises:
        UsageError: It is not of that form; the error names the option.
    """
    name, colon, dims = text.rpartition(":")
    try:
        shape = tuple(int(d) for d in dims.replace("x", ",").split(","))
    except ValueError:
        shape = ()
    if not colon or not name or not shape or min(shape) < 1:
        raise UsageError(
            f"cannot read the shape {text!r}",
            where=option,
            help=f"{option} NAME:1,3,64,64 with positive sizes",
        )
    return name, shape


def parse_forms(texts: Sequence[str]) -> dict[str, str]:
    """`NODE=form` to a mapping; a node's name may hold equals signs.

    Raises:
        UsageError: It is not of that form.
    """
    forms = {}
    for text in texts:
        node, equals, form = text.rpartition("=")
        if not equals or not node:
            raise UsageError(
                f"cannot read {text!r}",
                where="--form",
                help="--form NODE=phases or --form all=conv",
            )
        forms[node] = form
    return forms
