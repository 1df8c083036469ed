from __future__ import annotations

import json

import pytest

from convt_onnx import OptimizeOptions, inspect, optimize
from convt_onnx.prediction import predictor as predicting
from convt_onnx.prediction.table import TABLE_PATH, CostTable, Switch, cost_table
from convt_onnx.prediction.vectors import KINDS

from ..graph.building import array, model, write

ONE = """g (float[1,3,7,5] x) => (float[A,B,C,D] y) {
  [up] y = ConvTranspose <strides=[2,2]> (x, w) }"""
GAIN, SAVING = 1.2, 4.0
TABLE = CostTable(
    {1: {"calls": 10.0}, 2: {"calls": 6.0}, 8: {"calls": 3.0}},
    {1: Switch(9.0, 0.0), 2: Switch(1.0, 9e9), 8: Switch(GAIN, SAVING)},
    "a test",
)


@pytest.mark.parametrize(
    ("threads", "nanoseconds"), [(1, 10), (2, 6), (3, 6), (7, 3), (8, 3), (64, 3), (0, 3)]
)
def test_the_nearest_number_of_threads(threads, nanoseconds):
    assert TABLE.micros({"calls": 1000, "new": 5}, threads) == nanoseconds
    assert TABLE.switch(threads) == TABLE.switches[{10: 1, 6: 2, 3: 8}[nanoseconds]]


@pytest.mark.parametrize("vectors", KINDS.values(), ids=KINDS)
def test_the_tables_that_come_with_the_package(vectors):
    table = cost_table(vectors)
    assert {1, 2} <= set(table.nanoseconds)
    assert "onnxruntime" in table.environment
    assert set(table.switches) == set(table.nanoseconds)
    assert all(1 <= s.gain < 2 and 0 <= s.saving_us < 100 for s in table.switches.values())
    for coefficients in table.nanoseconds.values():
        assert all(0 < x < 1e6 for x in coefficients.values())
        assert {"calls", "gemm_macs"} <= set(coefficients)
    stated = json.loads(TABLE_PATH.read_text())[vectors.name]["out_of_sample"]
    assert all(error["nodes"] > 100 for error in stated.values())


@pytest.fixture
def expecting(monkeypatch):
    """Set what each form is expected to take, in microseconds."""

    def install(rest=1e6, **micros):
        def counts(node, form, setting, target, x_shape, vectors):
            asked.append((form, tuple(x_shape)))
            return {"calls": 1000 / 3 * micros.get(form.replace("-", "_"), rest)}

        asked = []
        monkeypatch.setattr(predicting, "node_features", counts)
        monkeypatch.setattr(predicting, "cost_table", lambda vectors: TABLE)
        return asked

    return install


def decision(tmp_path, text=ONE, **options):
    source = write(model(text, w=array(3, 4, 4, 3)), tmp_path)
    result = optimize(source, options=OptimizeOptions(dry_run=True, verify=False, **options))
    return result.decisions[0]


def test_the_form_that_is_expected_to_be_faster(tmp_path, expecting):
    expecting(keep=100, phases=50)
    found = decision(tmp_path)
    assert (found.form, found.reason.id) == ("phases", "CT204")
    expected = {c.form: c.expected_us for c in found.candidates if c.work is not None}
    assert expected["keep"] == pytest.approx(2 * expected["phases"])
    assert all(c.expected_us is None for c in found.candidates if c.work is None)


@pytest.mark.parametrize(
    ("keep", "phases", "form"),
    [
        (1000, 1000 / GAIN * 1.01, "keep"),
        (1000, 1000 / GAIN * 0.99, "phases"),
        (2 * SAVING, 1.01 * SAVING, "keep"),
        (2 * SAVING, 0.99 * SAVING, "phases"),
    ],
)
def test_a_small_gain_is_not_trusted(tmp_path, expecting, keep, phases, form):
    expecting(keep=keep, phases=phases)
    found = decision(tmp_path)
    assert (found.form, found.reason.id) == (form, "CT201" if form == "keep" else "CT204")


def test_other_targets_are_not_predicted(tmp_path, expecting):
    asked = expecting(keep=100, phases=50)
    assert decision(tmp_path, target="portable").reason.id == "CT202"
    assert asked == []


def test_the_user_is_not_overruled(tmp_path, expecting):
    asked = expecting(keep=100, phases=50)
    assert decision(tmp_path, forms={"up": "keep"}).form == "keep"
    assert decision(tmp_path, skip=frozenset({"up"})).form is None
    assert asked == []


def test_open_sizes_are_assumed(tmp_path, expecting):
    asked = expecting(keep=100)
    decision(tmp_path, text=ONE.replace("[1,3,7,5]", "[N,3,H,5]"))
    assert {shape for _, shape in asked} == {(1, 3, 128, 5)}


def test_equal_nodes_are_predicted_once(tmp_path, expecting):
    asked = expecting(keep=100)
    text = """g (float[1,3,7,5] x, float[1,3,7,5] z) => (float[A,B,C,D] y, float[E,F,G,H] v) {
      y = ConvTranspose <strides=[2,2]> (x, w)
      v = ConvTranspose <strides=[2,2]> (z, w) }"""
    decision(tmp_path, text=text)
    assert len(asked) == len(set(asked))


def test_inspect_expects_the_same(tmp_path, expecting):
    expecting(keep=100, phases=50)
    source = write(model(ONE, w=array(3, 4, 4, 3)), tmp_path)
    (node,) = inspect(source, ["ort-cpu"]).nodes
    assert node.decisions[0].form == "phases"


def test_where_counts_are_not_known_the_node_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(predicting, "node_features", lambda *args: None)
    assert decision(tmp_path).reason.id == "CT201"
