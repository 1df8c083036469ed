"""Heuristics and the router: pure functions, no kernel."""

import itertools
import random
from dataclasses import replace

import pytest

from convt_onnx.plugins.conv_transpose import fusing, heuristics, router
from convt_onnx.plugins.conv_transpose.geometry import fusable, lifted_axes
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.resident import part_widths
from convt_onnx.plugins.conv_transpose.schedule import (
    DIRECT,
    GEMM,
    LINES,
    RESIDENT,
    largest_divisor,
    packing_of,
    resident_parts,
    vector_width,
)
from convt_onnx.plugins.conv_transpose.single_stores import single_stores
from convt_onnx.spec import ConvTransposeSpec

from .drawing import draw_sizes, draw_spec, problem


def drawn(seed):
    rng = random.Random(seed)
    spec = draw_spec(rng)
    dtype = rng.choice(("float16", "bfloat16", "float32"))
    last = rng.random() < 0.5
    return Problem(spec.canonical(), 2, draw_sizes(rng, spec), dtype, last, last)


@pytest.mark.parametrize("shared", [49152, 101376, 232448])
@pytest.mark.parametrize("capability", [75, 80, 90])
def test_every_choice_fits_the_device_and_fuses_only_what_can_be(shared, capability):
    device = Device("any", capability, 80, shared)
    for seed in range(120):
        p = drawn(seed)
        for schedule in (
            *heuristics.candidates(p, device),
            heuristics.gemm_schedule(p, device, fusing.fused_axes(p)),
        ):
            assert heuristics.fits(p.merged(schedule.merge), schedule, device), (p, schedule)
            for fused, axis in zip(schedule.fused, lifted_axes(p.spec), strict=True):
                assert not fused or fusable(axis)
            assert router.supports(p, device if p.dtype != "bfloat16" else Device(), schedule)


def test_choices_are_deterministic_and_first_among_the_candidates():
    for seed in range(60):
        p = drawn(seed)
        first = heuristics.choose(p, Device())
        assert first == heuristics.choose(p, Device())
        found = heuristics.candidates(p, Device(), 12)
        assert found[0] == first
        assert len(found) == len(set(found)) <= 12


def test_depthwise_is_by_lines_or_direct_and_dense_is_neither():
    depthwise = problem((64, 64), 64)
    assert heuristics.choose(depthwise, Device()).kind == LINES
    last = replace(depthwise, channels_last_in=True, channels_last_out=True)
    assert heuristics.choose(last, Device()).kind == DIRECT
    unaligned = replace(depthwise, sizes=(64, 63))
    assert heuristics.choose(unaligned, Device()).kind == DIRECT
    assert heuristics.choose(problem((32, 32)), Device()).kind == RESIDENT
    assert heuristics.choose(problem(dtype="float32"), Device()).kind == GEMM


def test_narrow_groups_are_computed_as_one_where_channels_are_last():
    last = {"channels_last_in": True, "channels_last_out": True}
    narrow = problem((32, 24), 2, **last)
    assert heuristics.choose(narrow, Device()).merge == 2
    assert heuristics.choose(narrow, Device()).kind == GEMM
    assert heuristics.choose(problem((32, 24), 2, batch=1, **last), Device()).merge == 1
    assert heuristics.choose(problem((32, 24), 2), Device()).merge == 1
    assert heuristics.choose(problem((64, 64), 8, **last), Device()).merge == 4
    assert heuristics.choose(problem((256, 256), 2, **last), Device()).merge == 1
    # Zeros of several shifts take time where a product is three.
    assert heuristics.choose(replace(narrow, dtype="float32", tf32=True), Device()).merge == 2
    assert heuristics.choose(replace(narrow, dtype="float32"), Device()).merge == 1
    one_shift = replace(narrow.spec, kernel=(2, 2), pads_begin=(0, 0), pads_end=(0, 0))
    one_shift = replace(narrow, spec=one_shift, dtype="float32")
    assert heuristics.choose(one_shift, Device()).merge == 2
    # Pixels of 21 channels are joined to words where a row q has eight of them, all inside.
    odd = problem((21, 21), 21, kernel=16, stride=8, **last)
    assert heuristics.choose(odd, Device()).kind == DIRECT
    four, none = (4, 4), (0, 0)
    whole = replace(odd.spec, pads_begin=four, pads_end=four, output_padding=none)
    assert heuristics.choose(replace(odd, spec=whole), Device()).merge == 21


