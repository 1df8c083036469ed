from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convt_onnx.tuning.statistics import DOUBT, paired_ratio, timing

TIMES = st.floats(1e-6, 1e3)


def test_quartiles_in_microseconds():
    found = timing([4e-6, 1e-6, 3e-6, 2e-6, 5e-6])
    assert (found.low_us, found.median_us, found.high_us) == pytest.approx((2, 3, 4))
    assert found.runs == 5
    assert timing([2e-6]).high_us == pytest.approx(2)


def test_few_pairs_have_no_bounds():
    found = paired_ratio([2.0] * 7, [1.0] * 7)
    assert (found.median, found.low, found.high) == (2, 0, float("inf"))
    assert paired_ratio([2.0] * 8, [1.0] * 8).low == 2


def test_pairs_are_of_the_same_round():
    # The machine is ten times slower in every other round; the ratio is not.
    above, below = [2.0, 20.0] * 10, [1.0, 10.0] * 10
    found = paired_ratio(above, below)
    assert (found.low, found.median, found.high) == (2, 2, 2)


@pytest.mark.parametrize("n", [8, 11, 14])
def test_bounds_hold_the_median_as_often_as_they_say(n):
    """Every pattern of above and below the true median, all equally likely."""
    missed = 0
    for signs in product((0.5, 1.5), repeat=n):
        found = paired_ratio(signs, [1.0] * n)
        missed += not found.low <= 1 <= found.high
    assert 0 < missed / 2**n <= DOUBT


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=40))
def test_bounds_are_in_order(pairs):
    above, below = zip(*pairs, strict=True)
    found = paired_ratio(above, below)
    assert found.low <= found.median <= found.high
    turned = paired_ratio(below, above)
    if found.low > 0:
        assert turned.high == pytest.approx(1 / found.low)
