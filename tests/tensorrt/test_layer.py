"""The layer object: states, fields, and the one launch that an execution makes."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from convt_onnx.errors import ConvtError, GeometryError, MissingPartError, UsageError
from convt_onnx.plugin_node import PluginRecord
from convt_onnx.plugins.conv_transpose import ahead
from convt_onnx.plugins.conv_transpose.activations import Activation
from convt_onnx.plugins.conv_transpose.compile import Argument, Artifact
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.quantities import grid, output_sizes, quantities
from convt_onnx.plugins.tensorrt import driver, state
from convt_onnx.plugins.tensorrt.creators import standard_record
from convt_onnx.plugins.tensorrt.fields import make_fields, read_fields
from convt_onnx.plugins.tensorrt.formats import takes
from convt_onnx.plugins.tensorrt.layer import layer_class
from convt_onnx.plugins.tensorrt.state import State, read_state, record_of_node
from convt_onnx.spec import ConvTransposeSpec

SPEC = ConvTransposeSpec(16, 8, 1, (3, 2), (2, 2), (1, 1), (1, 0), (0, 1), (0, 0))
SCHEDULE = ahead.base_schedule(KernelSpec(SPEC, "float16", (None, None, None)))
RECORD = PluginRecord(SPEC, "float16", True, True, Activation("prelu"), SCHEDULE)
NUMBERS = ("rows", "in_h", "in_w", "out_h", "x_n", "y_n", "y_h")


@pytest.mark.parametrize(
    ("name", "rank", "channels", "dtype", "wanted"),
    [
        ("LINEAR", 3, 5, "float16", True),
        ("HWC8", 4, 16, "float16", True),
        ("HWC8", 4, 12, "float16", False),
        ("HWC8", 5, 16, "float16", False),
        ("HWC8", 3, 16, "float16", False),
        ("HWC8", 4, 16, "float32", False),
        ("HWC16", 4, 32, "float16", True),
        ("HWC16", 4, 24, "float16", False),
        ("HWC", 4, 3, "float32", True),
        ("DHWC8", 5, 8, "bfloat16", True),
        ("DHWC8", 5, 9, "bfloat16", False),
        ("CHW32", 4, 32, "float16", False),
    ],
)
def test_only_formats_that_pad_no_channel(name, rank, channels, dtype, wanted):
    assert takes(name, rank=rank, channels=channels, dtype=dtype) == wanted


def test_a_state_survives_its_values():
    made = State(RECORD, tf32=True).configured(
        (2, 16, 5, 7), (8, 16, 5, 7), last_in=True, last_out=False
    )
    assert made.sizes == (None, 5, 7)
    made = made.with_tactic(2, 80)
    assert read_state(made.values()) == made
    assert read_state(State(RECORD).values()) == State(RECORD)


def test_tactics_share_the_packing_and_others_are_refused():
    made = State(RECORD)
    found = [made.with_tactic(i + 1, 80).schedule for i in range(len(made.schedules(80)))]
    assert len(set(found)) == len(found) > 1
    assert {s.block_k for s in found} == {SCHEDULE.block_k}
    with pytest.raises(UsageError, match="no such tactic"):
        made.with_tactic(99, 80)


@pytest.mark.parametrize(
    ("low", "high", "where"),
    [
        ((1, 16, 1, 1), (2, 16, 8, 8), "empty"),
        ((1, 16, 8, 8), (2, 16, 60000, 60000), "less than 2\\^31"),
    ],
)
def test_a_profile_outside_the_range_is_one_clear_line(low, high, where):
    spec = replace(SPEC, pads_begin=(2, 0), pads_end=(1, 1))
    record = replace(RECORD, spec=spec, activation=Activation())
    with pytest.raises(UsageError, match="outside the plugin's range") as error:
        State(record).configured(low, high, last_in=False, last_out=False)
    assert re.search(where, error.value.where)


def test_the_name_tells_the_type():
    for dtype in ("float16", "bfloat16", "float32"):
        record = replace(RECORD, dtype=dtype)
        assert record_of_node(record.identity("hashed")[0], record.attributes()) == record
    with pytest.raises(UsageError, match="do not fit"):
        record_of_node("ConvT_000000000000", RECORD.attributes())


def test_fields_carry_every_value(rtx):
    values = RECORD.attributes() | {"beta": float("inf"), "sizes": [-1], "strides": [7]}
    collection, arrays = make_fields(rtx.module, values)
    assert len(arrays) == len(values)
    assert read_fields(rtx.module, collection) == values


class FakeDriver:
    """Stands for cuda.bindings.driver: records what is called."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0)

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, arguments))
            return 0, 7

        return call


