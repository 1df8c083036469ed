"""The sizes that nodes are timed and costed at, where the model leaves them open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convt_onnx.forms import FORMS
from convt_onnx.report.gathering import node_rows
from convt_onnx.tuning.options import SizeSet, TuneOptions
from convt_onnx.verify import VerifyOptions

from ..graph.building import array, model
from .faking import by_form

ONE = """g (float[1,3,7,5] x) => (float[A,B,C,D] y) {
  [up] y = ConvTranspose <strides=[2,2]> (x, w) }"""
OPEN = ONE.replace("[1,3,7,5]", "[N,3,H,W]")
W = array(3, 4, 4, 3)
FASTER = {"keep": 1.0, "phases": 0.5}


def test_open_sizes_are_those_of_the_user(tuned):
    sizes = (SizeSet({"x": (2, 3, 5, 6)}), SizeSet({"x": (1, 3, 9, 8)}))
    result = tuned(model(OPEN, w=W), by_form(FASTER), tune=TuneOptions(seconds=1e9, sizes=sizes))
    (node,) = result.tuning.nodes
    assert node.x_shapes == ((2, 3, 5, 6), (1, 3, 9, 8))
    assert all(len(f.times) == 2 for f in node.forms)
    assert [m.inputs for m in result.tuning.models] == ["x:2,3,5,6", "x:1,3,9,8"]
    assert result.tuning.rule == "worst"


def both(*, tune=None, text=OPEN, **seconds):
    """Two sets of sizes, and a form that gains less at the second than at the first."""
    sizes = (SizeSet({"x": (2, 3, 5, 6)}), SizeSet({"x": (1, 3, 9, 8)}))
    speed = by_size({"keep": 2.0, "phases": 1.5}, {"keep": 2.0, "phases": 1.0})
    tune = tune or TuneOptions(seconds=1e9)
    return model(text, w=W), speed, replace(tune, sizes=sizes)


def test_times_and_work_of_a_node_are_of_one_set_that_is_named(tuned):
    proto, speed, tune = both()
    result = tuned(proto, speed, tune=tune)
    (decision,) = result.decisions
    assert decision.inputs == "x:1,3,9,8"
    assert decision.before.median_us / decision.after.median_us == pytest.approx(2 / 1.5)
    assert (decision.costs.batch, decision.costs.sizes) == (1, (9, 8))
    works = {c.form: c.work for c in decision.candidates if c.work is not None}
    assert works == {f: FORMS[f].work(decision.spec, 1, (9, 8)) for f in works}
    assert len(works) > 2
    (row,) = node_rows(result.decisions, None, result.tuning)
    assert (row.inputs, row.costs) == ("x:1,3,9,8", decision.costs)


@pytest.mark.parametrize(
    ("text", "tune", "inputs"),
    [
        (OPEN, TuneOptions(enabled=False), "x:2,3,5,6"),
        (OPEN, TuneOptions(seconds=1e-9), "x:2,3,5,6"),
        (ONE.replace("[1,3,7,5] x", "[1,3,7,5] x, float[N] z"), TuneOptions(enabled=False), ""),
    ],
)
def test_where_nothing_is_timed_the_set_that_costs_are_of_is_named(tuned, text, tune, inputs):
    proto, speed, tune = both(tune=tune, text=text)
    if not inputs:
        tune = replace(tune, sizes=(SizeSet({"z": (3,)}), SizeSet({"z": (4,)})))
    (decision,) = tuned(proto, speed, tune=tune).decisions
    assert decision.inputs == inputs
    assert decision.costs.sizes == ((5, 6) if inputs else (7, 5))


def test_one_set_needs_no_name(tuned):
    (decision,) = tuned(model(OPEN, w=W), by_form(FASTER)).decisions
    assert decision.inputs == ""
    assert decision.costs.sizes == (128, 96)


def test_open_sizes_are_those_that_are_verified(tuned):
    checks = VerifyOptions(input_shapes={"x": (2, 3, 5, 6)})
    result = tuned(model(OPEN, w=W), by_form(FASTER), checks=checks)
    assert result.tuning.nodes[0].x_shapes == ((2, 3, 5, 6),)


def test_open_sizes_that_nobody_gave(tuned):
    result = tuned(model(OPEN, w=W), by_form(FASTER))
    assert result.tuning.nodes[0].x_shapes == ((1, 3, 128, 96),)


def by_size(large, small):
    """Seconds by form, of large and of small inputs."""

    def speed(proto):
        dims = proto.graph.input[0].type.tensor_type.shape.dim
        if proto.graph.name != "node":
            return by_form({"keep": 1.0, "phases": 0.5})(proto)
        return by_form(large if dims[2].dim_value > 6 else small, rest=9.0)(proto)

    return speed


@pytest.mark.parametrize(
    ("weights", "form"), [((None, None), None), ((1, 1), "phases"), ((1, 50), None)]
)
def test_the_worst_or_the_weighted_size_decides(tuned, weights, form):
    small, large = {"keep": 1.0, "phases": 1.2}, {"keep": 3.0, "phases": 1.5}
    sizes = (
        SizeSet({"x": (1, 3, 9, 8)}, weights[0]),
        SizeSet({"x": (2, 3, 5, 6)}, weights[1]),
    )
    result = tuned(
        model(OPEN, w=W), by_size(large, small), tune=TuneOptions(seconds=1e9, sizes=sizes)
    )
    (decision,) = result.decisions
    assert decision.form == form
    if form:
        assert result.tuning.rule == "weighted"
