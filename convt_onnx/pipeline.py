"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from convt_onnx.model_io import LoadedModel
from convt_onnx.passes.base import Context, Pass
from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.passes.inline_functions import InlineFunctions
from convt_onnx.passes.lower import Lower
from convt_onnx.runtime_shapes import shapes_of

# What makes a node readable; `inspect` runs these alone.
PREPARATIONS: tuple[type[Pass], ...] = (InlineFunctions, FoldWeights)
PASSES: tuple[type[Pass], ...] = (*PREPARATIONS, CanonicalPads, Lower)


def run(
    passes: Sequence[type[Pass]],
    loaded: LoadedModel,
    context: Context,
    progress: Callable[[str], None] = lambda step: None,
) -> bool:
    """Run passes on a loaded model; whether any changed it."""
    progress("inferring shapes")
    context.shapes = shapes_of(loaded)
    modified = False
    for cls in passes:
        progress(cls.name)
        if not cls(context)(loaded.model).modified:
            continue
        modified = True
        if cls.makes_values:
            context.shapes = shapes_of(loaded, changed=True)
    return modified