def test_weights_are_resident_where_shared_memory_and_processors_suffice():
    assert heuristics.choose(problem(), Device("older", 80)).kind == GEMM
    assert heuristics.choose(problem(), Device("small", 90, shared_bytes=49152)).kind == GEMM
    assert heuristics.choose(problem((512, 256)), Device()).kind == GEMM  # the weight is too large
    assert (
        heuristics.choose(problem((64, 64), kernel=5, channels_last_in=True), Device()).kind == GEMM
    )


def test_an_axis_of_mostly_zeros_is_fused_where_one_product_holds_all_there_is():
    last = {"channels_last_in": True, "channels_last_out": True, "sizes": (32, 32), "batch": 4}
    for dtype, tf32 in (("float16", False), ("float32", True)):
        holes = problem((32, 32), stride=8, dtype=dtype, tf32=tf32, **last)
        assert heuristics.choose(holes, Device()).fused == (True, True, True)
        assert fusing.fused_axes(holes) == (True, False, True)
    exact = problem((32, 32), stride=8, dtype="float32", **last)
    assert heuristics.choose(exact, Device()).fused == (True, False, True)


def test_few_lines_of_single_elements_are_written_by_programs_with_all_columns():
    narrow = problem((32, 24), 2, stride=3, sizes=(24, 24), batch=16)
    assert vector_width(narrow, heuristics.choose(narrow, Device())) == 1
    assert heuristics.choose(narrow, Device()).kind == RESIDENT
    assert heuristics.choose(replace(narrow, batch=160), Device()).kind == GEMM
    more = heuristics.choose(problem((32, 24), 2, stride=4, sizes=(24, 24), batch=16), Device())
    assert (more.kind, more.block_m, more.block_n, more.warps) == (GEMM, 32, 32, 1)


@pytest.mark.parametrize(
    ("stride", "more", "tile"),
    [
        (4, {"dtype": "float16"}, (128, 64, 8)),
        (4, {"dtype": "float16", "batch": 2}, (64, 64, 4)),  # too few programs of 128 rows
        (4, {"dtype": "float32", "tf32": True}, (32, 128, 4)),
        (8, {"dtype": "bfloat16"}, (32, 64, 1)),  # the height is split
        (8, {"dtype": "float32", "tf32": True}, (32, 128, 4)),
    ],
)
def test_tiles_are_small_where_one_product_is_stored_by_single_elements(stride, more, tile):
    odd = problem((32, 32), stride=stride, sizes=(32, 32), **more)
    odd = replace(odd, spec=replace(odd.spec, output_padding=(0, 0)))
    # Without a crop, and with the rest of the stride, lines of y are of whole words.
    whole = {"pads_begin": (0, 0), "pads_end": (0, 0), "output_padding": (stride - 3,) * 2}
    even = replace(odd, spec=replace(odd.spec, **whole))
    plain = heuristics.gemm_schedule(odd, Device(), fusing.fused_axes(odd))
    chosen = heuristics.choose(odd, Device())
    assert vector_width(odd, chosen) == 1
    assert (chosen.block_m, chosen.block_n, chosen.warps) == tile
    assert chosen.stages == 1 and chosen.fused == plain.fused == (True, stride == 4, True)
    exact, few = replace(odd, dtype="float32", tf32=False), replace(odd, batch=1, sizes=(2, 2))
    for other in (exact, few):
        assert heuristics.choose(other, Device()).stages > 1
    words = heuristics.gemm_schedule(even, Device(), plain.fused)
    assert vector_width(even, words) > 1
    assert single_stores(even, Device(), words) == words
    assert heuristics.choose(odd, Device("older", 80)) == plain


