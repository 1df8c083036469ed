"""Zeros between the rows, put in with the channels last."""

from __future__ import annotations

import pytest

from convt_onnx.spec import ConvTransposeSpec

from .cpu_cases import X86, assert_right, case_of, optimised, permutations
from .drawn import lowered
from .lowering import initializers

FORM = "zero-insertion"
OPEN = ["static", "batch", "spatial", "all", "unknown"]


def geometry(strides, channels=(6, 4), group=2):
    n = len(strides)
    ci, co = channels
    ends = (0, 1, 2)[:n]
    return ConvTransposeSpec(
        ci, co, group, (4, 3, 2)[:n], strides, (1, 2, 1)[:n], (1, 2, 3)[:n], ends, (0,) * n
    )


def zeros_put_in(proto):
    """Rows that each Pad adds behind every axis; it adds none in front."""
    initial = initializers(proto)
    pads = [list(initial[n.input[1]]) for n in proto.graph.node if n.op_type == "Pad"]
    assert not any(any(p[: len(p) // 2]) for p in pads)
    return [p[len(p) // 2 :] for p in pads]


@pytest.mark.parametrize("mlas", [True, False])
@pytest.mark.parametrize("open_sizes", OPEN)
@pytest.mark.parametrize("strides", [(2,), (5,), (2, 3), (1, 3), (3, 1), (2, 1, 3)])
def test_zeros_go_in_behind_each_row_of_channels(strides, open_sizes, mlas):
    case = case_of(geometry(strides), (5, 4, 3)[: len(strides)], open_sizes, mlas=mlas)
    n, strided = len(strides), [s for s in reversed(strides) if s > 1]
    made = lowered(case, [FORM])
    assert zeros_put_in(made) == [[0] * (1 + n) + [s - 1, 0] for s in strided]
    assert len(permutations(made)) == len(strided) + 1
    assert_right(case, FORM)


@pytest.mark.parametrize("open_sizes", OPEN)
def test_one_axis_is_read_as_two_with_the_channels_last(open_sizes):
    case = case_of(geometry((3,), (16, 16), 16), (7,), open_sizes)
    made = lowered(case, [FORM])
    assert permutations(made) == [[0, 2, 1], [0, 3, 1, 2]]
    assert_right(case, FORM)


@pytest.mark.skipif(not X86, reason="blocked channels are a layout of other processors")
def test_the_blocked_layout_is_read_without_a_second_transposition(tmp_path):
    case = case_of(geometry((3,), (16, 16), 16), (7,))
    kinds = [n.op_type for n in optimised(lowered(case, [FORM]), tmp_path)]
    assert kinds.count("Transpose") == 1
    assert kinds.count("ReorderInput") == kinds.count("ReorderOutput") == 1
