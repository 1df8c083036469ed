"""What the ahead-of-time plugins offer, and what they refuse, without TensorRT."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from convt_onnx.errors import MissingPartError, UsageError
from convt_onnx.plugin_node import PluginRecord
from convt_onnx.plugins.conv_transpose import ahead
from convt_onnx.plugins.conv_transpose.activations import Activation
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.tensorrt import aot
from convt_onnx.plugins.tensorrt.aot import Building, combinations, register_aot, require_aot
from convt_onnx.spec import ConvTransposeSpec

OPEN = (None, None, None)


def record(dtype="float16", c_in=16, c_out=24):
    spec = ConvTransposeSpec(c_in, c_out, 1, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
    schedule = ahead.base_schedule(KernelSpec(spec, dtype, OPEN))
    return PluginRecord(spec, dtype, True, True, Activation("relu"), schedule)


@pytest.mark.parametrize(
    ("made", "x", "y"),
    [
        (record(), {"LINEAR", "HWC8", "HWC16"}, {"LINEAR", "HWC8"}),
        (record("bfloat16"), {"LINEAR", "HWC8"}, {"LINEAR", "HWC8"}),
        (record("float32", 5, 7), {"LINEAR", "HWC"}, {"LINEAR", "HWC"}),
        (record("float16", 5, 7), {"LINEAR"}, {"LINEAR"}),
    ],
    ids=["float16", "bfloat16", "float32", "odd channels"],
)
def test_formats_are_independent_but_for_the_residual(made, x, y):
    found = combinations(made, Building(90), OPEN)
    layouts = [layout.split(", ") for _, layout, _ in found]
    assert {(names[0], names[-1]) for names in layouts} == {(a, b) for a in x for b in y}
    assert all(names[1] == names[2] == "LINEAR" and names[3] == names[4] for names in layouts)
    kind = {"float16": "FP16", "bfloat16": "BF16", "float32": "FP32"}[made.dtype]
    assert {types for types, _, _ in found} == {", ".join([kind] * 5)}
    assert all(tactics == list(range(1, len(tactics) + 1)) for _, _, tactics in found)


def module(version, **parts):
    return SimpleNamespace(__name__="tensorrt", __version__=version, **parts)


AOT = {"QuickPluginCreationRequest": object, "IPluginV3QuickAOTBuild": object}


@pytest.mark.parametrize("trt", [module("10.8.0"), module("1.7.1")])
def test_versions_without_them_are_named(trt):
    with pytest.raises(MissingPartError, match="no ahead-of-time plugins") as error:
        require_aot(trt)
    assert trt.__version__ in error.value.where


def test_versions_in_which_they_are_broken_are_avoided():
    with pytest.raises(MissingPartError, match="broken") as error:
        require_aot(module("10.14.1.48", **AOT))
    assert "10.14.1" in error.value.where
    require_aot(module("10.13.3", **AOT))
    require_aot(module("11.4.0", **AOT))


def test_a_capability_is_needed_and_must_be_known(monkeypatch):
    monkeypatch.setattr(aot, "device_capability", lambda: None)
    with pytest.raises(MissingPartError, match="no device"):
        register_aot(module("11.4.0", **AOT), "model.onnx")
    with pytest.raises(UsageError, match="compute capability 70"):
        register_aot(module("11.4.0", **AOT), "model.onnx", capability=70)


@pytest.mark.parametrize("largest", [(64, 16, 2048, 2048), (1, 16, 2048, 2048)])
def test_a_profile_past_31_bits_takes_the_wide_kernel(largest):
    shape = SimpleNamespace(is_dynamic=True, max=largest)
    assert aot._is_wide(record(), shape) == (largest[0] > 1)
    with pytest.raises(UsageError, match="outside the plugin's range"):
        aot._is_wide(record(), SimpleNamespace(is_dynamic=True, max=(1, 16, 60000, 60000)))