@pytest.fixture
def launched(monkeypatch):
    """Kernels without PTX and a driver that records."""
    fake, compiled = FakeDriver(), []

    def compile_ptx(kernel, capability, schedule):
        compiled.append((kernel, capability, schedule))
        numbers = quantities(kernel, schedule)
        arguments = [Argument(n) for n in kernel.operands]
        arguments += [Argument(n, numbers[n]) for n in NUMBERS if numbers[n].constant is None]
        return Artifact(
            "kernel", f"{kernel}{schedule}", (*arguments, Argument("y")), grid(kernel, schedule),
            output_sizes(kernel), schedule.warps * 32, 1024, schedule, capability,
        )  # fmt: skip

    monkeypatch.setattr(driver, "_driver", lambda: fake)
    monkeypatch.setattr(driver, "_function", lambda context, ptx, name: name)
    monkeypatch.setattr(state, "compile_ptx", compile_ptx)
    monkeypatch.setattr("convt_onnx.plugins.tensorrt.layer.device_capability", lambda: 90)
    return SimpleNamespace(driver=fake, compiled=compiled)


def description(trt, shape, name="LINEAR", dtype="HALF"):
    desc = trt.PluginTensorDesc()
    desc.dims, desc.type = trt.Dims(shape), getattr(trt.DataType, dtype)
    desc.format = getattr(trt.TensorFormat, name)
    return desc


def dynamic(trt, shape, name="LINEAR", dtype="HALF"):
    made = trt.DynamicPluginTensorDesc()
    low = [4 if n == -1 else n for n in shape]
    high = [64 if n == -1 else n for n in shape]
    made.desc = description(trt, shape, name, dtype)
    made.min, made.opt, made.max = trt.Dims(low), trt.Dims(low), trt.Dims(high)
    return made


SHAPES = (
    (-1, 16, -1, -1),
    SCHEDULE and (3, 16, 32, 16),
    (8,),
    (8,),
    (-1, 8, -1, -1),
    (-1, 8, -1, -1),
)
ADDRESSES = dict(zip(("x", "w", "bias", "slope", "residual"), range(1000, 6000, 1000), strict=True))


