"""inspect, and what other commands show of what it finds."""

from __future__ import annotations

import pytest

from convt_onnx.targets import TARGETS

from ..graph.building import array, model, write


def test_inspect(convt, source):
    done = convt("inspect", source)
    assert (done.code, done.err) == (0, "")
    for words in ("2 ConvTranspose", "up", "3->4 k5 s2", "constant", "N×3×L -> N×4×2*", "*"):
        assert words in done.out
    for target in TARGETS:
        assert target in done.out
    assert "overlap-add" not in done.out
    assert "overlap-add" in convt("inspect", source, "-v").out


CHAIN = """g (float[N,3,H,W] x, float[K] z) => (float[A,B,C,D] y) {
  [up] h = ConvTranspose <strides=[2,2]> (x, w) [far] y = ConvTranspose <strides=[3,2]> (h, v) }"""


@pytest.fixture
def chain(tmp_path):
    """Two nodes in a row, the second of which sees what the first makes."""
    return write(model(CHAIN, w=array(3, 4, 4, 3), v=array(4, 2, 3, 3)), tmp_path)


@pytest.mark.parametrize(
    ("options", "sizes", "assumed", "line"),
    [
        ((), [1, 128, 96], True, "costs are for x:1,3,128,96, z:128, assumed; --input-shapes"),
        (("x:2,3,5,7",), [2, 5, 7], True, "costs are for x:2,3,5,7, z:128, assumed"),
        (("x:2,3,5,7", "z:4"), [2, 5, 7], False, "costs are for x:2,3,5,7, z:4, as given"),
    ],
)
def test_inspect_carries_sizes_on_from_the_inputs(convt, chain, options, sizes, assumed, line):
    given = [word for text in options for word in ("--input-shapes", text)]
    up, far = convt("inspect", chain, "--json", *given).json["result"]["nodes"]
    batch, height, width = sizes
    for node, wanted in ((up, [height, width]), (far, [2 * height + 2, 2 * width + 1])):
        costs = node["costs"]
        assert (costs["batch"], costs["sizes"], costs["assumed"]) == (batch, wanted, assumed)
    out = convt("inspect", chain, *given).out
    assert line in out
    assert f" at batch {batch}, {2 * height + 2}×{2 * width + 1}" in out
    assert (" (assumed)" in out) is assumed


def test_inspect_names_a_length(convt, source):
    out = convt("inspect", source, "--input-shapes", "x:1,3,6400").out
    assert "GEMM and col2im) at batch 1, length 12,800\n" in out
    assert "KiB of input, weight and output\n" in out


@pytest.mark.parametrize(
    ("shapes", "what"),
    [(["z:1,3,7"], "no input 'z'"), (["x:1,4,7"], "does not fit"),
     (["x:1,3,7", "x:1,3,9"], "one input has several shapes"),
     (["x:1,3,7@2"], "a weight of sizes says nothing here")],
)  # fmt: skip
def test_inspect_refuses_sizes_that_do_not_fit(convt, source, shapes, what):
    options = [word for text in shapes for word in ("--input-shapes", text)]
    convt("inspect", source, *options).check_failed(2, what)


def test_inspect_one_target(convt, source):
    out = convt("inspect", source, "--target", "portable").out
    assert "portable" in out
    assert "ort-cpu" not in out
    convt("inspect", source, "--target", "cpu").check_failed(2, "no target 'cpu'", "ort-cpu")
    far = convt("inspect", source, "--target", "xyz").check_failed(2, "no target 'xyz'")
    assert far.err.count("portable") == far.err.count("tensorrt-rtx-1.4") == 1


def test_inspect_as_json(convt, source):
    done = convt("inspect", source, "--json")
    assert (done.code, done.err) == (0, "")
    found = done.json
    assert (found["schema_version"], found["kind"]) == (2, "inspect")
    up, down = found["result"]["nodes"]
    assert up["spec"]["strides"] == [2]
    assert up["input_shape"] == ["N", 3, "L"]
    assert up["costs"]["assumed"] is True
    assert [d["target"] for d in down["decisions"]] == list(TARGETS)
    assert all(len(d["candidates"]) > 5 for d in down["decisions"])


