"""Arithmetic on sizes: what is known holds for every size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convt_onnx.graph.bounds import (
    Affine,
    larger,
    parse_size,
    product,
    quotient,
    remainder,
    smaller,
)

H, W = Affine.symbol("H"), Affine.symbol("W")


def least(key):
    return 1


def at(a, **sizes):
    return a.constant + sum(f * sizes[k] for k, f in a.terms)


affine = st.builds(
    lambda c, h, w: H.times(h).plus(W.times(w)).plus(c),
    st.integers(-9, 9),
    st.integers(-4, 4),
    st.integers(-4, 4),
)
sizes = st.integers(1, 12)


@given(affine, affine, sizes, sizes)
def test_what_is_known_holds_at_every_size(a, b, h, w):
    x, y = at(a, H=h, W=w), at(b, H=h, W=w)
    assert at(a.plus(b), H=h, W=w) == x + y
    assert at(a.minus(b), H=h, W=w) == x - y
    for known, value in (
        (product(a, b), x * y),
        (larger(a, b, least), max(x, y)),
        (smaller(a, b, least), min(x, y)),
    ):
        assert known is None or at(known, H=h, W=w) == value
    low, high = a.lower(least), a.upper(least)
    assert low is None or low <= x
    assert high is None or x <= high


@given(affine, st.integers(-3, 6), sizes, sizes)
def test_division_is_exact_or_unknown(a, d, h, w):
    x = at(a, H=h, W=w)
    known = quotient(a, Affine(d), least)
    if known is not None:
        assert at(known, H=h, W=w) == x // d == int(x / d)
    known = remainder(a, Affine(d), least)
    if known is not None:
        assert at(known, H=h, W=w) == x % d == np.fmod(x, d)


def test_division_that_no_size_rounds():
    assert quotient(H.times(2).plus(1), Affine(2), least) == H
    assert quotient(H, Affine(2), least) is None
    assert quotient(Affine(-3), Affine(2), least) is None
    assert remainder(H.times(4).plus(7), Affine(2), least) == Affine(1)


def test_larger_only_where_one_always_is():
    assert larger(H.plus(-1), Affine(0), least) == H.plus(-1)
    assert larger(H.times(-1), Affine(0), least) == Affine(0)
    assert larger(H.plus(-2), Affine(0), least) is None
    assert larger(H, W, least) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("H", H),
        ("2*H + 1", H.times(2).plus(1)),
        ("-W + 3*(H - 1)", H.times(3).minus(W).plus(-3)),
        ("H - H + 4", Affine(4)),
        ("floor(H/2)", Affine.symbol("floor(H/2)")),
        ("H*W", Affine.symbol("H*W")),
    ],
)
def test_sizes_as_text(text, wanted):
    assert parse_size(text) == wanted


@pytest.mark.parametrize("text", ["None", "unk__12", "?", "-1", "", "unknown", "a b"])
def test_names_that_say_nothing(text):
    assert parse_size(text) is None


def test_text_of_an_expression():
    assert str(H.times(2).plus(W).plus(-3)) == "2*H + W + -3"
    assert str(Affine(0)) == "0"
