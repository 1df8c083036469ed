"""Plugin nodes in networks of TensorRT-RTX, which are parsed and built here, and not run."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import onnx
import pytest

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.engine import BuildOptions, build_engine
from convt_onnx.engine.network import parse
from convt_onnx.engine.profiles import Range
from convt_onnx.errors import UsageError
from convt_onnx.plugins.tensorrt import layer as layers
from convt_onnx.plugins.tensorrt.creators import VERSION, creator_class, register, unregister
from convt_onnx.plugins.tensorrt.registering import register_nodes, register_override
from convt_onnx.tuning.options import TuneOptions

from ..graph.building import array, model, write
from ..plugin_node.plugging import plugin_nodes
from ..verify.judging import assert_same, random_feeds, run

UNTIMED = TuneOptions(enabled=False)
UP = "ConvTranspose <strides = [2, 2], pads = [1, 0, 0, 1]>"


def plugged(proto, folder):
    """The model with plugin nodes, as a file; it still runs in ONNX Runtime."""
    options = OptimizeOptions(target="tensorrt-rtx", plugin=True, force=True, tune=UNTIMED)
    return optimize(write(proto, folder), options=options).output


def built(rtx, path, *, override=False, profile=None):
    """Kinds of the network's layers and the engine's bytes."""
    trt = rtx.module
    found = register_override(trt) if override else register_nodes(trt, path)
    try:
        network = parse(rtx, path, override=override, keep=found)
        config = network.builder.create_builder_config()
        if profile:
            made = network.builder.create_optimization_profile()
            for name, shapes in profile.items():
                made.set_shape(name, *shapes)
            config.add_optimization_profile(made)
        definition = network.definition
        kinds = [definition.get_layer(i).type.name for i in range(definition.num_layers)]
        engine = network.builder.build_serialized_network(definition, config)
        assert engine is not None, network.log.warnings
        assert not found.problems
        shapes = [tuple(o.shape) for o in network.outputs]
        return SimpleNamespace(kinds=kinds, engine=bytes(engine), shapes=shapes)
    finally:
        found.close()


def profile(name="x", *, c=6, sizes=((1, 4, 5), (2, 8, 5), (4, 30, 5))):
    return {name: tuple((n, c, *rest) for n, *rest in sizes)}


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_types_and_ranks_with_open_sizes(rtx, tmp_path, dtype, axes):
    kind = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    text = f"""g ({dtype}[n, 6, {", ".join(["h", "5", "3"][:axes])}] x) => ({dtype}[] y) {{
        a = ConvTranspose <strides = {[2] * axes}> (x, w, b)
        y = LeakyRelu (a)
    }}"""
    arrays = {"w": array(6, 5, *(3, 4, 2)[:axes]).astype(kind), "b": array(5).astype(kind)}
    path = plugged(model(text, opset=22, ir_version=10, **arrays), tmp_path)
    rest = (5, 3)[: axes - 1]
    made = built(rtx, path, profile=profile(sizes=[(n, 4 * n, *rest) for n in (1, 2, 4)]))
    assert made.kinds.count("PLUGIN_V3") == 1
    assert "DECONVOLUTION" not in made.kinds and "ACTIVATION" not in made.kinds
    widths = [(n - 1) * 2 + k for n, k in zip(rest, (4, 2), strict=False)]
    assert made.shapes == [(-1, 5, -1, *widths)]


def test_one_file_for_onnx_runtime_and_tensorrt(rtx, tmp_path):
    text = f"""g (float[n, 6, h, 5] x) => (float[] y) {{
        c = {UP} (x, w, b) r = {UP} (x, u) a = Add (c, r) y = Sigmoid (a)
    }}"""
    arrays = {"w": array(6, 4, 3, 4), "u": array(6, 4, 3, 4, seed=1), "b": array(4)}
    before = model(text, **arrays)
    path = plugged(before, tmp_path)
    assert_same(before, onnx.load(path))
    made = built(rtx, path, profile=profile())
    assert made.kinds.count("PLUGIN_V3") == 2
    assert not {"DECONVOLUTION", "ELEMENTWISE", "ACTIVATION"} & set(made.kinds)


def test_without_creators_the_functions_are_read(rtx, tmp_path):
    before = model(f"g (float[2, 6, 8, 5] x) => (float[] y) {{ y = {UP} (x, w) }}",
                   w=array(6, 4, 3, 4))  # fmt: skip
    network = parse(rtx, plugged(before, tmp_path))
    layer_kinds = [
        network.definition.get_layer(i).type.name for i in range(network.definition.num_layers)
    ]
    assert "DECONVOLUTION" in layer_kinds and "PLUGIN_V3" not in layer_kinds


def test_six_nodes_each_take_their_own(rtx, tmp_path, monkeypatch):
    shapes = [(1, 2), (2, 2), (3, 1), (3, 2), (4, 2), (4, 3)]
    text = " ".join(
        f"y{i} = ConvTranspose <strides = [{s}, {s}]> (x, w{i})" for i, (_, s) in enumerate(shapes)
    )
    outputs = ", ".join(f"float[] y{i}" for i in range(6))
    weights = {f"w{i}": array(6, 2 + i, k, k, seed=i) for i, (k, _) in enumerate(shapes)}
    before = model(f"g (float[2, 6, 8, 5] x) => ({outputs}) {{ {text} }}", **weights)
    path = plugged(before, tmp_path)
    assert len({n.op_type for n in plugin_nodes(onnx.load(path))}) == 6
    made = built(rtx, path)
    assert made.kinds.count("PLUGIN_V3") == 6
    wanted = [(2, 2 + i, 7 * s + k, 4 * s + k) for i, (k, s) in enumerate(shapes)]
    assert made.shapes == wanted


BRANCHES = """g (float[n, 6, h, 5] x, bool c) => (float[] y) {
    y = If (c) <
        then_branch = t () => (float[a, d, e, f] p) {
            p0 = ConvTranspose <strides = [2, 2]> (x, w)
            p = Relu (p0)
        },
        else_branch = o () => (float[a, d, e, f] q) {
            q0 = ConvTranspose <strides = [2, 2]> (x, v)
            q = Tanh (q0)
        }
    >
}"""


def test_the_place_of_a_creator_that_somebody_else_registered(rtx):
    trt, name = rtx.module, "ConvTransposeOfSomebodyElse"
    registry, others = trt.get_plugin_registry(), creator_class(rtx.module)(name, "", False)
    assert registry.register_creator(others, "")
    mine = register(trt, name, "")
    assert registry.get_creator(name, VERSION, "") is mine
    newer = register(trt, name, "")
    unregister(trt, mine)
    assert registry.get_creator(name, VERSION, "") is newer
    for _ in range(2):
        unregister(trt, newer)
        assert registry.get_creator(name, VERSION, "") is None


def test_inside_branches(rtx, tmp_path):
    before = model(BRANCHES, w=array(6, 5, 3, 4), v=array(6, 5, 3, 4, seed=1))
    path = plugged(before, tmp_path)
    assert len({n.op_type for n in plugin_nodes(onnx.load(path))}) == 2
    made = built(rtx, path, profile=profile())
    assert made.kinds.count("PLUGIN_V3") == 2


def test_stride_with_dilation_and_run_time_weights(rtx, tmp_path):
    """TensorRT-RTX itself builds no stride with a dilation."""
    node = "ConvTranspose <strides = [2, 1], dilations = [2, 3]>"
    text = f"g (float[n, 6, h, 5] x, float[6, 4, 3, 2] w) => (float[] y) {{ y = {node} (x, w) }}"
    path = plugged(model(text), tmp_path)
    made = built(rtx, path, profile=profile())
    assert made.kinds.count("PLUGIN_V3") == 1


@pytest.mark.parametrize("name", ["HWC8", "HWC16"])
def test_channels_last_half_formats(rtx, tmp_path, monkeypatch, name):
    """With no other format on offer the engine converts around the plugin."""
    asked = []
    takes = layers.takes

    def only(tensor_format, **facts):
        asked.append(tensor_format)
        return tensor_format == name and takes(tensor_format, **facts)

    monkeypatch.setattr(layers, "takes", only)
    text = f"g (float16[n, 16, h, 5] x) => (float16[] y) {{ y = {UP} (x, w) }}"
    path = plugged(model(text, w=array(16, 32, 3, 4).astype(np.float16)), tmp_path)
    made = built(rtx, path, profile=profile(c=16))
    assert name in asked and "LINEAR" in asked
    assert made.kinds.count("PLUGIN_V3") == 1


@pytest.mark.parametrize(
    "attributes",
    [
        "strides = [2, 2], dilations = [2, 1]",
        'strides = [2, 3], auto_pad = "SAME_UPPER"',
        'strides = [2, 2], auto_pad = "SAME_LOWER"',
        'strides = [3, 2], auto_pad = "VALID", output_padding = [1, 0]',
        "strides = [2, 2], output_shape = [16, 13]",
        "strides = [2, 2], group = 2, pads = [1, 0, 2, 1]",
    ],
)
def test_an_unchanged_model_with_the_override(rtx, tmp_path, attributes):
    """The shapes are ONNX Runtime's."""
    node = f"y = ConvTranspose <{attributes}> (x, w, b)"
    text = f"g (float[2, 6, 8, 5] x) => (float[] y) {{ {node} }}"
    out = 8 if "group" in attributes else 4
    proto = model(text, w=array(6, 4, 3, 4), b=array(out))
    made = built(rtx, write(proto, tmp_path), override=True)
    assert made.kinds.count("PLUGIN_V3") == 1 and "DECONVOLUTION" not in made.kinds
    (y,) = run(proto, random_feeds(proto)).values()
    assert made.shapes == [y.shape]


