"""What walks down the height compute, in both layouts."""

import random
from dataclasses import replace

import pytest
import torch

from convt_onnx.plugins.conv_transpose import op
from convt_onnx.plugins.conv_transpose.schedule import walk_lines
from convt_onnx.spec import ConvTransposeSpec

from .drawing import (
    assert_right,
    assert_right_with_epilogue,
    assert_right_with_slopes,
    draw_walk,
    operands,
)
from .walks import LARGE, forced

DTYPES = (torch.float16, torch.bfloat16)
# Channels last: groups, a crop and channels that are no whole piece; dilation; stride 1.
GROUPS = ConvTransposeSpec(48, 32, 2, (4, 3), (2, 2), (1, 1), (1, 1), (1, 2), (0, 1))
ONE_GROUP = replace(GROUPS, in_channels=24, out_channels=16, group=1)
DILATED = ConvTransposeSpec(24, 16, 1, (3, 2), (2, 2), (2, 3), (1, 0), (2, 1), (1, 0))
FLAT = ConvTransposeSpec(33, 32, 1, (3, 3), (1, 1), (1, 2), (1, 1), (1, 3), (0, 0))
ONE_LINE = ConvTransposeSpec(16, 16, 1, (2, 4), (2, 2), (1, 1), (0, 1), (0, 1), (0, 0))
# NCHW: groups with a crop of the height; dilation; other strides of the height.
WORD_GROUPS = ConvTransposeSpec(48, 32, 2, (4, 4), (2, 2), (1, 1), (1, 1), (2, 1), (0, 0))
WORD_DILATED = ConvTransposeSpec(24, 16, 1, (3, 3), (2, 2), (2, 4), (1, 3), (2, 4), (1, 0))
WORD_LINES = ConvTransposeSpec(33, 64, 1, (3, 2), (1, 2), (1, 1), (1, 0), (0, 0), (0, 0))
# Three phases of the width: six neighbours of two positions, with a crop of a word and beyond y.
THIRDS = ConvTransposeSpec(40, 32, 1, (5, 5), (3, 3), (1, 1), (2, 2), (2, 2), (1, 0))
THIRD_GROUPS = ConvTransposeSpec(36, 32, 2, (3, 7), (2, 3), (1, 1), (1, 3), (2, 3), (1, 2))
THIRD_SINGLE = ConvTransposeSpec(17, 16, 1, (2, 3), (1, 3), (1, 1), (1, 0), (0, 2), (0, 2))
# One axis: the width is folded, the last line is not whole.
FOLDED = ConvTransposeSpec(40, 16, 1, (4,), (2,), (1,), (1,), (1,), (0,))
FOLDED_WIDE = ConvTransposeSpec(72, 32, 1, (4,), (2,), (1,), (1,), (1,), (0,))
FOLDED_GROUPS = ConvTransposeSpec(34, 32, 2, (7,), (3,), (1,), (2,), (2,), (0,))
WORD_STEEP = ConvTransposeSpec(17, 32, 1, (5, 6), (3, 2), (1, 1), (2, 3), (1, 1), (1, 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("spec", "last", "joined", "prefetch"),
    [
        (LARGE, True, 4, 6),
        (GROUPS, True, 2, 1),
        (DILATED, True, 8, 99),
        (FLAT, True, 1, 3),
        (ONE_LINE, True, 2, 1),
        (LARGE, False, 4, 99),
        (WORD_GROUPS, False, 2, 1),
        (WORD_DILATED, False, 8, 3),
        (WORD_LINES, False, 1, 99),
        (WORD_STEEP, False, 4, 2),
        (THIRDS, False, 4, 99),
        (THIRD_GROUPS, False, 2, 1),
        (THIRD_SINGLE, False, 1, 2),
    ],
)
def test_walks_with_every_part_of_the_epilogue(spec, last, joined, prefetch, dtype):
    torch.manual_seed(joined)
    x, w, b = operands(spec, 2, (4, 5 if last else 6), dtype, last)
    schedule = forced(op.make_problem(x, spec), joined, prefetch)
    assert_right_with_epilogue(x, w, b, spec, schedule)


@pytest.mark.parametrize(
    ("spec", "last"), [(ONE_GROUP, True), (WORD_DILATED, False), (THIRDS, False)]
)
@pytest.mark.parametrize(
    ("workers", "sizes"), [(1, (5, 3)), (3, (4, 2)), (5, (3, 2)), (2, (1, 40))]
)
def test_programs_share_the_height_however_many_they_are(workers, sizes, spec, last):
    torch.manual_seed(workers)
    height, width = sizes
    width += 0 if last else width % 2  # lines of whole words
    x, w, b = operands(spec, 1, (height, width), torch.float16, last)
    assert_right(x, w, b, spec, forced(op.make_problem(x, spec), workers=workers))


@pytest.mark.parametrize(
    ("spec", "last"), [(LARGE, True), (WORD_GROUPS, False), (THIRD_GROUPS, False)]
)
def test_without_a_bias_and_with_a_slope_for_each_channel(spec, last):
    torch.manual_seed(3)
    x, w, _ = operands(spec, 1, (3, 4), torch.float16, last)
    assert_right_with_slopes(x, w, spec, forced(op.make_problem(x, spec)))


@pytest.mark.parametrize("layout", ["pixels apart", "gaps", "odd lines", "unaligned"])
def test_x_that_is_not_read_in_words(layout):
    torch.manual_seed(4)
    last = layout == "pixels apart"
    spec = ONE_GROUP if last else LARGE
    x, w, b = operands(spec, 2, (4, 12), torch.float16, last)
    if layout == "odd lines":
        x = torch.cat([x, x[..., :1]], -1)[..., :12]
    elif layout == "unaligned":
        x = torch.cat([x, x], -1)[..., 1:7]
    else:
        x = x[:, :, :, ::2]
    assert_right(x, w, b, spec, forced(op.make_problem(x, spec)))


@pytest.mark.parametrize(
    ("spec", "last"), [(GROUPS, True), (WORD_GROUPS, False), (THIRD_GROUPS, False)]
)
def test_64_bit_offsets(spec, last, monkeypatch):
    monkeypatch.setattr("convt_onnx.plugins.conv_transpose.launch.WIDE_FROM", 0)
    torch.manual_seed(5)
    x, w, b = operands(spec, 2, (4, 6), torch.float16, last)
    assert_right_with_epilogue(x, w, b, spec, forced(op.make_problem(x, spec)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("spec", "joined", "workers"),
    [(FOLDED, 4, 2), (FOLDED, 1, 5), (FOLDED_GROUPS, 2, 3), (FOLDED_WIDE, 1, 2)],
)
def test_walks_along_one_axis(spec, joined, workers, dtype):
    torch.manual_seed(workers)
    x, w, b = operands(spec, 2, (150,), dtype, False)
    schedule = forced(op.make_problem(x, spec), joined, 99, workers=workers)
    assert walk_lines(op.make_problem(x, spec), schedule) == 5
    assert_right_with_epilogue(x, w, b, spec, schedule)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_drawn_geometries_and_walks(seed, last, dtype):
    rng = random.Random(f"walk{last}{dtype}{seed}")
    torch.manual_seed(seed)
    spec, sizes, schedule = draw_walk(rng, dtype, last)
    x, w, b = operands(spec, 2, sizes, dtype, last)
    assert_right(x, w, b, spec, schedule)
