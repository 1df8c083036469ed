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
    """Run passes on a model; a second run must find nothing to do."""
    numbers = itertools.count()

    def once(proto, passes, target, choice):
        loaded = model_io.load(write(proto, tmp_path, f"{next(numbers)}.onnx"))
        context = Context(get_target(target), {}, choice)
        pipeline.run(passes, loaded, context)
        after = ir.to_proto(loaded.model)
        del after.graph.value_info[:]
        require_well_formed(loaded.proto, after)
        return Applied(proto, after, tuple(context.changes[passes[-1].name]), context)

    def apply_passes(proto, *passes, target="ort-cpu", forms=None, skip=()):
        applied = once(proto, passes, target, Choice(forms or {}, frozenset(skip)))
        again = once(applied.after, passes, target, Choice({}, frozenset(skip)))
        assert again.changes == ()
        assert again.after == applied.after
        return applied

    return apply_passes
