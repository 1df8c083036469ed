from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from convt_onnx.verify import Tolerance
from convt_onnx.verify import compare as comparing
from convt_onnx.verify.compare import TINY, Comparison, compare

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


def at_once(got, wanted, tolerance):
    """The same comparison, of whole arrays."""
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    scale = float(np.abs(b[finite]).max())
    difference = np.where(finite, np.abs(np.where(finite, a - b, 0)), 0)
    allowed = tolerance.absolute(scale) + tolerance.rtol * np.abs(np.where(finite, b, 0))
    ratio = difference / np.maximum(allowed, TINY)
    index = tuple(int(i) for i in np.unravel_index(int(ratio.argmax()), ratio.shape))
    beyond, worst = float((ratio > 1).mean()), float(difference.max())
    ok, excess = beyond <= tolerance.share, float(ratio.max())
    return Comparison(
        "y", ok, worst, worst / scale, scale, excess, index, beyond, "", float(allowed[index])
    )


@pytest.mark.parametrize("chunk", [1, 7, 104, 105, 1 << 20])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("tolerance", [T, Tolerance(share=0.4), Tolerance(rtol=0, atol=0)])
def test_in_pieces_as_at_once(monkeypatch, chunk, dtype, tolerance):
    monkeypatch.setattr(comparing, "CHUNK", chunk)
    rng = np.random.default_rng(chunk)
    wanted = (rng.standard_normal((3, 5, 7)) * 4).astype(dtype)
    got = (wanted + rng.choice([0, 0, 1e-3, 1], wanted.shape)).astype(dtype)
    if dtype != np.int32:
        got[0, 4, 3] = wanted[0, 4, 3] = np.nan
        got[2, 0, 6] = wanted[2, 0, 6] = -np.inf
    with np.errstate(invalid="ignore"):
        assert compare("y", got, wanted, tolerance) == at_once(got, wanted, tolerance)
        turned = compare("y", got.transpose(2, 0, 1), wanted.transpose(2, 0, 1), tolerance)
        assert turned == at_once(got.transpose(2, 0, 1), wanted.transpose(2, 0, 1), tolerance)


def test_equal_excesses_name_the_first_over_all_pieces(monkeypatch):
    monkeypatch.setattr(comparing, "CHUNK", 4)
    wanted = np.ones((3, 5))
    got = wanted.copy()
    got[1, 1] = got[2, 3] = 2
    assert compare("y", got, wanted, T).index == (1, 1)


@pytest.mark.parametrize("place", [(0, 0), (2, 4)])
def test_nan_is_found_in_any_piece(monkeypatch, place):
    monkeypatch.setattr(comparing, "CHUNK", 4)
    wanted, got = np.ones((3, 5)), np.ones((3, 5))
    got[place] = np.nan
    assert compare("y", got, wanted, T).note == "NaN or infinity"


def test_memory_is_that_of_a_piece():
    """Five pieces in float64 and masks, not five times the output in float64."""
    wanted = np.ones((3, 1 << 21), np.float32)
    got = wanted.copy()
    tracemalloc.start()
    assert compare("y", got, wanted, T).ok
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.5 * wanted.nbytes
