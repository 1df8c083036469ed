"""Rows in pairs, from four convolutions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.forms import FORMS, Setting
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.tuning.options import TuneOptions

from ..graph.building import array, model, write
from .cpu_cases import X86, case_of, optimised
from .drawn import Drawn, applicable, build, compare, lowered, run
from .lowering import initializers, refusals
from .test_separable import like


def plain(channels=(16, 20), kernel=(3, 3), pads=(1, 1), ends=(1, 1), **changed):
    fields = {"strides": (1, 1), "dilations": (1, 1), "group": 1, "output_padding": (0, 0)}
    ci, co = channels
    return ConvTransposeSpec(
        ci, co, kernel=kernel, pads_begin=pads, pads_end=ends, **(fields | changed)
    )


def crops(axis_extent):
    return st.integers(0, axis_extent - 1)


@st.composite
def cases(draw):
    kernel, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    extent = (kernel - 1) * dilation + 1
    each = plain(
        draw(st.sampled_from([(16, 16), (16, 24), (20, 16), (36, 28)])),
        (3, kernel),
        (draw(crops(3)), draw(crops(extent))),
        (draw(crops(3)), draw(crops(extent))),
        dilations=(1, dilation),
        output_padding=(draw(st.integers(0, 3)), draw(st.integers(0, 3))),
    ).canonical()
    return case_of(
        each,
        tuple(a.least_length + draw(st.integers(0, 6)) for a in each.axes()),
        draw(st.sampled_from(["static", "batch"])),
        bias=draw(st.booleans()),
        opset=draw(st.sampled_from([7, 9, 10, 11, 13, 17, 22, 24])),
        seed=draw(st.integers(0, 1000)),
    )


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_the_pairs_equal_the_oracle(case):
    assert "winograd" in applicable(case)
    compare(case, lowered(case, ["winograd"]), ["winograd"], case.sizes, 2)


@pytest.mark.parametrize("begin", [0, 1, 2])
@pytest.mark.parametrize("end", [0, 1, 2])
@pytest.mark.parametrize("height", [3, 4, 7, 8])
def test_every_crop_of_odd_and_even_heights(begin, end, height):
    case = case_of(plain(pads=(begin, 1), ends=(end, 0)), (height, 5))
    made = lowered(case, ["winograd"])
    odd = (height + 2 - begin - end) % 2
    assert Counter(n.op_type for n in made.graph.node) == Counter(
        Conv=9, Add=4, Concat=1, Reshape=1, Slice=odd
    )
    compare(case, made, ["winograd"], case.sizes, 2)


def test_rows_below_the_last_hold_the_bias_alone():
    case = case_of(plain(output_padding=(4, 0)), (5, 4))
    made, arrays = lowered(case, ["winograd"]), case.arrays((5, 4), 2)
    y = run(case, made, {"x": arrays["x"]})["y_winograd"]
    assert y.shape == (2, 20, 9, 4)
    # The input's last row reaches one row past its own with this crop, and four more are padded.
    assert (y[:, :, 6:] == arrays["b"][:, None, None]).all()
    assert (y[:, :, :6] != arrays["b"][:, None, None]).all()
    compare(case, made, ["winograd"], case.sizes, 2)


def test_two_thirds_of_the_products():
    case = case_of(plain((32, 64)), (10, 12))
    made, native = (FORMS[n].work(case.spec, 2, case.sizes) for n in ("winograd", "keep"))
    products = 2 * 5 * 12 * 4 * 32 * 64 * 3
    assert products < made.macs < 1.1 * products < 0.8 * native.macs
    kernels = [w for w in initializers(lowered(case, ["winograd"])).values() if w.ndim == 4]
    assert sorted(w.shape for w in kernels if w.shape[1] > 1) == [(64, 32, 1, 3)] * 4


@pytest.mark.skipif(not X86, reason="blocks of channels are for x86")
def test_one_way_into_the_blocked_layout_and_two_out_of_it(tmp_path):
    case = case_of(plain((64, 64)), (8, 12))
    kinds = Counter(n.op_type for n in optimised(lowered(case, ["winograd"]), tmp_path))
    assert (kinds["ReorderInput"], kinds["ReorderOutput"]) == (1, 2)
    # The others are taken in by convolutions.
    assert (kinds["Conv"], kinds["Add"]) == (9, 1)


def test_nodes_of_one_weight_share_what_is_made_of_it(tmp_path):
    text = """g (float[1,16,8,12] x) => (float[A,B,C,D] y, float[E,F,G,H] z) {
      y = ConvTranspose <pads=[1,1,1,1]> (x, w)
      z = ConvTranspose <pads=[0,1,1,0]> (x, w) }"""
    source = write(model(text, w=array(16, 20, 3, 3)), tmp_path)
    options = OptimizeOptions(forms={"all": "winograd"}, tune=TuneOptions(enabled=False))
    made = onnx.load(optimize(source, options=options).output)
    kernels = [t for t in made.graph.initializer if list(t.dims) == [20, 16, 1, 3]]
    assert len(kernels) == 4


def refused(case):
    found = refusals(build(case, ["probe"]), Setting(case.opset, mlas=case.mlas))["winograd"]
    return None if found is None else found.id


SIZES = (6, 5)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (case_of(plain(), SIZES), None),
        (case_of(plain(), SIZES, "batch"), None),
        (case_of(plain(kernel=(3, 4), dilations=(1, 2)), SIZES), None),
        (case_of(plain(), SIZES, mlas=False), "CT313"),
        (case_of(plain(), SIZES, opset=6), "CT306"),
        (case_of(plain(), SIZES, run_time_weight=True), "CT314"),
        (case_of(plain(), SIZES, "spatial"), "CT325"),
        (case_of(plain(), SIZES, "unknown"), "CT325"),
        (case_of(plain(), SIZES, dtype="float16"), "CT325"),
        (case_of(plain(kernel=(4, 3)), SIZES), "CT325"),
        (case_of(plain(dilations=(2, 1)), SIZES), "CT325"),
        (case_of(plain(strides=(2, 1)), SIZES), "CT325"),
        (case_of(plain(strides=(1, 2)), SIZES), "CT325"),
        (case_of(plain((18, 16)), SIZES), "CT325"),
        (case_of(plain((16, 18)), SIZES), "CT325"),
        (case_of(plain((12, 16)), SIZES), "CT325"),
        (case_of(plain((32, 32), group=2), SIZES), "CT325"),
        (case_of(plain(pads=(3, 0)), SIZES), "CT325"),
        (case_of(plain(ends=(1, 3)), SIZES), "CT325"),
    ],
)
def test_where_it_applies(case, reason):
    assert refused(case) == reason


@dataclass(frozen=True)
class Filled(Drawn):
    """Taps and inputs of one size each."""

    taps: float = 1.0
    inputs: float = 1.0

    def arrays(self, sizes, batch):
        arrays = super().arrays(sizes, batch)
        filled = {"w": self.taps, "x": self.inputs}
        return arrays | {n: np.full_like(arrays[n], x) for n, x in filled.items()}


@pytest.mark.parametrize(("taps", "reason"), [(1e38, None), (2e38, "CT326"), (np.nan, "CT326")])
def test_sums_of_taps_have_to_be_numbers(taps, reason):
    assert refused(like(case_of(plain(), SIZES), Filled, taps=taps)) == reason


def test_inputs_up_to_half_of_what_float32_holds():
    case = like(case_of(plain(), SIZES, bias=False), Filled, taps=1e-3, inputs=1.6e38)
    arrays = case.arrays(SIZES, 2)
    y = run(case, lowered(case, ["winograd"]), {"x": arrays["x"]})["y_winograd"]
    expected = conv_transpose(arrays["x"], arrays["w"], None, case.spec)
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def error(case, form):
    """Root of the mean square, in float64."""
    arrays = case.arrays(case.sizes, 2)
    y = run(case, lowered(case, [form]), {"x": arrays["x"]})[f"y_{form}"]
    expected = conv_transpose(arrays["x"], arrays["w"], arrays["b"], case.spec)
    return np.sqrt(np.mean((y - expected) ** 2))


def test_the_error_is_about_that_of_a_convolution():
    case = case_of(plain((64, 64)), (32, 20))
    assert 0 < error(case, "winograd") < 2 * error(case, "conv")


def test_an_empty_batch_stays_empty():
    case = case_of(plain(), SIZES, "batch")
    session = ort.InferenceSession(
        lowered(case, ["winograd"]).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": np.zeros((0, 16, *SIZES), np.float32)})
    assert y.shape == (0, 20, *case.spec.output_sizes(SIZES))
