"""Phases as rows of one convolution, and those of all groups in one matrix."""

from __future__ import annotations

import onnx
import pytest

from convt_onnx.forms import Setting
from convt_onnx.spec import ConvTransposeSpec

from .cpu_cases import assert_right, case_of, permutations, spec, transposed_rows
from .drawn import build, lowered
from .lowering import refusals

ROWS = ["phases-rows", "phases-rows-joined"]


def convolution(proto):
    """Attributes of the only Conv."""
    (node,) = (n for n in proto.graph.node if n.op_type == "Conv")
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize(
    ("k", "s", "size", "positions", "width"),
    [
        (4, 2, 7, 2, 3),  # 8 positions, two for each phase
        (4, 2, 8, 3, 4),  # 9, which three divide and two do not
        (4, 2, 10, 2, 3),  # 11, which neither divides
        (6, 3, 7, 2, 3),
        (6, 3, 8, 3, 4),
        (9, 4, 5, 1, 3),
        (3, 7, 5, 1, 1),
    ],
)
def test_neighbours_make_four_rows(k, s, size, positions, width, form):
    case = case_of(spec(1, (32, 32), 32, k, s, 0), (size,))
    found = convolution(lowered(case, [form]))
    assert found["strides"] == [1, positions]
    assert found["kernel_shape"] == [positions * s, width]
    assert_right(case, form)


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("open_sizes", ["static", "batch", "all", "unknown"])
def test_rows_with_dilations_and_open_sizes(open_sizes, d, form):
    geometry = ConvTransposeSpec(16, 16, 16, (5,), (2,), (d,), (3,), (1,), (1,))
    case = case_of(geometry, (9,), open_sizes)
    found = convolution(lowered(case, [form]))
    assert found["strides"] == [1, 2 if open_sizes in ("static", "batch") else 1]
    assert_right(case, form)


def test_joined_rows_are_transposed_at_once():
    made = lowered(case_of(spec(1, (32, 32), 32, 6, 3), (8,)), ["phases-rows-joined"])
    assert transposed_rows(made) == [9]
    assert permutations(made) == [[0, 2, 3, 1, 4], [0, 1, 3, 2]]


@pytest.mark.parametrize("open_sizes", ["static", "spatial", "all"])
@pytest.mark.parametrize("strides", [(2,), (3, 3), (2, 2), (2, 2, 2)])
def test_groups_are_joined_into_one_matrix(strides, open_sizes):
    n = len(strides)
    ones = (1,) * n
    geometry = ConvTransposeSpec(32, 48, 16, (4, 5, 4)[:n], strides, ones, ones, (2,) * n, (0,) * n)
    case = case_of(geometry, (3, 5, 4)[:n], open_sizes)
    perms = permutations(lowered(case, ["phases-joined"]))
    assert perms[:2] == [[0, 2, 3, 1, 4], [0, 1, 3, 2]]
    assert len(perms) == n + 1
    assert_right(case, "phases-joined")


def test_rows_are_computed_in_float32_alone():
    case = case_of(spec(1, (16, 16), 16), (9,), dtype="float16")
    found = refusals(build(case, ["probe"]), Setting(17, mlas=True))
    assert found["phases-rows"].id == found["phases-rows-joined"].id == "CT316"
