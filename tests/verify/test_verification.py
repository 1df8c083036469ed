from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from convt_onnx import ConvtError, VerifyOptions, verify_files
from convt_onnx.errors import ExitCode, MissingPartError, UsageError, VerificationError
from convt_onnx.verify import session

from ..graph.building import array, model, write

CHAIN = """g (float[N,3,L] x) => (float[A,B,C] y, float[D,E,F] z) {
  [first] h = Relu (x) [up] u = ConvTranspose <strides=[2]> (h, w)
  [second] y = Tanh (u) [third] z = Exp (u) }"""
W = array(3, 4, 5)


@pytest.fixture
def verified(tmp_path):
    """Verify two models against each other."""

    def call(original, other, **options):
        first = write(original, tmp_path, "a.onnx")
        second = write(other, tmp_path, "b.onnx")
        return verify_files(first, second, VerifyOptions(**options))

    return call


def test_a_model_against_itself(verified):
    result = verified(model(CHAIN, w=W), model(CHAIN, w=W))
    assert result.ok
    assert [c.name for c in result.outputs] == ["y", "z"]
    assert all(c.max_abs == 0 and c.scale > 0 for c in result.outputs)
    assert result.first_difference is None
    assert result.input_origin == "random"
    assert result.input_shapes == ({"x": [2, 3, 13]},)
    assert result.arithmetic == "float32"
    assert result.notes == ()


@pytest.mark.parametrize(
    ("old", "new", "node"),
    [
        ("h = Relu", "h = Abs", "first"),
        ("strides=[2]", "strides=[2], pads=[1, 1], output_padding=[1]", "up"),
        ("z = Exp", "z = Sinh", "third"),
    ],
)
def test_the_first_node_that_differs_is_named(verified, old, new, node):
    result = verified(model(CHAIN, w=W), model(CHAIN.replace(old, new), w=W))
    assert not result.ok
    assert result.first_difference.startswith(node)


def test_other_weights_are_found(verified):
    result = verified(model(CHAIN, w=W), model(CHAIN, w=W + 0.01 * array(3, 4, 5, seed=1)))
    assert not result.ok
    assert result.first_difference.startswith("up")


def test_tolerances_are_the_users(verified):
    near = model(CHAIN, w=W + 1e-3 * array(3, 4, 5, seed=1))
    assert not verified(model(CHAIN, w=W), near).ok
    assert verified(model(CHAIN, w=W), near, atol=1.0).ok
    assert verified(model(CHAIN, w=W), near, rtol=10.0).ok
    assert not verified(model(CHAIN, w=W), near, atol=1e-9, rtol=1e-9).ok


def test_inputs_are_the_users(verified, tmp_path):
    np.savez(tmp_path / "in.npz", in_x=array(1, 3, 4))
    result = verified(model(CHAIN, w=W), model(CHAIN, w=W), inputs=tmp_path / "in.npz")
    assert (result.input_origin, result.input_shapes) == ("file", ({"x": [1, 3, 4]},))
    result = verified(model(CHAIN, w=W), model(CHAIN, w=W), input_shapes={"x": (1, 3, 6)})
    assert (result.input_origin, result.input_shapes) == ("random", ({"x": [1, 3, 6]},))


def test_a_wrong_shape_in_a_file_is_wrong_usage(verified, tmp_path):
    np.savez(tmp_path / "in.npz", x=array(1, 5, 4))
    with pytest.raises(UsageError, match="does not fit"):
        verified(model(CHAIN, w=W), model(CHAIN, w=W), inputs=tmp_path / "in.npz")


def test_larger_sizes_are_tried_where_small_ones_do_not_run(verified):
    text = "g (float[N,3,L] x) => (float[A,B,C] y) { y = AveragePool <kernel_shape=[40]> (x) }"
    assert verified(model(text), model(text)).input_shapes == ({"x": [2, 3, 64]},)


def test_a_model_that_runs_on_no_input(verified):
    text = "g (float[N,3] x, int64[2] s) => (float[A,B] y) { y = Reshape (x, s) }"
    with pytest.raises(ConvtError, match="does not run on random inputs") as caught:
        verified(model(text), model(text))
    assert "--input-shapes" in caught.value.help


@pytest.mark.parametrize(
    "other",
    [
        "g (float[3] x) => (float[3] z) { z = Relu (x) }",
        "g (float[3] x) => (float[3] y, float[3] z) { y = Relu (x) z = Neg (x) }",
    ],
)
def test_other_outputs(verified, other):
    text = "g (float[3] x) => (float[3] y) { y = Relu (x) }"
    for pair in ((text, other), (other, text)):
        with pytest.raises(VerificationError, match="have different") as caught:
            verified(*map(model, pair))
        assert caught.value.exit_code == ExitCode.CHECK_FAILED


