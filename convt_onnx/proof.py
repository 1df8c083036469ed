"""Refusing a rewritten model that is not well formed or computes something else."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from convt_onnx.errors import VerificationError
from convt_onnx.graph.check import require_well_formed
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.model_io import LoadedModel
from convt_onnx.verify import Source, Verification, VerifyOptions
from convt_onnx.verify.inputs import InputShapes, sizes_text
from convt_onnx.verify.sets import verify_sets


def checked(loaded: LoadedModel) -> onnx.ModelProto:
    """The rewritten model, which must pass the checker where the original does."""
    proto = ir.to_proto(loaded.model)
    require_well_formed(loaded.proto, proto)
    return proto


def verified(
    loaded: LoadedModel,
    proto: onnx.ModelProto,
    checks: VerifyOptions,
    nodes: Sequence[ConvTransposeNode],
    sets: Sequence[InputShapes],
) -> Verification:
    """The comparison at each set of input sizes, which must not fail.

    Raises:
        VerificationError: It fails.
    """
    folder = loaded.path.parent
    original, rewritten = Source(loaded.proto, folder), Source(proto, folder)
    result = verify_sets(original, rewritten, checks, nodes, sets)
    if not result.ok:
        raise VerificationError(
            _what_failed(result),
            where=_where(result, several=len(sets) > 1),
            help="nothing was written; --skip NODE keeps a node as it is",
        )
    return result


def _where(result: Verification, *, several: bool) -> str:
    first = f"first difference: {result.first_difference}" if result.first_difference else ""
    sizes = f"with {sizes_text(result.input_shapes[0])}" if several else ""
    return ", ".join(filter(None, (first, sizes)))


def _what_failed(result: Verification) -> str:
    bad = [c for c in result.outputs if not c.ok]
    if bad:
        c = bad[0]
        times = f"{c.excess:.3g} times what is allowed" if c.allowed else "0 is allowed"
        what = c.note or f"{c.max_abs:.3g} at {c.index}, {times}"
        return f"verification failed: output {c.name!r} differs by {what}"
    node = next(c for c in result.nodes if not c.ok)
    return (
        f"verification failed: node {node.path!r} is {node.error:.3g} from the oracle, "
        f"{node.bound:.3g} is allowed"
    )
