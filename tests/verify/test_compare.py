from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.verify import Tolerance
from convt_onnx.verify.compare import compare

A = np.array([[1.0, -2.0], [0.5, 4.0]], np.float32)
T = Tolerance(atol=0.01, rtol=0.001)
NAN, INF = np.nan, np.inf


def changed(index, value):
    b = A.copy()
    b[index] = value
    return b


def test_equal_tensors():
    c = compare("y", A, A.copy(), T)
    assert c.ok
    assert (c.name, c.max_abs, c.excess, c.beyond, c.note) == ("y", 0, 0, 0, "")
    assert c.scale == 4


def test_both_parts_of_the_tolerance_add_up():
    # 4 allows 0.01 + 0.004, 0.5 allows 0.01 + 0.0005.
    assert compare("y", changed((1, 1), 4.0139), A, T).ok
    assert not compare("y", changed((1, 1), 4.0141), A, T).ok
    assert compare("y", changed((1, 0), 0.5104), A, T).ok
    assert not compare("y", changed((1, 0), 0.5106), A, T).ok


def test_the_worst_place_is_named():
    c = compare("y", changed((0, 1), -2.5), A, T)
    assert not c.ok
    assert c.index == (0, 1)
    assert c.max_abs == pytest.approx(0.5)
    assert c.max_rel == pytest.approx(0.5 / 4)
    assert c.excess == pytest.approx(0.5 / 0.012)
    assert c.beyond == 0.25


def test_the_worst_place_is_where_the_least_is_allowed():
    b = A + np.array([[0, 0], [0.012, 0.013]], np.float32)
    assert compare("y", b, A, T).index == (1, 0)


def test_without_an_absolute_tolerance_the_scale_decides():
    relative = Tolerance(rtol=0, relative_atol=1e-3)
    assert compare("y", changed((1, 0), 0.5039), A, relative).ok
    assert not compare("y", changed((1, 0), 0.5041), A, relative).ok
    assert compare("y", 1e-2 * changed((1, 0), 0.5039), 1e-2 * A, relative).ok
    assert not compare("y", 1e-2 * changed((1, 0), 0.5041), 1e-2 * A, relative).ok


def test_the_absolute_tolerance_has_a_floor():
    tiny = Tolerance(rtol=0)
    wanted = np.full((2, 2), 1e-6)
    assert compare("y", wanted + 4e-7, wanted, tiny).ok
    assert not compare("y", wanted + 6e-7, wanted, tiny).ok
    assert not compare("y", wanted + 4e-7, wanted, Tolerance(atol=1e-8, rtol=0)).ok


def test_a_share_of_the_elements_may_be_beyond():
    b, wanted = np.zeros(1000), np.ones(1000)
    b[3:] = 1
    assert compare("y", b, wanted, Tolerance(atol=0.1, share=0.003)).ok
    assert not compare("y", b, wanted, Tolerance(atol=0.1, share=0.002)).ok


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_nan_and_infinity_must_be_where_they_were(value):
    special = changed((0, 1), value)
    assert compare("y", special, special.copy(), T).ok
    for got, wanted in ((special, A), (A, special), (changed((1, 1), value), special)):
        c = compare("y", got, wanted, T)
        assert not c.ok
        assert c.note == "NaN or infinity"
    assert not compare("y", changed((0, 1), NAN if value == INF else INF), special, T).ok


def test_the_finite_rest_is_compared_beside_nan():
    special = changed((0, 1), NAN)
    wrong = special.copy()
    wrong[0, 0] = 2
    assert not compare("y", wrong, special, T).ok


@pytest.mark.parametrize("shape", [(4,), (2, 2, 1), (2, 1), (0, 2)])
def test_another_shape(shape):
    c = compare("y", np.zeros(shape, np.float32), A, T)
    assert not c.ok
    assert c.note == f"shape {list(shape)}, expected [2, 2]"


def test_a_missing_and_a_new_result():
    assert compare("y", None, A, T).note == "missing"
    assert compare("y", A, None, T).note == "not in the original"
    assert not compare("y", None, A, T).ok
    assert not compare("y", A, None, T).ok


def test_a_reference_of_zeros_must_be_met():
    zeros = np.zeros_like(A)
    c = compare("y", zeros, zeros, Tolerance())
    assert c.ok
    assert c.scale == 0
    assert not compare("y", A, zeros, Tolerance()).ok
    assert not compare("y", A, zeros, T).ok


@pytest.mark.parametrize(
    ("wanted", "other"),
    [
        (np.array([True, False]), np.array([True, True])),
        (np.array(["a", "b"]), np.array(["a", "c"])),
        (np.arange(5), np.array([0, 1, 2, 3, 5])),
    ],
)
def test_what_is_not_a_float(wanted, other):
    assert compare("y", wanted.copy(), wanted, Tolerance()).ok
    assert not compare("y", other, wanted, Tolerance()).ok


def test_empty_tensors():
    empty = np.zeros((0, 3), np.float32)
    assert compare("y", empty, empty, T).ok
