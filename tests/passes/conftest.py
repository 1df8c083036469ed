from __future__ import annotations

import itertools
from dataclasses import dataclass

import onnx
import onnx_ir as ir
import pytest

from convt_onnx import model_io, pipeline
from convt_onnx.decide import Choice
from convt_onnx.graph.check import require_well_formed
from convt_onnx.passes.base import Context
from convt_onnx.targets import get_target

from ..graph.building import write


@dataclass(frozen=True)
class Applied:
    """A model before and after some passes, and what the last of them reported."""

    before: onnx.ModelProto
    after: onnx.ModelProto
    changes: tuple[str, ...]
    context: Context

    @property
    def nodes(self) -> list[onnx.NodeProto]:
        return list(self.after.graph.node)

    @property
    def conv_transpose(self) -> onnx.NodeProto:
        """The only ConvTranspose of the main graph."""
        (node,) = (n for n in self.after.graph.node if n.op_type == "ConvTranspose")
        return node

    @property
    def attributes(self) -> dict[str, object]:
        """Those of the only ConvTranspose."""
        attributes = self.conv_transpose.attribute
        return {a.name: onnx.helper.get_attribute_value(a) for a in attributes}


@pytest.fixture
def apply(tmp_path):
    """Run passes on a model; a second run must find nothing to do.

    The model declares what onnx infers, unless told not to; what is left of it must hold.
    """
    numbers = itertools.count()

    def once(proto, passes, target, choice, declare):
        declared = onnx.ModelProto()
        declared.CopyFrom(proto)
        if declare:
            declared.graph.value_info.MergeFrom(_inferred(proto).values())
        loaded = model_io.load(write(declared, tmp_path, f"{next(numbers)}.onnx"))
        context = Context(get_target(target), {}, choice)
        pipeline.run(passes, loaded, context)
        after = ir.to_proto(loaded.model)
        kept = {value.name: value for value in after.graph.value_info}
        del after.graph.value_info[:]
        _assert_sizes_hold(kept, _inferred(after))
        require_well_formed(loaded.proto, after)
        return Applied(proto, after, tuple(context.changes[passes[-1].name]), context)

    def apply_passes(proto, *passes, target="ort-cpu", forms=None, skip=(), declare=True):
        applied = once(proto, passes, target, Choice(forms or {}, frozenset(skip)), declare)
        again = once(applied.after, passes, target, Choice({}, frozenset(skip)), declare)
        assert again.changes == ()
        assert again.after == applied.after
        return applied

    return apply_passes


def _inferred(proto):
    """What onnx infers of a model that it can infer, by name."""
    try:
        inferred = onnx.shape_inference.infer_shapes(proto)
    except onnx.shape_inference.InferenceError:
        return {}
    return {value.name: value for value in inferred.graph.value_info}


def _shape(value):
    """The declared sizes, 0 where one is open; None where there are none."""
    kind = value.type.tensor_type
    return [d.dim_value for d in kind.shape.dim] if kind.HasField("shape") else None


def _assert_sizes_hold(declared, inferred):
    for name in declared.keys() & inferred.keys():
        mine, right = _shape(declared[name]), _shape(inferred[name])
        if mine is not None and right is not None:
            assert len(mine) == len(right), name
            assert all(0 in (a, b) or a == b for a, b in zip(mine, right, strict=True)), name
