"""A batch of 0, whose output is empty too."""

from __future__ import annotations

import pytest

from convt_onnx.spec import ConvTransposeSpec

from .cpu_cases import case_of
from .drawn import applicable, lowered, run

SIZES = (5, 4, 3)


def case(strides, **changed):
    n = len(strides)
    ends = (1, 2, 3)[:n], (0, 1, 2)[:n], (0,) * n
    spec = ConvTransposeSpec(6, 4, 2, (4, 3, 2)[:n], strides, (1, 2, 1)[:n], *ends)
    return case_of(spec, SIZES[:n], **changed)


def shape_of_nothing(each, form):
    """Of the output for a batch of 0."""
    x = each.arrays(each.sizes, 0)["x"]
    (y,) = run(each, lowered(each, [form]), {"x": x}).values()
    return y.shape


@pytest.mark.parametrize("mlas", [True, False])
@pytest.mark.parametrize("open_sizes", ["batch", "all", "unknown"])
@pytest.mark.parametrize("strides", [(2,), (2, 3), (1, 3), (2, 1, 3)])
def test_zeros_go_into_nothing_where_sizes_are_open(strides, open_sizes, mlas):
    each = case(strides, open_sizes=open_sizes, mlas=mlas)
    wanted = (0, 4, *each.spec.output_sizes(each.sizes))
    assert shape_of_nothing(each, "zero-insertion") == wanted


@pytest.mark.parametrize("mlas", [True, False])
@pytest.mark.parametrize("strides", [(3,), (2, 2), (2, 1, 3)])
def test_every_form_takes_a_batch_that_is_declared_empty(strides, mlas):
    each = case(strides, opset=18, mlas=mlas, batch=0)
    forms = applicable(each)
    assert {"phases", "phases-split", "overlap-add", "zero-insertion"} <= set(forms)
    for form in forms:
        assert shape_of_nothing(each, form) == (0, 4, *each.spec.output_sizes(each.sizes)), form
