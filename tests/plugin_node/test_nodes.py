"""Models whose nodes the plugin computes: what is written, that it runs, and the way back."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import onnx
import pytest

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.errors import UsageError
from convt_onnx.tuning.options import TuneOptions

from ..graph.building import (
    array,
    braces,
    initializer_names,
    model,
    op_types,
    with_function,
    write,
)
from ..verify.judging import assert_same, random_feeds

UNTIMED = TuneOptions(enabled=False)
UP = "ConvTranspose <strides = [2, 3], pads = [1, 0, 0, 2], output_padding = [1, 0]>"
GRAPH = "g (float[n, 6, h, 5] x) => (float[] y) {{ {body} }}"


@pytest.fixture
def plugged(tmp_path):
    """Optimise with the plugin: the model before and after, and the result."""

    def call(proto, target="tensorrt-rtx", **options):
        source = write(proto, tmp_path, "before.onnx")
        options = {"plugin": True, "force": True, "tune": UNTIMED} | options
        result = optimize(source, options=OptimizeOptions(target=target, **options))
        after = onnx.load(result.output)
        onnx.checker.check_model(after, full_check=True)
        assert result.verification is None or result.verification.ok
        return after, result

    return call


def plugin_nodes(proto):
    """Nodes of the plugin in all graphs and in functions of others."""
    pending, found = [proto.graph, *(f for f in proto.functions if f.domain != "convt_onnx")], []
    while pending:
        for node in pending.pop(0).node:
            found += [node] if node.domain == "convt_onnx" else []
            pending += [a.g for a in node.attribute if a.HasField("g")]
    return found


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def weights(**more):
    """Asymmetric weights with C_in/g != C_out/g."""
    return {"w": array(6, 4, 3, 4), "b": array(8, seed=1)} | more


def single(body="y = {up} (x, w, b)", **arrays):
    text = GRAPH.format(body=body.format(up=UP.replace(">", ", group = 2>")))
    return model(text, **weights(**arrays))


def test_one_name_for_each_set_of_attributes(plugged):
    before = single(
        """a = {up} (x, w, b)
        c = {up} (x, w2, b)
        d = {up} (x, w)
        y = Sum (a, c, d)""",
        w2=array(6, 4, 3, 4, seed=2),
    )
    after, _ = plugged(before)
    nodes = plugin_nodes(after)
    assert [n.op_type for n in nodes].count(nodes[0].op_type) == 2
    assert {n.op_type for n in nodes} == {f.name for f in after.functions}
    assert all(n.op_type.startswith("ConvT_") and not n.overload for n in nodes)
    assert all(attributes(n)["plugin_namespace"] == b"convt_onnx" for n in nodes)
    assert len(after.functions) == 2
    assert_same(before, after)


def test_one_type_with_overloads_for_a_custom_op_library(plugged):
    before = single("a = {up} (x, w, b) y = Sigmoid (a)")
    after, _ = plugged(before, "ort-cuda")
    (node,), (function,) = plugin_nodes(after), after.functions
    assert node.op_type == function.name == "FusedConvTranspose"
    assert node.overload == function.overload != ""
    assert after.ir_version >= 10
    assert_same(before, after)


ACTIVATIONS = {
    "y = Relu (a)": ("relu", 0, 0),
    "y = LeakyRelu <alpha = 0.25> (a)": ("leaky_relu", 0.25, 0),
    "y = Elu <alpha = 0.5> (a)": ("elu", 0.5, 0),
    "y = Sigmoid (a)": ("sigmoid", 0, 0),
    "y = Tanh (a)": ("tanh", 0, 0),
    "s = Sigmoid (a) y = Mul (a, s)": ("silu", 0, 0),
    "y = PRelu (a, slope)": ("prelu", 0, 0),
    "y = Clip (a, low, high)": ("clip", -0.5, 0.75),
    "y = Clip (a, low)": ("clip", -0.5, np.inf),
    "e = Div (a, root) f = Erf (e) g = Add (f, one) h = Mul (a, g) y = Mul (h, half)": (
        "gelu", 0, 0,
    ),
}  # fmt: skip
CONSTANTS = {
    "slope": array(8, 1, 1, seed=3),
    "low": np.float32(-0.5),
    "high": np.float32(0.75),
    "root": np.float32(2**0.5),
    "one": np.float32(1),
    "half": np.float32(0.5),
}


@pytest.mark.parametrize("text", ACTIVATIONS, ids=[a[0] for a in ACTIVATIONS.values()])
def test_a_residual_and_each_activation_are_taken_in(plugged, text):
    body = "c = {up} (x, w, b) r = {up} (x, w2) a = Add (c, r) " + text
    used = {n: v for n, v in CONSTANTS.items() if n in re.split(r"[(), ]+", text)}
    before = single(body, w2=array(6, 4, 3, 4, seed=2), **used)
    after, _ = plugged(before)
    assert [n.domain for n in after.graph.node] == ["convt_onnx"] * 2
    kept = attributes(after.graph.node[-1])
    kind, alpha, beta = ACTIVATIONS[text]
    assert (kept["activation"], kept["alpha"], kept["beta"]) == (kind.encode(), alpha, beta)
    assert kept["has_residual"] == 1
    assert_same(before, after, tolerance=2e-5)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = {up} (x, w) y = Relu (a) z = Tanh (a)", ["Relu", "Tanh"]),
        ("z = {up} (x, w) y = Relu (z)", ["Relu"]),
        ("a = {up} (x, w) c = Relu (a) r = Add (c, s) y = Identity (r)", ["Add", "Identity"]),
    ],
    ids=["two readers", "graph output", "activation before residual"],
)
def test_what_others_read_stops_the_fusing(plugged, body, left):
    outputs = "float[] y, float[] z" if "z" in body else "float[] y"
    text = GRAPH.replace("float[] y", outputs)
    text = text.replace("x)", "x, float[2, 4, 11, 14] s)").replace("n, 6, h", "2, 6, 5")
    arrays = {"w": array(6, 4, 3, 4)}
    before = model(text.format(body=body.format(up=UP)), **arrays)
    after, _ = plugged(before)
    assert [n.op_type for n in after.graph.node if not n.domain] == left
    assert_same(before, after)


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_types_and_ranks(plugged, dtype, axes):
    kind = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    sizes = "h, 5, 3".split(", ")[:axes]
    kernel = (3, 4, 2)[:axes]
    text = f"""g ({dtype}[n, 6, {", ".join(sizes)}] x) => ({dtype}[] y)
    {{ a = ConvTranspose <strides = {[2] * axes}> (x, w, b) y = Relu (a) }}"""
    arrays = {"w": array(6, 5, *kernel).astype(kind), "b": array(5).astype(kind)}
    before = model(text, opset=22, ir_version=10, **arrays)
    after, result = plugged(before)
    (node,) = plugin_nodes(after)
    assert [d.form for d in result.decisions] == ["plugin"]
    assert op_types(after)[: len(after.graph.node)] == [node.op_type]
    if dtype != "bfloat16":
        assert_same(before, after, tolerance=1e-5 if dtype == "float" else 2e-3)


def test_weights_of_the_run_are_packed_by_nodes(plugged):
    text = GRAPH.format(body=f"v = Neg (w) a = {UP} (x, v, b) y = Relu (a)")
    before = model(text.replace("x) =>", "x, float[6, 5, 3, 4] w) =>"), b=array(5, seed=1))
    after, _ = plugged(before)
    assert len(plugin_nodes(after)) == 1
    assert attributes(plugin_nodes(after)[0])["packed"] == 1
    assert_same(before, after)


def test_weights_that_two_nodes_share_stay_one(plugged):
    body = f"a = {UP} (x, w, b) c = {UP} (x, w) y = Add (a, c)"
    before = model(GRAPH.format(body=body), w=array(6, 4, 3, 4), b=array(4, seed=1))
    after, _ = plugged(before)
    assert len(plugin_nodes(after)) == 2
    assert len([n for n in initializer_names(after) if "packed" in n]) == 1
    assert_same(before, after)


BRANCHES = """g (float[n, 6, h, 5] x, bool c) => (float[] y) {
    y = If (c) <
        then_branch = t () => (float[a, d, e, f] p) {
            p0 = ConvTranspose <strides = [2, 2]> (x, w)
            p = Relu (p0)
        },
        else_branch = o () => (float[a, d, e, f] q) { q = f.up (x) }
    >
}
"""
FUNCTION = """up (v) => (z) {
    w = Constant <value = float[6, 2, 1, 2] %s> ()
    z0 = ConvTranspose <strides = [2, 2]> (v, w)
    z = Tanh (z0)
}"""


def test_inside_a_branch_and_a_function(plugged):
    function = FUNCTION % braces(array(6, 2, 1, 2))
    before = with_function(BRANCHES, function, w=array(6, 5, 3, 4))
    after, _ = plugged(before)
    assert len(plugin_nodes(after)) == 2
    for value in (True, False):
        assert_same(before, after, random_feeds(before, c=np.array(value)))


def test_six_nodes_each_with_its_own_body(plugged):
    bodies, names = [], []
    for i, (k, s) in enumerate([(1, 2), (2, 2), (3, 1), (3, 2), (4, 2), (4, 3)]):
        bodies.append(f"y{i} = ConvTranspose <strides = [{s}, {s}]> (x, w{i})")
        names.append((f"w{i}", array(6, 2 + i, k, k, seed=i)))
    outputs = ", ".join(f"float[] y{i}" for i in range(6))
    text = f"g (float[n, 6, h, 5] x) => ({outputs}) {{ {' '.join(bodies)} }}"
    before = model(text, **dict(names))
    after, _ = plugged(before)
    assert len({n.op_type for n in plugin_nodes(after)}) == len(after.functions) == 6
    assert_same(before, after)


@pytest.mark.parametrize("target", ["tensorrt-rtx", "ort-cuda"])
@pytest.mark.parametrize("back", ["portable", "ort-cpu", "tensorrt"])
def test_the_way_back(plugged, tmp_path, target, back):
    body = "c = {up} (x, w, b) r = {up} (x, w2) a = Add (c, r) y = Elu (a)"
    before = single(body, w2=array(6, 4, 3, 4, seed=2))
    after, _ = plugged(before, target)
    source = write(after, tmp_path, "plugged.onnx")
    result = optimize(source, options=OptimizeOptions(target=back, force=True, tune=UNTIMED))
    restored = onnx.load(result.output)
    assert not restored.functions and {o.domain for o in restored.opset_import} == {""}
    assert not plugin_nodes(restored)
    assert ("ConvTranspose" in op_types(restored)) == (back != "portable")
    assert op_types(restored)[-2:] == ["Add", "Elu"]
    assert_same(before, restored)


@pytest.mark.parametrize("target", ["tensorrt-rtx", "ort-cuda"])
def test_the_way_back_needs_no_stated_type(plugged, tmp_path, target):
    body = "a = Mul (x, x) c = {up} (a, w, b) y = Concat <axis = 0> (c, c)"
    before = single(body)
    after, _ = plugged(before, target)
    assert plugin_nodes(after)
    del after.graph.value_info[:]
    source = write(after, tmp_path, "plugged.onnx")
    result = optimize(source, options=OptimizeOptions("portable", force=True, tune=UNTIMED))
    restored = onnx.load(result.output)
    assert not plugin_nodes(restored)
    assert_same(before, restored)


def test_the_way_back_gives_the_weights_back(plugged, tmp_path):
    after, _ = plugged(single())
    source = write(after, tmp_path, "plugged.onnx")
    result = optimize(source, options=OptimizeOptions(force=True, tune=UNTIMED))
    graph = onnx.load(result.output).graph
    (node,) = graph.node
    values = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    assert np.array_equal(values[node.input[1]], weights()["w"])
    assert np.array_equal(values[node.input[2]], weights()["b"])


def test_once_written_it_stays(plugged, tmp_path):
    after, _ = plugged(single())
    source = write(after, tmp_path, "plugged.onnx")
    options = OptimizeOptions(target="tensorrt-rtx", plugin=True, force=True, tune=UNTIMED)
    again = optimize(source, options=options)
    assert not again.modified and again.output.read_bytes() == source.read_bytes()


def test_another_targets_names_are_replaced(plugged, tmp_path):
    after, _ = plugged(single(), "ort-cuda")
    renamed, _ = plugged(after)
    (node,) = plugin_nodes(renamed)
    assert node.op_type.startswith("ConvT_") and not node.overload
    assert [f.name for f in renamed.functions] == [node.op_type]


def test_attributes_that_do_not_fit_the_name_are_left_alone(plugged, tmp_path):
    after, _ = plugged(single())
    for attribute in after.graph.node[0].attribute:
        if attribute.name == "strides":
            attribute.ints[:] = [1, 1]
    source = write(after, tmp_path, "forged.onnx")
    result = optimize(source, options=OptimizeOptions(force=True, tune=UNTIMED))
    assert [m.reason.id for m in result.misses if m.pass_name == "restore-plugins"] == ["CT548"]
    assert any("did not write" in note for note in result.notes)


def refused(before, plugged, **options):
    """Reason ids for which the plugin does not take the only node."""
    after, result = plugged(before, **options)
    assert not plugin_nodes(after)
    assert not after.functions
    return [m.reason.id for m in result.misses if m.reason.id.startswith("CT54")]


def test_a_quantised_weight_is_refused(plugged):
    text = """g (float[n, 6, h, 5] x) => (float[] y) {
        w = DequantizeLinear <axis = 1> (q, s)
        y = ConvTranspose <strides = [2, 2]> (x, w)
    }"""
    arrays = {"q": np.arange(-36, 36).reshape(6, 3, 2, 2).astype(np.int8), "s": array(3) ** 2}
    assert refused(model(text, **arrays), plugged) == ["CT544"]
    after, _ = plugged(model(text, **arrays), dequantize=True)
    assert len(plugin_nodes(after)) == 1


def test_a_type_is_refused(plugged):
    before = model(
        "g (double[n, 6, h, 5] x) => (double[] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }",
        w=array(6, 3, 2, 2).astype(np.float64),
    )
    assert refused(before, plugged, target="ort-cuda") == ["CT542"]


def test_old_opsets_and_files_are_refused(plugged):
    text = "g (float[n, 6, h, 5] x) => (float[] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }"
    assert refused(model(text, opset=10, w=array(6, 3, 2, 2)), plugged) == ["CT545"]


def test_four_axes_are_refused(plugged):
    text = "g (float[1, 2, 3, 2, 2, 2] x) => (float[] y) { y = ConvTranspose (x, w) }"
    before = model(text, w=array(2, 3, 2, 2, 1, 2))
    assert "CT543" in refused(before, plugged, target="ort-cuda", verify=False)


def test_wide_channels_are_left_to_the_library_unless_forced(plugged):
    node = "y = ConvTranspose <strides = [2, 2]> (x, w)"
    text = f"g (float[8, 512, 64, 64] x) => (float[] y) {{ {node} }}"
    before = model(text, w=array(512, 256, 3, 3))
    _, result = plugged(before, verify=False)
    assert [(d.form, d.reason.id) for d in result.decisions] == [("keep", "CT547")]
    _, result = plugged(before, verify=False, forms={"all": "plugin"})
    assert [d.form for d in result.decisions] == ["plugin"]


def test_a_target_without_plugins_says_so(plugged):
    with pytest.raises(UsageError, match="ort-cpu takes no plugin"):
        plugged(single(), target="ort-cpu")


def test_the_form_needs_the_option(plugged):
    with pytest.raises(UsageError, match="does not apply") as error:
        plugged(single(), plugin=False, forms={"ConvTranspose->y": "plugin"})
    assert "CT541" in str(error.value.help)