@pytest.mark.parametrize(
    "other",
    [
        "g (float[3] u) => (float[3] y) { y = Relu (u) }",
        "g (float[3] x, float[3] u) => (float[3] y) { y = Relu (x) }",
    ],
)
def test_other_inputs_are_no_failed_check(verified, other):
    text = "g (float[3] x) => (float[3] y) { y = Relu (x) }"
    for pair in ((text, other), (other, text)):
        with pytest.raises(UsageError, match="different inputs") as caught:
            verified(*map(model, pair))
        assert caught.value.exit_code == ExitCode.USAGE


def test_initializers_that_are_inputs_need_not_be_fed(verified):
    text = "g (float[1,3,7] x) => (float[A,B,C] y) { y = ConvTranspose (x, w) }"
    listed = model(text.replace("x)", "x, float[3,4,5] w)", 1), opset=8, ir_version=3, w=W)
    assert verified(listed, model(text, opset=8, ir_version=4, w=W)).ok


def test_another_output_shape(verified):
    text = "g (float[3] x) => (float[N] y) { y = Pad (x, p) }"
    result = verified(
        model(text, p=np.array([0, 0])), model(text.replace("N]", "M]"), p=np.array([0, 1]))
    )
    assert not result.ok
    assert result.outputs[0].note == "shape [4], expected [3]"


def test_an_output_of_zeros_is_noted(verified):
    text = "g (float[3] x) => (float[3] y) { a = Abs (x) n = Neg (a) y = Relu (n) }"
    result = verified(model(text), model(text))
    assert result.ok
    assert any("proves little" in note for note in result.notes)


def test_sequences_are_compared(verified):
    text = "g (float[3] x) => (seq(float[3]) y) { h = Neg (x) y = SequenceConstruct (x, h) }"
    assert verified(model(text), model(text)).ok
    other = model(text.replace("(x, h)", "(x, x)"))
    assert [c.ok for c in verified(model(text), other).outputs] == [True, False]
    assert not verified(model(text), model(text.replace("(x, h)", "(x)"))).ok


def test_nan_that_the_model_makes_itself(verified):
    text = "g (float[9] x) => (float[9] y) { y = Sqrt (x) }"
    assert verified(model(text), model(text)).ok
    assert not verified(model(text), model(text.replace("Sqrt (x)", "Abs (x)"))).ok


def test_a_model_that_the_runtime_refuses(verified):
    good = "g (float[3] x) => (float[3] y) { y = Relu (x) }"
    bad = good.replace("Relu", "NoSuchOperator")
    with pytest.raises(VerificationError, match="does not run in ONNX Runtime") as caught:
        verified(model(good), model(bad))
    assert "NoSuchOperator" in caught.value.where
    with pytest.raises(ConvtError, match="does not load"):
        verified(model(bad), model(bad))


def test_half_precision_is_compared_in_float32(verified):
    text = CHAIN.replace("float", "float16")
    w = W.astype(np.float16)
    result = verified(model(text, w=w), model(text, w=w))
    assert result.ok
    assert result.arithmetic == "float32 twin"
    assert not verified(model(text, w=w), model(text.replace("Relu", "Abs"), w=w)).ok


@pytest.mark.parametrize(("kind", "step"), [("float16", 2**-10), ("bfloat16", 2**-7)])
def test_weights_of_a_narrow_float_may_be_some_steps_apart(verified, kind, step):
    text, narrow = CHAIN.replace("float", kind), ml_dtypes.finfo(kind).dtype
    before = model(text, opset=22, w=W.astype(narrow))
    for steps, ok in ((1, True), (50, False)):
        assert (
            verified(before, model(text, opset=22, w=(W * (1 + steps * step)).astype(narrow))).ok
            == ok
        )


def test_without_onnxruntime(verified, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(MissingPartError, match="onnxruntime is not installed") as caught:
        verified(model(CHAIN, w=W), model(CHAIN, w=W))
    assert caught.value.exit_code == ExitCode.MISSING_PART
    assert ".[cpu]" in caught.value.help


def test_external_data_of_both_files(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        proto = model(CHAIN, w=W)
        onnx.save(proto, tmp_path / name / "m.onnx", save_as_external_data=True, size_threshold=0)
    assert verify_files(tmp_path / "a" / "m.onnx", tmp_path / "b" / "m.onnx").ok
    data = next(p for p in (tmp_path / "b").iterdir() if p.name != "m.onnx")
    data.write_bytes(numpy_helper.to_array(model(CHAIN, w=W).graph.initializer[0])[::-1].tobytes())
    assert not verify_files(tmp_path / "a" / "m.onnx", tmp_path / "b" / "m.onnx").ok


def test_long_messages_of_the_runtime_become_one_line():
    text = session.one_line(RuntimeError("a\n b" * 1000))
    assert "\n" not in text
    assert len(text) < 410


def test_missing_files(tmp_path):
    with pytest.raises(ConvtError):
        verify_files(tmp_path / "no.onnx", Path("no.onnx"))
