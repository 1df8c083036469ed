"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from convt_onnx.collector import collector_paused
from convt_onnx.dumps import NO_DUMPS, Dumps
from convt_onnx.errors import UsageError
from convt_onnx.gaps import find_gaps
from convt_onnx.model_io import LoadedModel
from convt_onnx.passes.base import Context, Pass
from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.float_quantised import FloatQuantised
from convt_onnx.passes.fold_crops import FoldCrops
from convt_onnx.passes.fold_neighbours import FoldNeighbours
from convt_onnx.passes.fold_pads import FoldPads
from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.passes.inline_functions import InlineFunctions
from convt_onnx.passes.leaky_prelu import LeakyPrelu
from convt_onnx.passes.lower import Lower
from convt_onnx.passes.replace_off_device import ReplaceOffDevice
from convt_onnx.passes.replace_removed import ReplaceRemoved
from convt_onnx.passes.restore_plugins import RestorePlugins
from convt_onnx.passes.standard_quantisers import StandardQuantisers
from convt_onnx.passes.undo_crops import UndoCrops
from convt_onnx.runtime_shapes import shapes_of
from convt_onnx.suggest import did_you_mean
from convt_onnx.usual_sizes import usual_sizes

# What makes a node readable.
PREPARATIONS: tuple[type[Pass], ...] = (
    RestorePlugins,
    InlineFunctions,
    ReplaceRemoved,
    ReplaceOffDevice,
    StandardQuantisers,
    FloatQuantised,
    FoldWeights,
    CanonicalPads,
)
# What a node takes in from around it; repeated, since one may uncover another.
FOLDS: tuple[type[Pass], ...] = (FoldCrops, FoldPads, FoldNeighbours, LeakyPrelu)
# What makes a node what the target is to run.
LOWERINGS: tuple[type[Pass], ...] = (Lower, UndoCrops)

PASSES: tuple[type[Pass], ...] = (*PREPARATIONS, *FOLDS, *LOWERINGS)
MAX_ROUNDS = 8

Progress = Callable[[str], None]


def select(names: Sequence[str]) -> tuple[type[Pass], ...]:
    """The passes of those names, in the pipeline's order; all where none is named.

    Raises:
        UsageError: There is no such pass.
    """
    known = [cls.name for cls in PASSES]
    for name in names:
        if name not in known:
            raise UsageError(
                f"no pass {name!r}",
                where="--passes",
                help=did_you_mean(name, known),
            )
    return tuple(cls for cls in PASSES if not names or cls.name in names)


def run(
    passes: Sequence[type[Pass]],
    loaded: LoadedModel,
    context: Context,
    progress: Progress = lambda step: None,
    dumps: Dumps = NO_DUMPS,
) -> bool:
    """Run passes on a loaded model; whether any changed it.

    Args:
        passes: In order; FOLDS among them are repeated until none changes anything.
        loaded: Its model is changed in place.
        context: What the passes know and report.
        progress: Called with the name of each pass.
        dumps: They get the model after each pass that changed it.
    """
    progress("inferring shapes")
    with collector_paused():
        return _run(passes, loaded, context, progress, dumps)


def _run(
    passes: Sequence[type[Pass]],
    loaded: LoadedModel,
    context: Context,
    progress: Progress,
    dumps: Dumps,
) -> bool:
    context.shapes = shapes_of(loaded)
    context.gaps = tuple(find_gaps(loaded.model, context.shapes, context.target))
    modified = False
    for number, cls in enumerate(_in_rounds(passes, context)):
        progress(cls.name)
        if cls is Lower:
            context.usual = usual_sizes(loaded, context.shapes, context.given, changed=modified)
        if not cls(context)(loaded.model).modified:
            continue
        modified = True
        if cls.makes_values:
            context.shapes = shapes_of(loaded, changed=True)
        dumps.save(loaded, f"{number:02}-{cls.name}")
    return modified


def _in_rounds(passes: Sequence[type[Pass]], context: Context) -> Iterator[type[Pass]]:
    yield from (cls for cls in passes if cls in PREPARATIONS)
    folds = [cls for cls in passes if cls in FOLDS]
    for _ in range(MAX_ROUNDS if folds else 0):
        before = context.change_count
        yield from folds
        if context.change_count == before:
            break
    yield from (cls for cls in passes if cls in LOWERINGS)
