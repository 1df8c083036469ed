"""Phases that Col2Im puts in their places."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from convt_onnx.forms import Setting
from convt_onnx.spec import ConvTransposeSpec

from .cpu_cases import assert_right, case_of, spec
from .drawn import build, lowered
from .lowering import refusals

COL2IM = ["phases-col2im", "phases-rows-col2im"]
# Begin, end and output padding that leave something to crop at both ends, and what leaves nothing.
CROPPED, WHOLE = ((3, 1, 1), (0, 0, 0))


def geometry(n, channels, group, crop=CROPPED):
    begin, end, padding = ((value,) * n for value in crop)
    kernel, strides, dilations = (5, 3)[:n], (2, 3)[:n], (2, 1)[:n]
    if crop == WHOLE:
        kernel, dilations = strides, (1,) * n
    ci, co = channels
    return ConvTransposeSpec(ci, co, group, kernel, strides, dilations, begin, end, padding)


def kinds(proto):
    return [n.op_type for n in proto.graph.node]


def attributes(proto, kind):
    """Of the only node of that kind."""
    (node,) = (n for n in proto.graph.node if n.op_type == kind)
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


@pytest.mark.parametrize("open_sizes", ["static", "batch", "spatial", "all", "unknown"])
@pytest.mark.parametrize("crop", [CROPPED, WHOLE])
@pytest.mark.parametrize(
    ("n", "channels", "group"),
    [(1, (6, 4), 1), (1, (4, 8), 4), (2, (6, 4), 1), (2, (6, 9), 3), (2, (16, 32), 2)],
)
def test_phases_fall_into_their_places(n, channels, group, crop, open_sizes):
    case = case_of(geometry(n, channels, group, crop), (7, 5)[:n], open_sizes, opset=18)
    assert kinds(lowered(case, ["phases-col2im"])).count("Col2Im") == 1
    assert_right(case, "phases-col2im")


@pytest.mark.parametrize("open_sizes", ["static", "batch", "all", "unknown"])
@pytest.mark.parametrize("crop", [CROPPED, WHOLE])
def test_rows_fall_into_their_places(crop, open_sizes):
    case = case_of(geometry(1, (16, 16), 16, crop), (9,), open_sizes, opset=18)
    assert attributes(lowered(case, ["phases-rows-col2im"]), "Conv")["strides"] == [1, 1]
    assert_right(case, "phases-rows-col2im")


def test_one_axis_is_cropped_by_padding():
    case = case_of(geometry(1, (16, 16), 16), (9,), opset=18)
    for form in COL2IM:
        made = lowered(case, [form])
        assert kinds(made) == ["Unsqueeze", "Conv", "Reshape", "Col2Im"]
        assert any(attributes(made, "Col2Im")["pads"])


def test_two_axes_are_cropped_behind():
    case = case_of(geometry(2, (6, 4), 2), (7, 5), opset=18)
    made = lowered(case, ["phases-col2im"])
    assert kinds(made) == ["Conv", "Reshape", "Col2Im", "Slice"]
    assert attributes(made, "Col2Im")["pads"] == [0, 0, 0, 0]


def test_an_empty_batch_stays_empty():
    case = case_of(spec(2, (6, 4), 2), (7, 5), "batch", opset=18)
    proto = lowered(case, ["phases-col2im"])
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.zeros((0, 6, 7, 5), np.float32)})
    assert y.shape == (0, 4, *case.spec.output_sizes((7, 5)))


@pytest.mark.parametrize(
    ("each", "changed", "form", "reason"),
    [
        (spec(2, (16, 8)), {"opset": 17}, "phases-col2im", "CT306"),
        (spec(1, (16, 16), 16), {"opset": 17}, "phases-rows-col2im", "CT306"),
        (spec(3, (16, 8)), {}, "phases-col2im", "CT318"),
        (spec(2, (16, 8)), {"dtype": "float64"}, "phases-col2im", "CT318"),
        (spec(2, (16, 8)), {"dtype": "float16"}, "phases-col2im", "CT318"),
        (spec(2, (16, 8), s=1), {}, "phases-col2im", "CT302"),
        (spec(2, (16, 16), 16), {}, "phases-rows-col2im", "CT316"),
        (spec(1, (16, 16), 16), {"run_time_weight": True}, "phases-rows-col2im", "CT314"),
    ],
)
def test_col2im_is_refused_where_it_gains_nothing(each, changed, form, reason):
    case = case_of(each, (12, 12, 3)[: each.ndim], **({"opset": 18} | changed))
    found = refusals(build(case, ["probe"]), Setting(case.opset, mlas=True))[form]
    assert found is not None
    assert found.id == reason