def test_tiles_are_powers_of_two_where_the_stride_is_none():
    spec = ConvTransposeSpec(64, 1, 1, (100,), (100,), (1,), (0,), (0,), (0,))
    p = Problem(spec, 8, (4000,), "float16", True, True)
    for schedule in heuristics.candidates(p, Device()):
        assert schedule.block_n & (schedule.block_n - 1) == 0, schedule


def test_parts_hold_all_columns_and_skip_what_no_phase_has():
    p = problem(channels=(32, 32), sizes=(64, 64))
    schedule = heuristics.choose(p, Device())
    parts = resident_parts(p, schedule)
    packing = packing_of(p, schedule)
    assert sum(parts.widths) * (packing.padded_columns // packing.tile_n) == packing.padded_columns
    # k3 s2: one phase of the height has one of the two shifts, the other has both.
    assert sorted(bits.bit_count() for bits in parts.blocks) == [2, 4]
    assert part_widths(288, 64, 1) == (64, 64, 64, 64, 32)
    assert part_widths(288, 128, 3) == (128,)
    assert part_widths(9, 64, 1) == (16,)


def test_zeros_are_split_off_in_three_dimensions_but_the_width_stays_fused():
    p = problem(sizes=(8, 8, 8))
    assert fusing.fused_axes(p) != (True, True, True)
    assert fusing.fused_axes(p)[2]


def test_tiles_shrink_until_every_processor_has_one():
    small = heuristics.choose(problem(batch=1, sizes=(16, 16)), Device())
    large = heuristics.choose(problem(batch=32), Device())
    assert small.block_m < large.block_m


def test_stores_are_as_wide_as_channels_or_lines_allow():
    for last, channels, sizes, width in [
        (True, (64, 32), (64, 64), 8),
        (True, (64, 12), (64, 64), 8),  # two pixels lie next to each other
        (True, (64, 5), (64, 64), 2),
        (False, (32, 32), (64, 64), 8),
        (False, (32, 32), (64, 66), 4),
    ]:
        p = problem(channels, sizes=sizes, channels_last_in=last, channels_last_out=last)
        assert vector_width(p, heuristics.choose(p, Device())) == width
    assert [largest_divisor(8, n) for n in (0, 6, 16)] == [8, 2, 8]


def test_packed_columns_hold_whole_tiles():
    for seed in range(60):
        p = drawn(seed)
        schedule = heuristics.gemm_schedule(p, Device(), fusing.fused_axes(p))
        packing = packing_of(p, schedule)
        assert packing.padded_columns % schedule.block_n == 0
        assert packing.rows % schedule.block_k == 0


@pytest.mark.parametrize(
    ("more", "device", "words"),
    [
        ({"sizes": (2, 2, 2, 2)}, Device(), "4 spatial axes"),
        ({"dtype": "float64"}, Device(), "type float64"),
        ({}, Device("old", 70), "compute capability 7.0"),
        ({"dtype": "bfloat16"}, Device("older", 75), "bfloat16 needs"),
    ],
)
def test_what_is_not_supported_says_why(more, device, words):
    answer = router.supports(problem(**more), device)
    assert not answer
    assert words in answer.reason


def test_too_many_rows_for_the_gemm_are_left_to_kernels_that_count_further():
    p = problem((1, 1), sizes=(40000, 40000), batch=2)
    gemm = heuristics.gemm_schedule(p, Device(), (True, True, True))
    assert "31 bits" in router.supports(p, Device(), gemm).reason
    assert heuristics.choose(p, Device()).kind == LINES


def test_wide_channels_are_left_to_the_library():
    wide = problem((512, 256), batch=4)
    assert "wide channels" in router.worth(wide, Device()).reason
    assert router.worth(problem(), Device())
    assert not router.worth(problem(dtype="float64"), Device())


def test_dividers_divide():
    from convt_onnx.plugins.conv_transpose.geometry import divider

    numbers = [0, 1, 2, 3, 12345, 2**30, 2**31 - 1]
    for q, m in itertools.product([1, 2, 3, 5, 7, 64, 65, 641, 12345, 2**30 + 1], numbers):
        multiplier, shift = divider(q)
        assert -(2**31) <= multiplier < 0
        assert (m * (multiplier + 2**32)) >> (31 + shift) == m // q
