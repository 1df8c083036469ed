"""Quantised nodes never become integer convolutions that saturate on some processors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from convt_onnx import OptimizeOptions, inspect, optimize
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.tuning.options import TuneOptions

from .forms.quantising import Quantised, build, make_parts, run, run_optimised

SPEC = ConvTransposeSpec(
    in_channels=6,
    out_channels=4,
    group=2,
    kernel=(4, 3),
    strides=(2, 2),
    dilations=(1, 1),
    pads_begin=(1, 0),
    pads_end=(0, 1),
    output_padding=(0, 0),
)
CASE = Quantised(SPEC, (5, 4), axis=1, zero_points="zero", mlas=True, opset=19)
UNTIMED = TuneOptions(enabled=False)
TIMED = TuneOptions(seconds=4)


def quantised(path, largest, case=CASE, *, zero=0):
    """The case with one weight of that size, or a zero point, written to a file."""
    parts = make_parts(case)
    parts.arrays["w_q"] = np.clip(parts.arrays["w_q"], -60, 60)
    parts.arrays["w_q"].reshape(-1)[7] = largest
    if zero:
        parts.arrays["w_z"][1] = zero
    onnx.save(build(case, ["a"], parts), path)
    return path


def decided(path, **options):
    result = optimize(path, path.with_suffix(".out.onnx"), OptimizeOptions(**options))
    (decision,) = result.decisions
    return decision, result


def refused(decision):
    return {c.form for c in decision.candidates if c.refusal and c.refusal.id == "CT465"}


@pytest.mark.parametrize("x_type", ["uint8", "int8"])
@pytest.mark.parametrize("tune", [UNTIMED, TIMED], ids=["expected", "timed"])
@pytest.mark.parametrize("largest", [65, 127, -65, -128])
def test_wide_weights_stay_in_floats(tmp_path, largest, tune, x_type):
    path = quantised(tmp_path / "m.onnx", largest, replace(CASE, x_type=x_type))
    decision, result = decided(path, tune=tune)
    assert (decision.form, decision.reason.id) == ("keep", "CT465")
    assert str(abs(largest)) in decision.reason.detail
    assert refused(decision) > {"phases", "phases-split", "overlap-add", "zero-insertion"}
    assert not result.notes or "CT465" not in " ".join(result.notes)
    kinds = [n.op_type for n in onnx.load(result.output).graph.node]
    assert "ConvTranspose" in kinds and "Conv" not in kinds


@pytest.mark.parametrize("largest", [64, -64])
def test_reduced_range_may_take_any_form(tmp_path, largest):
    decision, _ = decided(quantised(tmp_path / "m.onnx", largest), tune=UNTIMED)
    assert refused(decision) == set()
    assert decision.reason.id != "CT465"


def test_a_zero_point_counts_since_gaps_are_filled_with_it(tmp_path):
    decision, _ = decided(quantised(tmp_path / "m.onnx", 60, zero=-65), tune=UNTIMED)
    assert decision.reason.id == "CT465"


@pytest.mark.parametrize("change", [{"w_type": "uint8"}, {"x_type": "int16", "opset": 21}])
def test_kernels_that_do_not_saturate(tmp_path, change):
    case = replace(CASE, **change)
    parts = make_parts(case)
    parts.arrays["w_q"].reshape(-1)[7] = 127
    onnx.save(build(case, ["a"], parts), tmp_path / "m.onnx")
    decision, _ = decided(tmp_path / "m.onnx", tune=UNTIMED)
    assert refused(decision) == set()


@pytest.mark.parametrize("between", ["Transpose", "Identity", "Relu"])
def test_what_moves_elements_does_not_hide_integers(tmp_path, between):
    """ONNX Runtime moves DequantizeLinear behind it; what computes stays in floats."""
    path = quantised(tmp_path / "m.onnx", 127)
    proto = onnx.load(path)
    (node,) = (n for n in proto.graph.node if n.op_type == "ConvTranspose")
    perm = {"perm": [0, 1, 3, 2]} if between == "Transpose" else {}
    proto.graph.node.insert(2, onnx.helper.make_node(between, [node.input[0]], ["moved"], **perm))
    node.input[0] = "moved"
    onnx.save(proto, path)
    decision, _ = decided(path, tune=UNTIMED)
    assert bool(refused(decision)) == (between != "Relu")


def test_float_activations_are_not_held_back(tmp_path):
    path = quantised(tmp_path / "m.onnx", 127)
    proto = onnx.load(path)
    (node,) = (n for n in proto.graph.node if n.op_type == "ConvTranspose")
    node.input[0] = "x"
    onnx.save(proto, path)
    decision, _ = decided(path, tune=UNTIMED)
    assert refused(decision) == set()


def test_forced_forms_are_written_with_a_warning(tmp_path):
    path = quantised(tmp_path / "m.onnx", 127)
    decision, result = decided(path, forms={"all": "phases"})
    assert decision.form == "phases"
    assert_warned(result)


def test_portable_models_are_written_with_a_warning(tmp_path):
    decision, result = decided(quantised(tmp_path / "m.onnx", 127), target="portable")
    assert decision.rewritten
    assert_warned(result)


def assert_warned(result):
    (note,) = (n for n in result.notes if "CT465" in n)
    assert note.startswith("a: ") and "\n" not in note
    assert "127" in note and "reduce_range" in note and "--dequantize" in note


@pytest.mark.parametrize("options", [{"dequantize": True}, {}], ids=["floats", "narrow"])
def test_no_warning_where_nothing_saturates(tmp_path, options):
    path = quantised(tmp_path / "m.onnx", 127 if options else 64)
    decision, result = decided(path, target="portable", **options)
    assert decision.rewritten
    assert not [n for n in result.notes if "CT465" in n]


def test_inspect_says_so(tmp_path):
    (node,) = inspect(quantised(tmp_path / "m.onnx", 127), ["ort-cpu"]).nodes
    assert node.decisions[0].reason.id == "CT465"
    assert refused(node.decisions[0])


@pytest.mark.parametrize("x_type", ["uint8", "int8"])
@pytest.mark.parametrize("form", ["phases", "zero-insertion"])
def test_the_bound_holds_in_the_kernels(tmp_path, form, x_type):
    """The largest products that may be neighbours, in ONNX Runtime's own integer convolution."""
    case = replace(CASE, x_type=x_type, bias=None)
    parts = make_parts(case)
    parts.arrays["w_q"][:, ::2] = 64
    parts.arrays["w_q"][:, 1::2] = -64
    parts.arrays["y_s"] = np.float32(parts.arrays["y_s"] * 20)
    onnx.save(build(case, ["a"], parts), tmp_path / "m.onnx")
    _, result = decided(tmp_path / "m.onnx", forms={"all": form})
    feeds = {"x": np.full((2, 6, 5, 4), 1e3, np.float32)}
    feeds["x"][0, ::3] = -1e3
    wanted = run(onnx.load(tmp_path / "m.onnx"), feeds)["y_a"]
    got, kinds = run_optimised(onnx.load(result.output), feeds, tmp_path)
    assert "QLinearConv" in kinds
    assert np.unique(wanted).size > 2
    assert np.abs(got["y_a"] - wanted).max() <= parts.arrays["y_s"] * 1.01
