from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.cli.sizes import parse_size_sets
from convt_onnx.errors import UsageError

from ..graph.building import model, write


def read(*texts):
    return [(dict(s.shapes), s.weight) for s in parse_size_sets(texts)]


def test_one_set():
    assert read() == [({}, None)]
    assert read("x:1,3,7") == [({"x": (1, 3, 7)}, None)]
    assert read("x:1x3x7", "a:b:2") == [({"x": (1, 3, 7), "a:b": (2,)}, None)]


def test_several_sets():
    assert read("x:1,3", "x:2,3", "y:4") == [
        ({"x": (1, 3), "y": (4,)}, None),
        ({"x": (2, 3), "y": (4,)}, None),
    ]


def test_weights():
    assert read("x:1,3@9", "x:2,3@0.5") == [({"x": (1, 3)}, 9), ({"x": (2, 3)}, 0.5)]
    assert read("x:1@2", "y:1", "x:3@1", "y:3@1") == [
        ({"x": (1,), "y": (1,)}, 2),
        ({"x": (3,), "y": (3,)}, 1),
    ]


@pytest.mark.parametrize("text", ["x:1@", "x:1@a", "x:1@2@3", "x:@2", "@2", "x:0@2"])
def test_what_cannot_be_read(text):
    with pytest.raises(UsageError, match="cannot read the shape"):
        read(text)


@pytest.mark.parametrize("text", ["x:1@0", "x:1@-1", "x:1@inf", "x:1@nan"])
def test_weights_that_make_no_sense(text):
    with pytest.raises(UsageError, match="weight"):
        read(text)


def test_a_set_has_one_weight():
    with pytest.raises(UsageError, match="several weights"):
        read("x:1@2", "y:1@3")


def test_verify_takes_one_set(convt, source):
    shapes = ("--input-shapes", "x:1,3,7", "--input-shapes", "x:1,3,9")
    convt("verify", source, source, *shapes).check_failed(2, "one input has several shapes")


def test_verify_has_no_use_for_a_weight(convt, source):
    shapes = ("--input-shapes", "x:1,3,7@2")
    convt("verify", source, source, *shapes).check_failed(2, "a weight", "x:1,3,7@2", "leave out")


def test_optimize_times_each_set(convt, source, tmp_path, fake_runtime):
    fake_runtime({"ConvTranspose": 0.004}, rest=0.001)
    shapes = ("--input-shapes", "x:1,3,7@1", "--input-shapes", "x:2,3,9@3")
    done = convt("optimize", source, "--json", "--tune-cache", tmp_path / "c", *shapes)
    result = done.json["result"]
    assert result["tuning"]["rule"] == "weighted"
    assert result["tuning"]["nodes"][0]["x_shapes"] == [[1, 3, 7], [2, 3, 9]]
    assert [m["inputs"] for m in result["tuning"]["models"]] == ["x:1,3,7", "x:2,3,9"]
    assert result["verification"]["input_shapes"] == [{"x": [1, 3, 7]}, {"x": [2, 3, 9]}]
    assert result["verification"]["assumed_sizes"] is False
    assert "(assumed)" not in done.err


@pytest.mark.parametrize(
    ("shapes", "what"),
    [(["z:1,3,7"], "no input 'z'"), (["x:1,4,7"], "does not fit"),
     (["x:1,3,7", "x:1,4,7"], "does not fit")],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_refused_before_anything_is_timed(
    convt, source, monkeypatch, shapes, what
):
    def never(*_):
        raise AssertionError("timed")

    monkeypatch.setattr("convt_onnx.optimization.node_tuner", never)
    options = [part for shape in shapes for part in ("--input-shapes", shape)]
    convt("optimize", source, *options).check_failed(2, what)


@pytest.mark.parametrize("target", ["portable", "ort-cpu"])
@pytest.mark.parametrize("way", ["sizes", "weighted", "file"])
def test_costs_are_those_of_the_sizes_given(convt, source, tmp_path, target, way):
    np.savez(tmp_path / "x.npz", x=np.ones((5, 3, 7), np.float32))
    options = {
        "sizes": ("--input-shapes", "x:5,3,7"),
        "weighted": ("--input-shapes", "x:1,3,9@1", "--input-shapes", "x:5,3,7@3"),
        "file": ("--inputs", tmp_path / "x.npz"),
    }[way]
    done = convt("optimize", source, "--no-tune", "--target", target, "--json", *options)
    up, down = done.json["result"]["decisions"]
    for decision, size in ((up, 7), (down, 14)):
        costs = decision["costs"]
        assert (costs["batch"], costs["sizes"], costs["assumed"]) == (5, [size], False)
        assert decision["assumed_sizes"] is None
    works = [c["work"] for c in up["candidates"] if c["work"] is not None]
    assert works
    assert all(w["macs"] % 5 == 0 for w in works)


def test_sizes_that_no_input_says_stay_assumed(convt, source):
    done = convt("optimize", source, "--no-tune", "--target", "portable", "--json")
    costs = done.json["result"]["decisions"][0]["costs"]
    assert (costs["batch"], costs["sizes"], costs["assumed"]) == (1, [128], True)


def test_a_bad_file_of_inputs_is_refused_where_nothing_changes_too(convt, tmp_path):
    source = write(model("g (float[2] x) => (float[2] y) { y = Relu (x) }"), tmp_path)
    (tmp_path / "bad.npz").write_bytes(b"none")
    for options in ((), ("--no-verify",)):
        done = convt("optimize", source, "--inputs", tmp_path / "bad.npz", *options)
        done.check_failed(2, "cannot read inputs")
    np.savez(tmp_path / "other.npz", z=np.ones(2, np.float32))
    done = convt("optimize", source, "--inputs", tmp_path / "other.npz")
    done.check_failed(2, "no array for input 'x'")
    assert list(tmp_path.glob("*.convt.onnx")) == []