def test_an_execution_is_one_launch_with_pointers_and_numbers_in_order(rtx, launched):
    trt = rtx.module
    layer = layer_class(trt)(State(RECORD), [])
    names = ("HWC8", "LINEAR", "LINEAR", "LINEAR", "LINEAR", "LINEAR")
    described = [dynamic(trt, s, n) for s, n in zip(SHAPES, names, strict=True)]
    assert all(layer.supports_format_combination(i, described, 5) for i in range(6))
    layer.configure_plugin(described[:5], described[5:])
    layer.set_tactic(2)
    layer = layer.attach_to_context(None).clone()
    for shape, outs in (((2, 16, 7, 9), (2, 8, 14, 17)), ((1, 16, 4, 4), (1, 8, 8, 7))):
        shapes = (shape, *SHAPES[1:4], outs, outs)
        now = [description(trt, s, n) for s, n in zip(shapes, names, strict=True)]
        layer.on_shape_change(now[:5], now[5:])
        del launched.driver.calls[:]
        layer.enqueue(now[:5], now[5:], list(ADDRESSES.values()), [9000], 0, 55)
        ((name, arguments),) = launched.driver.calls
        assert name == "cuLaunchKernel"
        _, gx, gy, gz, bx, by, bz, shared, stream, (values, types), extra = arguments
        kernel, capability, schedule = launched.compiled[-1]
        assert (kernel.channels_last_in, kernel.channels_last_out, capability) == (True, False, 90)
        assert schedule == State(RECORD).schedules(90)[1]
        assert (gy, gz, by, bz, shared, stream, extra) == (1, 1, 1, 1, 1024, 55, 0)
        assert bx == schedule.warps * 32
        h, w = shape[2:]
        assert values[:5] == tuple(ADDRESSES.values()) and values[-1] == 9000
        numbers = dict(zip(NUMBERS, values[5:-1], strict=True))
        assert (numbers["in_h"], numbers["out_h"]) == (h, outs[2])
        assert numbers["x_n"] == 16 * h * w and numbers["y_n"] == 8 * outs[2] * outs[3]
        assert len(types) == len(values)
        assert gx % -(-numbers["rows"] // schedule.block_m) == 0 < gx


def test_a_residual_lies_as_the_output_and_types_agree(rtx):
    trt = rtx.module
    layer = layer_class(trt)(State(RECORD), [])
    names = ("LINEAR", "LINEAR", "LINEAR", "LINEAR", "HWC8", "LINEAR")
    described = [dynamic(trt, s, n) for s, n in zip(SHAPES, names, strict=True)]
    answers = [layer.supports_format_combination(i, described, 5) for i in range(6)]
    assert answers == [True, True, True, True, True, False]
    described[1] = dynamic(trt, SHAPES[1], "HWC8")
    assert not layer.supports_format_combination(1, described, 5)
    described[0] = dynamic(trt, SHAPES[0], dtype="FLOAT")
    assert not layer.supports_format_combination(0, described, 5)


def test_sizes_past_31_bits_need_the_wide_kernel(launched):
    made = State(replace(RECORD, has_residual=False))
    made.prepared((64, 16, 2048, 2048), 90)
    assert launched.compiled[-1][0].wide
    made.prepared((2, 16, 2048, 2048), 90)
    assert not launched.compiled[-1][0].wide


def test_missing_parts_say_what_to_install(monkeypatch):
    driver._driver.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(MissingPartError, match="cuda-bindings is not installed") as error:
        driver._driver()
    assert "tensorrt-plugin" in error.value.help
    assert driver.device_capability() is None

    def no_library(flags):
        raise RuntimeError('"cuda" can only be found via system search. Install the driver.')

    bindings = SimpleNamespace(driver=SimpleNamespace(cuInit=no_library))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    with pytest.raises(MissingPartError, match="CUDA driver is not installed"):
        driver._driver()
    driver._driver.cache_clear()


class TestStandardNodes:
    def record(self, values, x=(None, 6, 8, 5), w=(6, 4, 3, 4), inputs=3):
        return standard_record(values, x, w, inputs)

    def test_attributes_are_resolved(self):
        made = self.record({"strides": [2, 2], "auto_pad": "SAME_UPPER", "group": 2})
        assert made.spec.output_sizes((8, 5)) == (16, 10)
        assert (made.spec.out_channels, made.has_bias, made.packing) == (8, True, None)

    def test_output_shape_needs_known_sizes(self):
        values = {"strides": [2, 2], "output_shape": [16, 13]}
        assert self.record(values).spec.output_sizes((8, 5)) == (16, 13)
        with pytest.raises(UsageError, match="sizes that the model leaves open"):
            self.record(values, x=(None, 6, None, 5))

    def test_a_weight_of_unknown_shape_and_wrong_geometry_are_refused(self):
        with pytest.raises(UsageError, match="known shape"):
            self.record({}, w=(6, None, 3, 4))
        with pytest.raises(GeometryError):
            self.record({"strides": [0, 1]})
        with pytest.raises(ConvtError):
            self.record({}, x=(None, 5, 8, 5))


def test_numbers_of_a_kernel_are_int32():
    with pytest.raises(driver.DriverError, match="too large"):
        driver._number("rows", grid(KernelSpec(SPEC, "float16", (None,) * 3), SCHEDULE),
                       {"n": 1 << 20, "h": 1 << 20, "w": 1 << 20})  # fmt: skip
    assert np.int32(driver.INT32_END - 1) == driver.INT32_END - 1
