"""Nodes that the plugin does not compute, each with its reason."""

from __future__ import annotations

import numpy as np
import pytest

from convt_onnx.errors import UsageError

from ..graph.building import array, model
from .plugging import plugin_nodes, single


def assert_refused(before, plugged, **options):
    """Reason ids for which the plugin does not take the only node."""
    after, result = plugged(before, **options)
    assert not plugin_nodes(after)
    assert not after.functions
    (decision,) = result.decisions
    assert any(note.startswith(f"{decision.path} does without") for note in result.notes)
    return [m.reason.id for m in result.misses if m.reason.id.startswith("CT54")]


def test_a_quantised_weight_is_refused(plugged):
    text = """g (float[n, 6, h, 5] x) => (float[] y) {
        w = DequantizeLinear <axis = 1> (q, s)
        y = ConvTranspose <strides = [2, 2]> (x, w)
    }"""
    arrays = {"q": np.arange(-36, 36).reshape(6, 3, 2, 2).astype(np.int8), "s": array(3) ** 2}
    assert assert_refused(model(text, **arrays), plugged) == ["CT544"]
    after, _ = plugged(model(text, **arrays), dequantize=True)
    assert len(plugin_nodes(after)) == 1


def test_a_type_is_refused(plugged):
    before = model(
        "g (double[n, 6, h, 5] x) => (double[] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }",
        w=array(6, 3, 2, 2).astype(np.float64),
    )
    assert assert_refused(before, plugged, target="ort-cuda") == ["CT542"]


def test_old_opsets_and_files_are_refused(plugged):
    text = "g (float[n, 6, h, 5] x) => (float[] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }"
    assert assert_refused(model(text, opset=10, w=array(6, 3, 2, 2)), plugged) == ["CT545"]


def test_four_axes_are_refused(plugged):
    text = "g (float[1, 2, 3, 2, 2, 2] x) => (float[] y) { y = ConvTranspose (x, w) }"
    before = model(text, w=array(2, 3, 2, 2, 1, 2))
    assert "CT543" in assert_refused(before, plugged, target="ort-cuda", verify=False)


def test_wide_channels_are_left_to_the_library_unless_forced(plugged):
    node = "y = ConvTranspose <strides = [2, 2]> (x, w)"
    text = f"g (float[8, 512, 64, 64] x) => (float[] y) {{ {node} }}"
    before = model(text, w=array(512, 256, 3, 3))
    _, result = plugged(before, verify=False)
    assert [(d.form, d.reason.id) for d in result.decisions] == [("keep", "CT547")]
    _, result = plugged(before, verify=False, forms={"all": "plugin"})
    assert [d.form for d in result.decisions] == ["plugin"]


@pytest.mark.parametrize(
    ("x_shape", "w_shape", "strides", "dtype", "form"),
    [
        # Wide channels: measured at 0.63 to 0.86 times cuDNN's speed.
        ((1, 512, 128, 128), (512, 256, 3, 3), 2, "float32", "keep"),
        ((4, 512, 64, 64), (512, 256, 3, 3), 2, "float16", "keep"),
        # Wide as well, with too few pixels for arithmetic to bound it: 1.15 and more.
        ((32, 512, 4, 4), (512, 256, 4, 4), 2, "float32", "plugin"),
        # One input pixel: 0.93 with a CUDA graph in float32, 1.89 in float16.
        ((32, 100, 1, 1), (100, 512, 4, 4), 1, "float32", "keep"),
        ((32, 100, 1, 1), (100, 512, 4, 4), 1, "float16", "plugin"),
    ],
)
def test_onnx_runtime_gets_the_plugin_where_it_was_measured_to_gain(
    plugged, x_shape, w_shape, strides, dtype, form
):
    kind = {"float16": "float16", "float32": "float"}[dtype]
    node = f"y = ConvTranspose <strides=[{strides},{strides}], pads=[1,1,1,1]> (x, w)"
    before = model(
        f"g ({kind}{list(x_shape)} x) => ({kind}[] y) {{ {node} }}",
        w=array(*w_shape).astype(dtype),
    )
    _, result = plugged(before, target="ort-cuda", verify=False)
    assert [d.form for d in result.decisions] == [form]
    assert [d.reason.id for d in result.decisions] == ["CT547" if form == "keep" else "CT540"]


def test_a_target_without_plugins_says_so(plugged):
    with pytest.raises(UsageError, match="ort-cpu takes no plugin"):
        plugged(single(), target="ort-cpu")


def test_the_form_needs_the_option(plugged):
    with pytest.raises(UsageError, match="does not apply") as error:
        plugged(single(), plugin=False, forms={"ConvTranspose->y": "plugin"})
    assert "CT541" in str(error.value.help)
