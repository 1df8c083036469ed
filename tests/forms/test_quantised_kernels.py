"""What ONNX Runtime's graph optimiser makes of the forms: integer kernels, and the same values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings

from convt_onnx.spec import ConvTransposeSpec

from .quantising import (
    Quantised,
    applicable,
    assert_right,
    feed,
    lowered,
    make_parts,
    oracle,
    quantised,
    run_optimised,
)

BASE = settings(
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
NATIVE = ("keep", "undilate")


def loads(case, name):
    """Not where ONNX Runtime 1.32 spoils the model itself.

    From opset 21 on it repeats an int8 DequantizeLinear behind a Transpose with output_dtype INT8
    and the zero point made uint8, on processors that do not multiply int8.
    """
    return not (name == "zero-insertion" and case.x_type == "int8" and case.opset >= 21)


@pytest.mark.parametrize("shard", range(4))
def test_optimised_models_compute_the_same(shard, tmp_path):
    @seed(shard)
    @settings(BASE, max_examples=60)
    @given(quantised())
    def sweep(case):
        names = [n for n in applicable(case) if loads(case, n)]
        assume(names)
        parts = make_parts(case)
        feeds = {"x": feed(case)}
        wanted = oracle(case, parts, feeds)
        got, _ = run_optimised(lowered(case, names), feeds, tmp_path)
        for name in names:
            # A float bias is quantised for the integer kernel: another part of a step.
            slack = 0.0 if case.output == "float" else parts.step / 2
            assert_right(case, parts, got[f"y_{name}"].astype(np.float64), wanted, name, slack)

    sweep()


def spec(ndim=2, kernel=4, stride=2, group=1, channels=(4, 6), pads=1):
    each = (1,) * ndim
    return ConvTransposeSpec(
        in_channels=channels[0],
        out_channels=channels[1],
        group=group,
        kernel=tuple(kernel * i for i in each),
        strides=tuple(stride * i for i in each),
        dilations=each,
        pads_begin=tuple(pads * i for i in each),
        pads_end=tuple(pads * i for i in each),
        output_padding=tuple(0 * i for i in each),
    )


SPECS = {
    "overlap": spec(),
    "no overlap": spec(kernel=2, pads=0),
    "stride 1": spec(kernel=3, stride=1),
    "cropped stride 1": spec(kernel=2, stride=1, pads=3),
    "groups": spec(group=2),
    "depthwise": spec(group=4, channels=(4, 4)),
    "1-D": spec(ndim=1, kernel=8, stride=4, pads=2),
}


@pytest.mark.parametrize("output", ["quantised", "relu"])
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("which", SPECS)
@pytest.mark.parametrize("opset", [13, 17, 21])
def test_a_convolution_gets_the_integer_kernel(which, axis, output, opset, tmp_path):
    each = SPECS[which]
    case = Quantised(each, (9,) * each.ndim, axis=axis, output=output, opset=opset)
    parts, feeds = make_parts(case), {"x": feed(case)}
    wanted = oracle(case, parts, feeds)
    names = [n for n in applicable(case) if n not in (*NATIVE, "overlap-add")]
    assert names
    for name in names:
        got, ops = run_optimised(lowered(case, [name]), feeds, tmp_path)
        assert "QLinearConv" in ops, (name, ops)
        assert "Conv" not in ops, (name, ops)
        slack = parts.step / 2
        assert_right(case, parts, got[f"y_{name}"].astype(np.float64), wanted, name, slack)


def test_depthwise_weights_with_a_scale_an_input_channel_get_it_too(tmp_path):
    case = Quantised(SPECS["depthwise"], (5, 5), axis=0)
    _, ops = run_optimised(lowered(case, ["phases"]), {"x": feed(case)}, tmp_path)
    assert "QLinearConv" in ops


@pytest.mark.parametrize("which", ["overlap", "groups", "1-D", "stride 1"])
@pytest.mark.parametrize("channels", [(4, 4), (8, 2), (2, 8)])
def test_a_scale_an_input_channel_never_becomes_an_integer_kernel(which, channels, tmp_path):
    """ONNX Runtime would take it for one an output channel."""
    each = SPECS[which]
    each = spec(each.ndim, each.kernel[0], each.strides[0], min(each.group, 2), channels)
    assume_groups = each.in_per_group > 1
    case = Quantised(each, (6,) * each.ndim, axis=0)
    parts, feeds = make_parts(case), {"x": feed(case)}
    wanted, names = oracle(case, parts, feeds), applicable(case)
    assert len(names) > 2
    for name in names:
        got, ops = run_optimised(lowered(case, [name]), feeds, tmp_path)
        assert ("QLinearConv" in ops) <= (not assume_groups)
        assert_right(case, parts, got[f"y_{name}"].astype(np.float64), wanted, name)


@pytest.mark.parametrize("output", ["quantised", "relu", "float"])
@pytest.mark.parametrize("opset", [19, 20, 21, 23])
def test_onnxruntime_loads_every_form_of_an_int8_input(opset, output, tmp_path):
    """At its default optimisation, also where the processor does not multiply int8."""
    spec = ConvTransposeSpec(6, 4, 2, (4, 3), (2, 2), (1, 1), (1, 0), (0, 1), (0, 0))
    case = Quantised(spec, (5, 4), axis=1, x_type="int8", opset=opset, output=output, mlas=True)
    names = applicable(case)
    assert ("zero-insertion" in names) == (opset < 21)
    for name in names:
        got, _ = run_optimised(lowered(case, [name]), {"x": feed(case)}, tmp_path)
        assert got[f"y_{name}"].shape == (2, 4, 11, 8)
