"""The comparison at several sets of input sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.verify.compare import Comparison
from convt_onnx.verify.inputs import InputShapes
from convt_onnx.verify.nodes import NodeCheck
from convt_onnx.verify.session import Source
from convt_onnx.verify.verification import Verification, VerifyOptions, verify


def verify_sets(
    original: Source,
    rewritten: Source,
    options: VerifyOptions,
    nodes: Sequence[ConvTransposeNode],
    sets: Iterable[InputShapes],
) -> Verification:
    """`verify` at each set of sizes in turn: the first that fails, else the worst of all.

    Raises:
        As `verify`.
    """
    found = []
    for shapes in sets:
        found.append(
            verify(original, rewritten, replace(options, input_shapes=shapes), nodes),
        )
        if not found[-1].ok:
            return found[-1]
    return _worst(found)


def _worst(found: Sequence[Verification]) -> Verification:
    """Of each output and node what is closest to its bound."""
    outputs: dict[str, Comparison] = {}
    nodes: dict[str, NodeCheck] = {}
    for one in found:
        for c in one.outputs:
            outputs[c.name] = max(outputs.get(c.name, c), c, key=lambda c: c.excess)
        for n in one.nodes:
            nodes[n.path] = max(nodes.get(n.path, n), n, key=_share)
    return replace(
        found[0],
        outputs=tuple(outputs.values()),
        nodes=tuple(nodes.values()),
        input_shapes=tuple(shapes for one in found for shapes in one.input_shapes),
        assumed_sizes=any(one.assumed_sizes for one in found),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


def _share(check: NodeCheck) -> float:
    return check.error / check.bound if check.bound else check.error
