from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.errors import UsageError
from convt_onnx.verify import inputs
from convt_onnx.verify.inputs import candidates, from_file

FLOAT = "tensor(float)"
IMAGE = [("x", FLOAT, ["N", 3, "H", "W"])]


def shapes(described, given=None, seed=0):
    return [tuple(i.shapes.values()) for i in candidates(described, given or {}, seed)]


@pytest.fixture
def npz(tmp_path):
    def save(**arrays):
        path = tmp_path / "in.npz"
        np.savez(path, **arrays)
        return path

    return save


@pytest.mark.parametrize(
    ("described", "given", "assumed"),
    [
        ([("x", FLOAT, [1, 3, 8, 6])], {}, False),
        (IMAGE, {}, True),
        (IMAGE, {"x": (1, 3, 8, 6)}, False),
        ([*IMAGE, ("s", FLOAT, ["N", "H"])], {"x": (1, 3, 8, 6)}, False),
        ([*IMAGE, ("s", FLOAT, ["N", "K"])], {"x": (1, 3, 8, 6)}, True),
        ([*IMAGE, ("s", FLOAT, [None])], {"x": (1, 3, 8, 6)}, True),
    ],
)
def test_sizes_that_the_user_did_not_give_are_assumed(described, given, assumed):
    first = next(candidates(described, given, 0))
    assert first.assumed == assumed
    assert first.words.endswith(" (assumed)") == assumed


# From a file.


@pytest.mark.parametrize("key", ["x", "in_x"])
def test_names_with_and_without_prefix(npz, key):
    x = np.arange(24, dtype=np.float32).reshape(1, 3, 4, 2)
    found = from_file(npz(**{key: x, "out_y": x}), IMAGE)
    assert found.origin == "file"
    assert found.shapes == {"x": [1, 3, 4, 2]}
    np.testing.assert_array_equal(found.arrays["x"], x)


def test_the_exact_name_goes_before_the_prefixed_one(npz):
    found = from_file(npz(x=np.ones(2), in_x=np.zeros(2)), [("x", FLOAT, [2])])
    assert found.arrays["x"].tolist() == [1, 1]


def test_values_are_brought_to_the_type_of_the_input(npz):
    found = from_file(npz(x=np.ones(2)), [("x", "tensor(float16)", [2])])
    assert found.arrays["x"].dtype == np.float16


@pytest.mark.parametrize("shape", [(1, 3, 4), (1, 4, 4, 2), (1, 3, 4, 2, 1)])
def test_a_shape_that_does_not_fit(npz, shape):
    with pytest.raises(UsageError, match="'x' does not fit") as caught:
        from_file(npz(x=np.zeros(shape)), IMAGE)
    assert str(list(shape)) in caught.value.where
    assert caught.value.help


def test_a_missing_array(npz):
    with pytest.raises(UsageError, match="no array for input 'x'") as caught:
        from_file(npz(xx=np.zeros(2)), [("x", FLOAT, [2])])
    assert "it has xx" in caught.value.where
    assert caught.value.help


def test_pickled_arrays_are_refused(npz):
    path = npz(x=np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(UsageError, match="cannot read inputs") as caught:
        from_file(path, [("x", FLOAT, [2])])
    assert "allow_pickle" in caught.value.where


@pytest.mark.parametrize("content", [b"", b"text", b"PK\3\4 cut", b"\x80\4pickle", None])
def test_a_file_that_is_no_npz(tmp_path, content):
    path = tmp_path / "in.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="cannot read inputs") as caught:
        from_file(path, IMAGE)
    assert caught.value.help


def test_a_truncated_npz(npz):
    path = npz(x=np.random.default_rng(0).standard_normal(1000))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UsageError, match="cannot read inputs"):
        from_file(path, [("x", FLOAT, [1000])])


def test_a_single_array_file(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros(2))
    with pytest.raises(UsageError, match="cannot read inputs"):
        from_file(path, [("x", FLOAT, [2])])


# Random.


def test_open_sizes_are_odd_and_unequal_first_and_larger_later():
    tried = shapes(IMAGE)
    assert tried[0] == ([2, 3, 13, 11],)
    assert len(tried) == len({str(t) for t in tried})
    assert [t[0][2] for t in tried] == sorted(t[0][2] for t in tried)


def test_one_try_where_nothing_is_open():
    assert shapes([("x", FLOAT, [1, 3, 7])]) == [([1, 3, 7],)]


def test_a_symbol_has_one_size_everywhere():
    described = [("a", FLOAT, ["N", "T", 4]), ("b", FLOAT, ["N", 4, "T"]), ("m", FLOAT, ["T"])]
    tried = shapes(described)
    assert len(tried) > 2
    for a, b, m in tried:
        assert a[0] == b[0]
        assert a[1] == b[2] == m[0]


def test_given_shapes_are_used_and_bind_their_symbols():
    described = [("b", FLOAT, ["N", 4, "T"]), ("a", FLOAT, ["N", "T"])]
    assert shapes(described, {"a": (5, 17)}) == [([5, 4, 17], [5, 17])]


def test_unnamed_open_axes_may_differ():
    (first, *_) = shapes([("x", FLOAT, [None, 3, None, None])])
    assert first == ([2, 3, 13, 11],)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"y": (1, 3, 4, 4)}, "no input 'y'"),
        ({"x": (1, 3, 4)}, "'x' does not fit"),
        ({"x": (1, 5, 4, 4)}, "'x' does not fit"),
    ],
)
def test_shapes_that_do_not_fit(given, words):
    with pytest.raises(UsageError, match=words) as caught:
        shapes(IMAGE, given)
    assert caught.value.help


def test_a_seed_gives_the_same_values_again():
    described = [("x", FLOAT, [1, 3, 7]), ("i", "tensor(int64)", [5])]
    first, again, other = (next(candidates(described, {}, s)) for s in (1, 1, 2))
    for name in ("x", "i"):
        np.testing.assert_array_equal(first.arrays[name], again.arrays[name])
    assert not np.array_equal(first.arrays["x"], other.arrays["x"])


@pytest.mark.parametrize("kind", inputs.TYPES)
def test_every_type_gets_values_that_are_not_all_equal(kind):
    array = next(candidates([("x", kind, [4, 50])], {}, 0)).arrays["x"]
    assert array.dtype == inputs.TYPES[kind]
    assert len(np.unique(array)) > 1


def test_a_type_that_cannot_be_made():
    with pytest.raises(UsageError, match=r"tensor\(string\)") as caught:
        shapes([("x", "tensor(string)", [1])])
    assert "--inputs" in caught.value.help


@pytest.mark.parametrize("size", [10**6, 10**12])
def test_a_huge_input_is_refused_before_it_is_made(size):
    with pytest.raises(UsageError, match="too large"):
        shapes([("x", FLOAT, [size, size])])