def test_a_node_that_is_not_as_written_is_refused_with_the_reason(rtx, tmp_path):
    before = model(f"g (float[2, 6, 8, 5] x) => (float[] y) {{ y = {UP} (x, w) }}",
                   w=array(6, 4, 3, 4))  # fmt: skip
    proto = onnx.load(plugged(before, tmp_path))
    for attribute in proto.graph.node[0].attribute:
        if attribute.name == "strides":
            attribute.ints[:] = [1, 1]
    path = write(proto, tmp_path, "forged.onnx")
    found = register_nodes(rtx.module, path)
    try:
        with pytest.raises(UsageError, match="do not fit"):
            parse(rtx, path, keep=found)
    finally:
        found.close()


def test_a_profile_outside_the_range_is_one_clear_problem(rtx, tmp_path):
    text = f"g (float[n, 6, h, 5] x) => (float[] y) {{ y = {UP} (x, w) }}"
    path = plugged(model(text, w=array(6, 4, 3, 4)), tmp_path)
    options = BuildOptions(
        backend="tensorrt-rtx",
        optimize=False,
        verify=False,
        plugin="python",
        profiles=({"x": Range((1, 6, 4, 5), (1, 6, 8, 5), (1, 6, 90_000_000, 5))},),
    )
    with pytest.raises(UsageError, match="outside the plugin's range"):
        build_engine(path, tmp_path / "out.engine", options)
    assert not (tmp_path / "out.engine").exists()


def test_the_override_refuses_pads_that_depend_on_open_sizes(rtx, tmp_path):
    node = "ConvTranspose <strides = [2, 2], output_shape = [16, 13]>"
    text = f"g (float[n, 6, h, 5] x) => (float[] y) {{ y = {node} (x, w) }}"
    path = write(model(text, w=array(6, 4, 3, 4)), tmp_path)
    found = register_override(rtx.module)
    try:
        with pytest.raises(UsageError, match="sizes that the model leaves open"):
            parse(rtx, path, override=True, keep=found)
    finally:
        found.close()
