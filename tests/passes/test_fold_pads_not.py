from __future__ import annotations

import numpy as np
import onnx
import pytest

from convt_onnx.passes.fold_pads import FoldPads

from ..graph.building import array, as_inputs, ints, model
from .padding import before, behind


def assert_refused(applied, *ids):
    assert applied.changes == ()
    assert [m.reason.id for m in applied.context.misses] == list(ids)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_not_a_pad_that_repeats_rows(apply, mode):
    text = f"""g (float[2,4,5] x) => (float[] y) {{
      p = Pad <mode="{mode}"> (x, pads) [ct] y = ConvTranspose <pads=[2,2]> (p, w) }}"""
    made = model(text, opset=19, w=array(4, 3, 4), pads=ints(0, 0, 1, 0, 0, 1))
    assert_refused(apply(made, FoldPads), "CT421")


@pytest.mark.parametrize("value", [1.0, "bias"])
def test_not_another_value(apply, value):
    made = behind([0, 0, 0, 0, 0, 1], ", strides=[2]", pad="Pad (h, pads, v)", bias=np.ones(6, "f"))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((), "f"), "v"))
    assert_refused(apply(made, FoldPads), "CT422")
    made = as_inputs(made, "v")
    assert_refused(apply(made, FoldPads), "CT422")


def test_not_pads_known_at_run_time_only(apply):
    text = """g (float[2,4,5] x, int64[6] pads) => (float[] y) {
      p = Pad (x, pads) [ct] y = ConvTranspose <pads=[2,2]> (p, w) }"""
    assert_refused(apply(model(text, w=array(4, 3, 4)), FoldPads), "CT423")
    made = as_inputs(before([0, 0, 1, 0, 0, 0], ", pads=[2,2]"), "pads")
    assert_refused(apply(made, FoldPads), "CT423")


@pytest.mark.parametrize("pads", [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 2, 1]])
def test_not_batch_or_channels(apply, pads):
    channels = 4 + pads[1] + pads[4]
    made = before(pads, ", pads=[2,2]", w=(channels, 3, 4))
    assert_refused(apply(made, FoldPads), "CT424")


@pytest.mark.parametrize(("pads", "ids"), [([1, -1], ["CT425"]), ([-1, 0], []), ([-1, -1], [])])
def test_not_where_rows_are_dropped(apply, pads, ids):
    full = [0, 0, pads[0], 0, 0, pads[1]]
    assert_refused(apply(before(full, ", pads=[2,2]"), FoldPads), *ids)
    assert_refused(apply(behind(full), FoldPads), *ids)


@pytest.mark.parametrize(
    ("pads", "attributes"),
    [
        ([0, 0, 1, 0, 0, 0], ", strides=[2], pads=[1,0]"),
        ([0, 0, 0, 0, 0, 1], ", strides=[2], pads=[1,0]"),
        ([0, 0, 0, 0, 0, 1], ""),
    ],
)
def test_not_where_no_valid_pads_say_it(apply, pads, attributes):
    assert_refused(apply(before(pads, attributes), FoldPads), "CT426")


def test_not_behind_where_no_valid_pads_say_it(apply):
    assert_refused(apply(behind([0, 0, 1, 0, 0, 0], ", strides=[2]"), FoldPads), "CT426")
    assert_refused(apply(behind([0, 0, 0, 0, 0, 2], ", strides=[2]"), FoldPads), "CT426")


@pytest.mark.parametrize("overridable", [False, True])
def test_not_where_the_rows_would_hold_the_bias(apply, overridable):
    bias = np.zeros(6, np.float32) if overridable else array(6)
    made = behind([0, 0, 0, 0, 0, 1], ", strides=[2]", bias=bias)
    assert_refused(apply(as_inputs(made, "b") if overridable else made, FoldPads), "CT427")


@pytest.mark.parametrize("pads", [[0, 0, 0, 0, 0, 1], [0, 0, 1, 0, 0, 0]])
def test_not_where_the_rows_would_hold_values(apply, pads):
    assert_refused(apply(behind(pads, ", strides=[2], pads=[1,1]"), FoldPads), "CT428")


def test_not_where_the_unpadded_output_is_read_elsewhere(apply):
    text = """g (float[2,4,5] x) => (float[] y, float[] z) {
      [ct] h = ConvTranspose <strides=[2]> (x, w) y = Pad (h, pads) z = Relu (h) }"""
    made = model(text, w=array(4, 3, 4), pads=ints(0, 0, 0, 0, 0, 1))
    assert_refused(apply(made, FoldPads), "CT429")
    text = """g (float[2,4,5] x) => (float[] y, float[] h) {
      [ct] h = ConvTranspose <strides=[2]> (x, w) y = Pad (h, pads) }"""
    made = model(text, w=array(4, 3, 4), pads=ints(0, 0, 0, 0, 0, 1))
    assert_refused(apply(made, FoldPads), "CT429")


def test_not_where_the_crop_depends_on_an_open_size(apply):
    made = before([0, 0, 1, 0, 0, 0], ", output_shape=[9], strides=[2]", x="float[2,4,L]")
    assert_refused(apply(made, FoldPads), "CT430")


def test_not_a_node_that_the_user_skips(apply):
    assert_refused(apply(before([0, 0, 1, 0, 0, 0], ", pads=[2,2]"), FoldPads, skip=["ct"]))
