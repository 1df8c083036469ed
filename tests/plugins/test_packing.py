"""Geometry and packing against the definition, tap by tap: no kernel."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from convt_onnx.plugins.conv_transpose.geometry import fusable, lifted_axes, plan_axis
from convt_onnx.plugins.conv_transpose.packing import Packing, gather_index, pack, unpack
from convt_onnx.spec import Axis

from .drawing import draw_spec


def axes(limit=9):
    for k, s, d in itertools.product(range(1, limit), range(1, 6), range(1, 5)):
        for begin in (-3, 0, 1, 4, 7):
            yield Axis(k, s, d, begin, 0)


def reads_of_fused(plan, axis):
    return {
        (plan.tap(block, phase), phase, plan.first + block * plan.step)
        for block in range(plan.blocks)
        for phase in range(plan.phases)
        if plan.tap(block, phase) >= 0
    }


@pytest.mark.parametrize("aligned", [True, False])
def test_each_tap_has_the_phase_and_shift_of_the_definition(aligned):
    for axis in axes():
        plan = plan_axis(axis, fused=False, aligned=aligned)
        assert 0 <= plan.crop < axis.stride
        assert plan.base + plan.crop == axis.begin
        if not fusable(axis):
            continue
        plan = plan_axis(axis, fused=True, aligned=aligned)
        want = {
            (k, *divmod(k * axis.dilation - plan.base, axis.stride)[::-1])
            for k in range(axis.kernel)
        }
        assert reads_of_fused(plan, axis) == want


def test_the_inverse_finds_the_first_tap_of_a_phase():
    for axis in axes():
        plan = plan_axis(axis, fused=False, aligned=True)
        gcd = axis.stride // plan.tap_step
        for phase in range(axis.stride):
            residue = (phase + plan.base) % axis.stride
            first = (residue // gcd * plan.inverse) % plan.tap_step
            taps = range(first, axis.kernel, plan.tap_step) if residue % gcd == 0 else ()
            assert [k for k, _ in axis.phase_taps(plan.base + phase)] == list(taps)


def test_dilated_strided_axes_with_uneven_shifts_are_not_fusable():
    assert not fusable(Axis(4, 2, 3, 0, 0))
    assert fusable(Axis(4, 2, 2, 1, 0))
    assert fusable(Axis(4, 1, 3, 1, 0))


@pytest.mark.parametrize("seed", range(20))
def test_every_tap_is_packed_once_a_group_and_the_rest_is_zero(seed):
    rng = random.Random(seed)
    spec = draw_spec(rng).canonical()
    plans = tuple(
        plan_axis(a, fused=fusable(a) and rng.random() < 0.6, aligned=rng.random() < 0.5)
        for a in lifted_axes(spec)
    )
    packing = Packing(
        plans,
        spec.group,
        spec.in_per_group,
        spec.out_per_group,
        tile_k=16,
        tile_n=32,
        flat=rng.random() < 0.5,
        interleave=rng.random() < 0.5,
        k_major=rng.random() < 0.5,
    )
    weight = np.arange(1, 1 + np.prod(spec.weight_shape)).reshape(spec.weight_shape)
    packed = pack(weight, packing)
    assert packed.shape == packing.shape
    assert packed.shape[-1] % (16 if packing.k_major else 32) == 0
    assert sorted(packed[packed != 0]) == sorted(weight.reshape(-1))
    assert (gather_index(packing) < weight.size).all()


def test_phases_of_the_width_are_neighbours_when_interleaved_and_padded_to_a_power_of_two():
    axis = Axis(3, 3, 1, 0, 0)
    unit = Axis(1, 1, 1, 0, 0)
    plans = tuple(plan_axis(a, fused=True, aligned=True) for a in (unit, unit, axis))
    packing = Packing(plans, 1, 1, 2, tile_k=1, tile_n=8, interleave=True)
    weight = np.array([[[1, 2, 3], [4, 5, 6]]])
    assert pack(weight, packing).reshape(-1).tolist() == [1, 2, 3, 0, 4, 5, 6, 0]


@pytest.mark.parametrize("interleave", [False, True])
def test_groups_computed_as_one_are_packed_as_their_weights_on_a_diagonal(interleave):
    unit = Axis(1, 1, 1, 0, 0)
    plans = tuple(plan_axis(a, fused=True, aligned=True) for a in (unit, unit, Axis(4, 3, 1, 1, 0)))
    weight = np.arange(1, 1 + 12 * 2 * 4).reshape(12, 2, 1, 1, 4)  # six groups, 2 channels in each
    diagonal = np.zeros((12, 6, 1, 1, 4), weight.dtype)
    for channel in range(12):
        first = channel // 2 % 3 * 2
        diagonal[channel, first : first + 2] = weight[channel]
    dense = Packing(plans, 2, 6, 6, tile_k=4, tile_n=16, interleave=interleave)
    merged = replace(dense, merge=3)
    packed = pack(weight, merged)
    assert np.array_equal(packed, pack(diagonal, dense))
    assert np.array_equal(unpack(packed, merged), weight)
