"""Refusing a rewritten model that is not well formed or computes something else."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from convt_onnx.errors import VerificationError
from convt_onnx.graph.check import require_well_formed
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.model_io import LoadedModel
from convt_onnx.verify import Source, Verification, VerifyOptions, verify


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
) -> Verification:
    """The comparison, which must not fail.

    Raises:
        VerificationError: It fails.
    """
    folder = loaded.path.parent
    result = verify(Source(loaded.proto, folder), Source(proto, folder), checks, nodes)
    if not result.ok:
        raise VerificationError(
            _what_failed(result),
            where=f"first difference: {result.first_difference}" if result.first_difference else "",
            help="nothing was written; --skip NODE keeps a node as it is",
        )
    return result


def _what_failed(result: Verification) -> str:
    bad = [c for c in result.outputs if not c.ok]
    if bad:
        c = bad[0]
        what = c.note or f"{c.max_abs:.3g} at {c.index}, {c.excess:.3g} times what is allowed"
        return f"verification failed: output {c.name!r} differs by {what}"
    node = next(c for c in result.nodes if not c.ok)
    return (
        f"verification failed: node {node.path!r} is {node.error:.3g} from the oracle, "
        f"{node.bound:.3g} is allowed"
    )
