"""A node taken out of its model, in every form: ONNX Runtime must compute the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from convt_onnx.decide import setting_for
from convt_onnx.forms import FORMS
from convt_onnx.graph.node import find_nodes, read_node
from convt_onnx.targets import get_target
from convt_onnx.tuning.extract import activation_behind, node_model
from convt_onnx.tuning.ort import ort_runtime
from convt_onnx.verify.session import RunError, Runner, Source

from ..graph.building import array, model, op_types

CPU = get_target("ort-cpu")
GROUPED = array(4, 3, 4, 3)
HEAD = "g (float[1,4,N,7] x) => (float[A,B,C,D] y) {"
UP = "[up] h = ConvTranspose <group=2, strides=[2,3], pads=[1,0,0,1]> (x, w, b)"
BIAS = array(6)


def found(proto):
    made = ir.from_proto(proto)
    f = next(find_nodes(made))
    return read_node(f.node, f.path, made.ir_version, {}), f.opset, made


def results(proto, shape=(2, 4, 5, 7), tmp_path=None):
    """What every applicable form computes, the operators of its model, by form."""
    node, opset, made = found(proto)
    setting = setting_for(opset, CPU, node.dtype)
    behind = activation_behind(node, made.ir_version)
    values = {}
    for name, form in FORMS.items():
        if form.check(node, setting) is None:
            one = node_model(node, name, setting, CPU, shape, behind)
            onnx.checker.check_model(one.proto, full_check=True)
            # As written: integer kernels of the optimiser saturate on older processors.
            (value,) = Runner(Source(one.proto, tmp_path, as_written=True)).run(one.feeds).values()
            values[name] = value, op_types(one.proto)
    return values


def check_same(values, *, least=3, atol=1e-4):
    assert len(values) >= least
    reference = values["keep"][0].astype(np.float64)
    assert np.abs(reference).max() > 0.1
    for form, (value, _) in values.items():
        assert value.shape == reference.shape, form
        np.testing.assert_allclose(value.astype(np.float64), reference, atol=atol, err_msg=form)


def test_constant_weights(tmp_path):
    values = results(model(HEAD + UP.replace("h =", "y =") + "}", w=GROUPED, b=BIAS),
                     tmp_path=tmp_path)  # fmt: skip
    check_same(values)
    assert values["keep"][0].shape == (2, 6, 11, 20)
    assert values["keep"][1] == ["ConvTranspose"]
    assert "ConvTranspose" not in values["phases"][1]


def test_run_time_weights(tmp_path):
    text = """g (float[1,4,N,7] x, float[4,3,4,3] w) => (float[A,B,C,D] y) {
      [up] y = ConvTranspose <group=2, strides=[2,3]> (x, w) }"""
    check_same(results(model(text), tmp_path=tmp_path))


@pytest.mark.parametrize(
    ("attributes", "operators"),
    [
        ("strides=[2,3], pads=[1,0,0,0]", ["ConvTranspose"]),
        ("strides=[2,3], pads=[0,0,2,1]", ["ConvTranspose", "Slice"]),
        # A form that writes a ConvTranspose of its own.
        ("dilations=[2,1], pads=[0,0,2,1]", ["ConvTranspose", "Slice"]),
    ],
)
def test_pads_that_the_device_does_not_take_are_made_symmetric(tmp_path, attributes, operators):
    proto = model(HEAD + f"y = ConvTranspose <{attributes}> (x, w) }}", w=GROUPED)
    node, opset, _ = found(proto)
    shape, outputs = (2, 4, 5, 7), []
    for target, wanted in ((CPU, ["ConvTranspose"]), (get_target("ort-cuda"), operators)):
        for form in ("keep", "undilate")[: 1 + ("dilations" in attributes)]:
            one = node_model(node, form, setting_for(opset, target, node.dtype), target, shape)
            onnx.checker.check_model(one.proto, full_check=True)
            assert op_types(one.proto) == wanted
            outputs += Runner(Source(one.proto, tmp_path)).run(one.feeds).values()
            (up,) = (n for n in one.proto.graph.node if n.op_type == "ConvTranspose")
            (pads,) = (a.ints for a in up.attribute if a.name == "pads")
            assert (pads[:2] == pads[2:]) == (target is not CPU)
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], atol=1e-4)


@pytest.mark.parametrize("behind", ["Relu", "LeakyRelu <alpha=0.3>", "Tanh", "Sigmoid"])
def test_an_activation_comes_along(tmp_path, behind):
    values = results(model(HEAD + f"{UP} y = {behind} (h) }}", w=GROUPED, b=BIAS),
                     tmp_path=tmp_path)  # fmt: skip
    check_same(values)
    assert all(ops[-1] == behind.split()[0] for _, ops in values.values())


def test_an_activation_of_unknown_type_gets_that_of_its_input():
    node, opset, made = found(model(f"{HEAD}{UP} r = Relu (h) y = Abs (r) }}", w=GROUPED, b=BIAS))
    behind = activation_behind(node, made.ir_version)
    one = node_model(node, "keep", setting_for(opset, CPU, node.dtype), CPU, (2, 4, 5, 7), behind)
    (y,) = one.proto.graph.output
    assert y.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert [d.dim_value for d in y.type.tensor_type.shape.dim] == [2, 6, 11, 20]


def test_a_clip_comes_along_with_its_bounds(tmp_path):
    text = HEAD + UP + "y = Clip (h, low, high) }"
    proto = model(text, w=GROUPED, b=BIAS, low=np.float32(-0.5), high=np.float32(0.25))
    values = results(proto, tmp_path=tmp_path)
    check_same(values)
    assert values["keep"][0].max() == np.float32(0.25)


@pytest.mark.parametrize(
    "text",
    [
        f"{UP} y = Erf (h)",
        f"{UP} y = Relu (h) z = Abs (h)",
        f"{UP} y = Clip (h, x0)",
        f"{UP} y = Relu (x)",
    ],
    ids=["not fused", "two readers", "bounds at run time", "not behind"],
)
def test_what_does_not_come_along(text):
    head = "g (float[1,4,N,7] x, float x0) => (float[A,B,C,D] y) {"
    node, _, made = found(model(head + text + "}", w=GROUPED, b=BIAS))
    assert activation_behind(node, made.ir_version) is None


def test_an_output_of_the_graph_has_nothing_behind(tmp_path):
    head = "g (float[1,4,N,7] x) => (float[A,B,C,D] y, float[E,F,G,H] h) {"
    node, _, made = found(model(head + UP + " y = Relu (h) }", w=GROUPED, b=BIAS))
    assert activation_behind(node, made.ir_version) is None


QUANTISED = """g (uint8[1,4,N,7] q) => (uint8[A,B,C,D] y) {
  x = DequantizeLinear (q, s, z)
  w = DequantizeLinear <axis=1> (v, t)
  [up] h = ConvTranspose <group=2, strides=[2,3]> (x, w)
  %s
  y = QuantizeLinear (r, u, z) }"""


@pytest.mark.parametrize("between", ["r = Identity (h)", "r = Relu (h)"])
def test_quantised_nodes_keep_their_surroundings(tmp_path, between):
    rng = np.random.default_rng(0)
    text = QUANTISED % between
    if "Identity" in between:
        text = text.replace("r = Identity (h)", "").replace("(r, u, z)", "(h, u, z)")
    zero = np.uint8(0 if "Relu" in between else 128)
    proto = model(
        text,
        s=np.float32(0.02),
        z=zero,
        v=rng.integers(-127, 127, (4, 3, 4, 3)).astype(np.int8),
        t=np.float32([0.01, 0.02, 0.03]),
        u=np.float32(0.05),
    )
    values = results(proto, tmp_path=tmp_path)
    # Forms may round to the next step.
    check_same(values, atol=1)
    assert all({"DequantizeLinear", "QuantizeLinear"} <= set(ops) for _, ops in values.values())
    assert all(value.dtype == np.uint8 for value, _ in values.values())


BILINEAR = np.outer([1, 3, 3, 1], [1, 3, 3, 1]).astype(np.float32) / 16


@pytest.mark.parametrize(
    ("form", "attributes", "weight"),
    [
        ("winograd", "pads=[1,1,1,1]", array(16, 16, 3, 3)),
        ("winograd", "pads=[0,0,0,0]", array(16, 16, 3, 3)),
        ("separable", "strides=[2,2], group=16", np.tile(BILINEAR, (16, 1, 1, 1))),
    ],
)
def test_forms_for_known_sizes_behind_quantised_inputs(tmp_path, form, attributes, weight):
    text = """g (float[1,16,9,7] x) => (float[A,B,C,D] y) {
      q = QuantizeLinear (x, s, z)
      d = DequantizeLinear (q, s, z)
      [up] y = ConvTranspose <...> (d, w) }""".replace("...", attributes)
    proto = model(text, w=weight, s=np.float32(0.03), z=np.uint8(128))
    inferred = onnx.shape_inference.infer_shapes(proto)
    values = results(inferred, shape=(1, 16, 9, 7), tmp_path=tmp_path)
    check_same(values)
    assert form in values


def test_types_that_the_target_has_no_kernel_for(tmp_path):
    text = (HEAD + UP.replace("h =", "y =") + "}").replace("float", "bfloat16")
    weights = {"w": GROUPED.astype(ml_dtypes.bfloat16), "b": BIAS.astype(ml_dtypes.bfloat16)}
    node, opset, _ = found(model(text, opset=22, ir_version=10, **weights))
    setting = setting_for(opset, CPU, node.dtype)
    for form in ("keep", "phases"):
        one = node_model(node, form, setting, CPU, (1, 4, 5, 7))
        assert "Cast" in op_types(one.proto)
        assert one.feeds["x"].dtype == ml_dtypes.bfloat16


def test_the_model_itself_is_left_alone(tmp_path):
    proto = model(HEAD + UP + "y = Relu (h) }", w=GROUPED, b=BIAS)
    node, opset, made = found(proto)
    before = ir.to_proto(made).SerializeToString()
    setting = setting_for(opset, CPU, node.dtype)
    node_model(node, "phases", setting, CPU, (1, 4, 5, 7), activation_behind(node, 9))
    assert ir.to_proto(made).SerializeToString() == before


def test_onnx_runtime_runs_it(tmp_path):
    runtime = ort_runtime("CPUExecutionProvider", 1)
    proto = model(HEAD + UP + "y = Relu (h) }", w=GROUPED, b=BIAS)
    node, opset, _ = found(proto)
    one = node_model(node, "keep", setting_for(opset, CPU, node.dtype), CPU, (1, 4, 5, 7))
    timed = runtime.load(Source(one.proto, tmp_path), one.feeds)
    assert 0 < timed.seconds(2) < 60
    assert "CPUExecutionProvider" in runtime.name
    assert "cores" in runtime.device


def test_providers_that_are_not_here():
    assert ort_runtime("NoSuchExecutionProvider", 0) is None


def test_what_onnx_runtime_does_not_take(tmp_path):
    runtime = ort_runtime("CPUExecutionProvider", 1)
    bad = model("g (float[2,3] x) => (float[A,B] y) { y = Reshape (x, s) }", s=np.int64([4, 5]))
    with pytest.raises(RunError):
        runtime.load(Source(bad, tmp_path), {"x": array(2, 3)})
    good = model("g (float[2,3] x) => (float[2,3] y) { y = Abs (x) }")
    with pytest.raises(RunError):
        runtime.load(Source(good, tmp_path), {"z": array(2, 3)})
