"""Two files compared node by node."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from convt_onnx import OptimizeOptions, compare_files, optimize
from convt_onnx.errors import ModelError

from .graph.building import array, ints, model, with_function, write

TEXT = """g (float[N,3,L] x) => (float[A,B,C] y) {
  [up] h = ConvTranspose <strides=[2], auto_pad="SAME_UPPER"> (x, w)
  r = Relu (h)
  [down] y = ConvTranspose (r, v) }"""

DEFAULTS = (("auto_pad", "NOTSET"), ("group", 1))


def two(**changes):
    return model(TEXT, **({"w": array(3, 4, 5), "v": array(4, 2, 3)} | changes))


@pytest.fixture
def source(tmp_path):
    return write(two(), tmp_path)


@pytest.fixture
def rewritten(source):
    """Optimise the source and compare with it."""

    def call(proto=None, **options):
        path = source if proto is None else write(proto, source.parent, "other.onnx")
        result = optimize(path, options=OptimizeOptions(force=True, **options))
        return compare_files(path, result.output)

    return call


def statuses(comparison):
    return {n.path: n.status for n in comparison.nodes}


def test_the_same_file(source):
    result = compare_files(source, source)
    assert statuses(result) == {"up": "same", "down": "same"}
    assert result.before == result.after
    assert result.added == result.interface == ()
    assert result.before.nodes == 3
    assert result.before.ops == {"ConvTranspose": 2, "Relu": 1}
    assert result.before.initializer_bytes == 4 * (3 * 4 * 5 + 4 * 2 * 3)
    assert result.before.inputs == {"x": "FLOAT[N,3,L]"}


def test_rewritten_nodes_name_what_they_became(rewritten):
    result = rewritten(target="portable", forms={"up": "phases", "down": "conv"})
    up, down = result.nodes
    assert (up.status, up.value) == ("rewritten", "h")
    assert up.ops_before == ("ConvTranspose",)
    assert up.ops_after[0] == "Conv" and len(up.ops_after) > 1
    assert (down.status, down.value, down.ops_after) == ("rewritten", "y", ("Conv",))
    assert up.spec_before.kernel == (5,)
    assert up.spec_after is None
    assert up.bytes_before == 4 * 3 * 4 * 5
    assert up.bytes_after > up.bytes_before
    assert result.after.ops["Conv"] == 2
    assert result.added == ()


def test_a_kept_node_tells_what_of_it_changed(rewritten):
    result = rewritten(forms={"all": "keep"})
    up = result.nodes[0]
    assert up.status == "changed"
    assert up.spec_after.pads_begin == (1,)
    assert any(line.startswith("auto_pad: SAME_UPPER -> ") for line in up.attributes)
    assert any(line.startswith("pads: - -> [") for line in up.attributes)
    assert not any(line.startswith(("weight", "strides")) for line in up.attributes)


def test_a_default_that_is_written_out_is_no_change(source, tmp_path):
    proto = onnx.load(source)
    down = proto.graph.node[2]
    down.attribute.extend(onnx.helper.make_attribute(*a) for a in DEFAULTS)
    result = compare_files(source, write(proto, tmp_path, "other.onnx"))
    assert statuses(result) == {"up": "same", "down": "same"}


def test_a_changed_weight_is_seen(source, tmp_path):
    other = write(two(w=array(3, 4, 5, seed=1)), tmp_path, "other.onnx")
    up, down = compare_files(source, other).nodes
    assert up.attributes == ("weight: FLOAT[3,4,5] -> FLOAT[3,4,5]",)
    assert (up.status, down.status) == ("changed", "same")
    text = TEXT.replace("(r, v)", "(r, v, b)")
    biased = model(text, w=array(3, 4, 5), v=array(4, 2, 3), b=array(2))
    _, down = compare_files(source, write(biased, tmp_path, "third.onnx")).nodes
    assert down.attributes == ("bias: - -> FLOAT[2]",)


def test_what_is_folded_around_a_node_belongs_to_it(rewritten):
    text = """g (float[1,3,9] x) => (float[A,B,C] y) {
      [up] h = ConvTranspose <strides=[2]> (x, w)
      [cut] c = Slice (h, starts, ends, axes) m = Mul (c, scale) y = Relu (m) }"""
    proto = model(
        text,
        w=array(3, 4, 5),
        starts=ints(1),
        ends=ints(-1),
        axes=ints(2),
        scale=np.array(2.0, np.float32),
    )
    (up,) = rewritten(proto, forms={"all": "keep"}).nodes
    assert up.ops_before == ("ConvTranspose", "Slice", "Mul")
    assert up.ops_after == ("ConvTranspose",)
    assert (up.status, up.value) == ("changed", "m")


def test_a_crop_of_computed_bounds_belongs_to_its_node(corpus, tmp_path):
    source = corpus / "corpus/architectures/tf2onnx_unet_dynamic.onnx"
    result = optimize(
        source, tmp_path / "out.onnx", OptimizeOptions(verify=False, forms={"all": "keep"})
    )
    found = compare_files(source, result.output)
    assert len(found.nodes) == 3
    for node in found.nodes:
        assert {"Shape", "Slice", "ConvTranspose"} <= set(node.ops_before)
        assert node.ops_after == ("ConvTranspose",)
    assert found.added == ()


SUBGRAPH = """g (float[1,3,5] x, bool c) => (float[A,B,D] y) {
  y = If (c) <
    then_branch = t () => (float[A,B,D] o) { [in_then] o = ConvTranspose (x, w) },
    else_branch = e () => (float[A,B,D] o) {
      [in_else] o = ConvTranspose <strides=[2]> (x, w) }> }"""


def test_branches_are_matched_with_their_own_kind(rewritten):
    proto = model(SUBGRAPH, w=array(3, 4, 5))
    result = rewritten(proto, target="portable", forms={"in_else": "phases"}, verify=False)
    assert statuses(result) == {"in_then": "rewritten", "in_else": "rewritten"}
    changes = {n.path: n for n in result.nodes}
    assert changes["in_then"].ops_after == ("Conv",)
    assert len(changes["in_else"].ops_after) > 1


def test_a_function_that_is_gone_is_told(tmp_path):
    main_text = "g (float[1,3,5] x) => (float[A,B,C] y) { y = f.Up (x, w) }"
    body = "Up (a, b) => (c) { [inner] c = ConvTranspose (a, b) }"
    before = write(with_function(main_text, body, w=array(3, 4, 5)), tmp_path, "a.onnx")
    plain = "g (float[1,3,5] x) => (float[A,B,C] y) { [n] y = ConvTranspose (x, w) }"
    after = write(model(plain, w=array(3, 4, 5)), tmp_path, "b.onnx")
    result = compare_files(before, after)
    (node,) = result.nodes
    assert node.status == "unknown"
    assert "inlined" in node.note
    assert result.added == ("n",)
    assert (result.before.functions, result.after.functions) == (1, 0)
    assert statuses(compare_files(before, before)) == {"f:Up/inner": "same"}


def test_unrelated_models(source, tmp_path):
    text = """g (double[4] a) => (double[4] b) { c = Sin (a) b = Cos (c) }"""
    other = write(model(text, opset=15), tmp_path, "other.onnx")
    result = compare_files(source, other)
    assert statuses(result) == {"up": "unknown", "down": "unknown"}
    assert result.interface == (
        "input 'x' is gone: FLOAT[N,3,L]",
        "input 'a' is new: DOUBLE[4]",
        "output 'y' is gone: FLOAT[A,B,C]",
        "output 'b' is new: DOUBLE[4]",
    )
    back = compare_files(other, source)
    assert back.nodes == ()
    assert back.added == ("up", "down")


def test_same_names_of_other_things_are_no_counterpart(source, tmp_path):
    """Exporters number values, so that unrelated models share names."""
    text = "g (float[N,3,L] q) => (float[N,3,L] y) { h = Sin (q) y = Cos (h) }"
    result = compare_files(source, write(model(text), tmp_path, "other.onnx"))
    assert statuses(result)["up"] == "unknown"


def test_a_file_that_is_no_model(source, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no")
    with pytest.raises(ModelError):
        compare_files(source, tmp_path / "bad.onnx")


def test_the_table(convt, source):
    result = optimize(source, options=OptimizeOptions(target="portable", forms={"up": "phases"}))
    done = convt("compare", source, result.output)
    assert (done.code, done.err) == (0, "")
    flat = " ".join(done.out.split())
    for words in (
        "up: rewritten",
        "3->4 k5 s2",
        "ConvTranspose -> Conv",
        "up to value 'h'",
        "ConvTranspose 2 0",
        "opset 17 17",
    ):
        assert words in flat
    done = convt("compare", source, source)
    assert (done.code, "up:" in done.out) == (0, False)
    assert "2 of 2 ConvTranspose nodes are the same" in done.out
    assert "up: same" in convt("compare", source, source, "-v").out


def test_json_says_what_python_says(convt, source, tmp_path):
    other = write(two(w=array(3, 4, 5, seed=1)), tmp_path, "other.onnx")
    done = convt("compare", source, other, "--json")
    found = done.json
    assert (done.code, found["kind"]) == (0, "compare")
    assert found["result"]["nodes"][0]["attributes"] == ["weight: FLOAT[3,4,5] -> FLOAT[3,4,5]"]
    assert found["result"]["before"]["path"] == str(source)


def test_hostile_names_are_not_markup(convt, source, tmp_path):
    proto = two()
    proto.graph.node[0].name = "[bold red]x[/]"
    proto.graph.node[0].output[0] = proto.graph.node[1].input[0] = "[/nothing]"
    path = write(proto, tmp_path, "[b].onnx")
    done = convt("compare", path, path, "-v")
    assert done.code == 0
    assert "'[bold red]x[/]': same" in done.out
    assert "'[/nothing]'" in done.out
    assert "[b].onnx" in done.out
    assert onnx.load(path).graph.node[0].name == "[bold red]x[/]"


def test_a_missing_file(convt, source):
    convt("compare", source, "no.onnx").check_failed(2, "error: cannot read no.onnx")