SHIFTED = "[up] y = ConvTranspose <output_shape=[10,15], strides=[2,2]> (x, w)"


@pytest.fixture
def shifted(tmp_path):
    """A model with a node that TensorRT reads wrongly."""
    text = f"g (float[2,4,5,7] x) => (float[A,B,C,D] y) {{ {SHIFTED} }}"
    return write(model(text, w=array(4, 3, 3, 4)), tmp_path, "shifted.onnx")


def test_inspect_tells_what_a_rewrite_repairs(convt, shifted):
    lines = convt("inspect", shifted).out.splitlines()
    (decision,) = [x for x in lines if x.startswith("  tensorrt-rtx keep")]
    assert decision.endswith("(repaired: CT505)")
    (gap,) = [x for x in lines if x.startswith("  tensorrt-rtx unmodified:")]
    assert "unmodified: would be wrong: CT505 TensorRT shifts an output_shape" in gap
    assert not any("repaired" in x for x in lines if x.startswith("  ort-cpu"))


def test_optimize_tells_what_was_wrong(convt, shifted, tmp_path):
    out = tmp_path / "out.onnx"
    done = convt("optimize", shifted, "-o", out, "--target", "tensorrt-rtx")
    assert "note: up, unmodified, would be wrong: CT505 TensorRT shifts" in done.err
    assert "CT505" not in convt("optimize", out, "--target", "tensorrt-rtx", "--dry-run").err
    assert "CT505" not in convt("optimize", shifted, "--target", "portable", "--dry-run").err


def test_names_of_nodes_are_shown_as_a_shell_takes_them(convt, tmp_path):
    text = "g (float[2,3,7] x) => (float[A,B,C] y) { y = ConvTranspose (x, w) }"
    source = write(model(text, w=array(3, 4, 5)), tmp_path, "unnamed.onnx")
    out = convt("inspect", source).out.splitlines()
    assert "'ConvTranspose->y'" in out
    done = convt("optimize", source, "--target", "portable", "--skip", "ConvTranspose->y")
    assert "'ConvTranspose->y'" in done.err


def test_inspect_a_model_without_any(convt, tmp_path):
    source = write(model("g (float[2] x) => (float[2] y) { y = Relu (x) }"), tmp_path)
    assert "0 ConvTranspose of 1 nodes" in convt("inspect", source).out


def test_inspect_tells_of_integer_variants(convt, tmp_path):
    text = """g (float[1,3,7] x) => (float[] y)
    { [a] y = com.example.QLinearConvTranspose (x, w, s) }"""
    proto = model(text, domains='"com.example" : 1', w=array(3, 4, 5), s=array())
    source = write(proto, tmp_path)
    assert "a: left alone: CT461" in convt("inspect", source).out
    (alone,) = convt("inspect", source, "--json").json["result"]["left_alone"]
    assert (alone["node"], alone["reason"]["id"]) == ("a", "CT461")


def test_inspect_tells_exact_costs(convt, tmp_path):
    text = """g (float[2,3,7] x) => (float[A,B,C] y)
    { y = ConvTranspose <strides=[2], pads=[1,0]> (x, w) }"""
    source = write(model(text, w=array(3, 4, 5)), tmp_path)
    (node,) = convt("inspect", source, "--json").json["result"]["nodes"]
    assert node["output_shape"] == [2, 4, 16]
    # Every tap of every row, but for the one that is cropped.
    assert node["costs"]["flops_native"] == 2 * 2 * 3 * 4 * 7 * 5
    assert node["costs"]["flops_exact"] == 2 * 2 * 3 * 4 * (7 * 5 - 1)
    assert node["costs"]["bytes"] == 4 * (2 * 3 * 7 + 3 * 4 * 5 + 2 * 4 * 16)
    assert node["costs"]["assumed"] is False
