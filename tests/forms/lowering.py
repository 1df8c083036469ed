"""A model's ConvTranspose nodes as the forms see them, and forced into forms."""

from __future__ import annotations

import onnx_ir as ir
from onnx import numpy_helper

from convt_onnx.decide import Choice
from convt_onnx.forms import FORMS, Setting
from convt_onnx.graph.node import find_nodes, read_node
from convt_onnx.passes.base import Context
from convt_onnx.passes.lower import Lower
from convt_onnx.targets import FLOATS, Target


def first_node(proto):
    model = ir.from_proto(proto)
    found = next(find_nodes(model))
    return read_node(found.node, found.path, model.ir_version, {})


def refusals(proto, setting):
    """Why each form does not apply to the first node, None where it does."""
    node = first_node(proto)
    return {name: form.check(node, setting) for name, form in FORMS.items()}


def applicable_forms(proto, case, plugin=""):
    """Those of the first node that ONNX Runtime runs; a case says what its target has."""
    setting = Setting(
        case.opset, case.depth_to_space, case.shape_ops, plugin, case.ir_version, case.mlas
    )
    names = [name for name, refusal in refusals(proto, setting).items() if refusal is None]
    spec = first_node(proto).spec
    limits = zip(spec.output_padding, spec.strides, strict=True)
    if any(op >= s for op, s in limits):  # valid below the dilation, but ONNX Runtime refuses
        names = [n for n in names if n not in ("keep", "slices")]
    return names


def forced(proto, names, case, plugin=""):
    """The model after every node was forced into the form of its name."""
    model = ir.from_proto(proto)
    target = Target(
        name="drawn",
        summary="",
        conv_transpose=True,
        conv_transpose_dtypes=FLOATS,
        conv_dtypes=FLOATS,
        output_padding_below_stride=False,
        depth_to_space=case.depth_to_space,
        shape_ops=case.shape_ops,
        cast_island=frozenset(),
        mlas=case.mlas,
        plugin=plugin,
    )
    Lower(Context(target, {}, Choice({n: n for n in names}), plugin=bool(plugin)))(model)
    return ir.to_proto(model)


def initializers(proto):
    """Arrays by name."""
    return {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
