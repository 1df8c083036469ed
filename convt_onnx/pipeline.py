"""The passes, in order."""

from __future__ import annotations

from convt_onnx.passes.base import Context, Pass
from convt_onnx.passes.canonical_pads import CanonicalPads
from convt_onnx.passes.fold_weights import FoldWeights
from convt_onnx.passes.inline_functions import InlineFunctions
from convt_onnx.passes.lower import Lower

# What makes a node readable; `inspect` runs these alone.
PREPARATIONS: tuple[type[Pass], ...] = (InlineFunctions, FoldWeights)
PASSES: tuple[type[Pass], ...] = (*PREPARATIONS, CanonicalPads, Lower)


def build(context: Context) -> list[Pass]:
    """The passes for one run."""
    return [cls(context) for cls in PASSES]
