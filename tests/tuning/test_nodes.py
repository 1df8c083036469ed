"""Forms by measurement, with times that the test sets."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from convt_onnx.errors import MissingPartError
from convt_onnx.tuning.options import TuneOptions

from ..graph.building import array, model, op_types
from .faking import by_form, form_of

ONE = """g (float[1,3,7,5] x) => (float[A,B,C,D] y) {
  [up] y = ConvTranspose <strides=[2,2]> (x, w) }"""
TWO = """g (float[1,4,7,5] x, float[1,4,6,9] z) => (float[A,B,C,D] y, float[E,F,G,H] v) {
  [a] y = ConvTranspose <strides=[2,2]> (x, w)
  [b] v = ConvTranspose <strides=[2,2]> (z, w) }"""
W = array(3, 4, 4, 3)
FASTER = {"keep": 1.0, "phases": 0.5}


def forms(result):
    return {d.path: d.form for d in result.decisions}


def reasons(result):
    return {d.path: d.reason.id for d in result.decisions}


def of_one_node(protos):
    return [p for p in protos if p.graph.name == "node"]


def test_the_fastest_form_wins(tuned):
    result = tuned(model(ONE, w=W), by_form(FASTER))
    assert forms(result) == {"up": "phases"}
    assert reasons(result) == {"up": "CT602"}
    (decision,) = result.decisions
    assert (decision.before.median_us, decision.after.median_us) == (1e6, 0.5e6)
    assert "ConvTranspose" not in op_types(onnx.load(result.output))
    (node,) = result.tuning.nodes
    assert (node.path, node.x_shapes, node.dtype) == ("up", ((1, 3, 7, 5),), "FLOAT")
    assert node.forms[0].form == "keep"
    assert node.time_of("phases").median_us == 0.5e6
    assert (node.chosen, node.cached) == ("phases", False)
    assert result.tuning.runtime == "fake 1.0"
    assert result.tuning.models[0].ratio == 2


def test_the_node_is_kept_where_nothing_is_faster(tuned):
    result = tuned(model(ONE, w=W), by_form({"keep": 1.0, "phases": 0.99}))
    assert reasons(result) == {"up": "CT601"}
    assert not result.modified
    assert result.output.read_bytes() == result.source.read_bytes()


def test_equal_nodes_are_timed_once(tuned):
    same = TWO.replace("[1,4,6,9]", "[1,4,7,5]")
    tuned(model(same, w=array(4, 2, 4, 3)), by_form(FASTER))
    once = len(of_one_node(tuned.loaded))
    result = tuned(model(ONE.replace(",3,", ",4,"), w=array(4, 2, 4, 3)), by_form(FASTER),
                   tune=TuneOptions(seconds=1e9, cache=tuned.folder / "other"))  # fmt: skip
    assert len(of_one_node(tuned.loaded)) == once > 2
    assert forms(result) == {"up": "phases"}


def test_other_sizes_are_timed_anew(tuned):
    result = tuned(model(TWO, w=array(4, 2, 4, 3)), by_form(FASTER))
    shapes = {n.path: n.x_shapes for n in result.tuning.nodes}
    assert shapes == {"a": ((1, 4, 7, 5),), "b": ((1, 4, 6, 9),)}
    names = [p.graph.input[0].type.tensor_type.shape.dim for p in of_one_node(tuned.loaded)]
    assert {tuple(d.dim_value for d in dims) for dims in names} == {(1, 4, 7, 5), (1, 4, 6, 9)}


@pytest.mark.parametrize("axes, jobs", [((1, 1), 1), ((1, 0), 2)])
def test_weights_with_scales_along_other_axes_are_timed_apart(tuned, axes, jobs):
    text = """g (float[1,4,7,5] x) => (float[A,B,C,D] y, float[E,F,G,H] v) {
      d = DequantizeLinear <axis=%d> (q, s) e = DequantizeLinear <axis=%d> (q, s)
      [a] y = ConvTranspose <strides=[2,2]> (x, d)
      [b] v = ConvTranspose <strides=[2,2]> (x, e) }"""
    arrays = {"q": (50 * array(4, 4, 4, 3)).astype(np.int8), "s": abs(array(4)) + 1}
    result = tuned(model(text % axes, **arrays), by_form(FASTER))
    assert len(result.tuning.nodes) == 2
    assert len(list((tuned.folder / "cache").iterdir())) == jobs


def test_a_second_run_reads_the_cache(tuned):
    first = tuned(model(ONE, w=W), by_form(FASTER))
    second = tuned(model(ONE, w=W), by_form({"keep": 0.1, "phases": 9.0}))
    assert of_one_node(tuned.loaded) == []
    assert second.tuning.nodes[0].cached
    assert second.tuning.nodes[0].forms == first.tuning.nodes[0].forms
    other = tuned(model(ONE, w=W), by_form(FASTER), tune=TuneOptions(
        seconds=1e9, threads=2, cache=tuned.folder / "cache"))  # fmt: skip
    assert not other.tuning.nodes[0].cached
    assert other.tuning.threads == 2


def test_a_corrupt_cache_is_told(tuned):
    tuned(model(ONE, w=W), by_form(FASTER))
    for path in (tuned.folder / "cache").iterdir():
        path.write_text("{")
    result = tuned(model(ONE, w=W), by_form(FASTER))
    assert any("holds no timings" in note for note in result.notes)
    assert forms(result) == {"up": "phases"}
    assert not result.tuning.nodes[0].cached


def test_a_cache_without_one_of_the_forms_is_not_used(tuned):
    tuned(model(ONE, w=W), by_form(FASTER))
    (path,) = (tuned.folder / "cache").iterdir()
    document = json.loads(path.read_text())
    del document["heats"][0]["keep"]
    path.write_text(json.dumps(document))
    result = tuned(model(ONE, w=W), by_form(FASTER))
    assert not result.tuning.nodes[0].cached
    assert "keep" in json.loads(path.read_text())["heats"][0]


def test_what_the_runtime_does_not_load_is_out(tuned):
    def speed(proto):
        return None if form_of(proto) == "phases" else by_form({"keep": 1.0}, rest=0.5)(proto)

    result = tuned(model(ONE, w=W), speed)
    (node,) = result.tuning.nodes
    assert forms(result)["up"] not in ("keep", "phases", None)
    (phases,) = [f for f in node.forms if f.form == "phases"]
    assert (phases.time, phases.why) == (None, "the fake does not load the model: told so")


def test_a_node_that_does_not_run_alone_is_not_timed(tuned):
    def speed(proto):
        return None if proto.graph.name == "node" else 1.0

    result = tuned(model(ONE, w=W), speed)
    assert result.tuning is None
    (decision,) = result.decisions
    assert decision.reason.id == "CT605"
    assert decision.before is None


def test_the_time_runs_out(tuned):
    result = tuned(model(TWO, w=array(4, 2, 4, 3)), by_form(FASTER), tune=TuneOptions(seconds=50.0))
    # Each has 15 of the 30 seconds that nodes get, too few for eight rounds.
    assert reasons(result) == {"a": "CT604", "b": "CT604"}
    assert tuned.runtimes[-1].clock.now < 75
    assert not (tuned.folder / "cache").exists()


def test_the_more_there_is_to_time_the_less_time_each_has(tuned):
    nodes = "\n".join(
        f"[n{i}] y{i} = ConvTranspose <strides=[2,2], pads=[0,0,{i},0]> (x, w)" for i in range(4)
    )
    outputs = ", ".join(f"float[A{i},B{i},C{i},D{i}] y{i}" for i in range(4))
    text = f"g (float[1,3,7,5] x) => ({outputs}) {{ {nodes} }}"
    seconds = 400.0
    tuned(model(text, w=W), by_form({"keep": 1.0}, rest=0.999),
          tune=TuneOptions(seconds=seconds))  # fmt: skip
    assert tuned.runtimes[-1].clock.now < 1.1 * seconds


def test_hopeless_forms_are_measured_to_be(tuned):
    result = tuned(model(ONE, w=W), by_form({"keep": 1.0}, rest=9.0))
    assert reasons(result) == {"up": "CT601"}
    (node,) = result.tuning.nodes
    assert node.time_of("keep").runs < 8
    assert all("times slower" in f.why or "first run" in f.why for f in node.forms[1:])


def test_forced_and_skipped_nodes_are_not_timed(tuned):
    proto = model(TWO, w=array(4, 2, 4, 3))
    result = tuned(proto, by_form(FASTER), forms={"a": "overlap-add"}, skip=frozenset({"b"}))
    assert reasons(result) == {"a": "CT205", "b": "CT109"}
    assert of_one_node(tuned.loaded) == []


@pytest.mark.parametrize("enabled", [None, True])
def test_targets_without_a_runtime(tuned, enabled):
    options = TuneOptions(enabled=enabled)
    if enabled:
        with pytest.raises(MissingPartError, match="nothing can be timed for target 'portable'"):
            tuned(model(ONE, w=W), by_form(FASTER), target="portable", tune=options)
        return
    result = tuned(model(ONE, w=W), by_form(FASTER), target="portable", tune=options)
    assert result.tuning is None
    assert reasons(result) == {"up": "CT202"}


def test_no_tuning(tuned):
    result = tuned(model(ONE, w=W), by_form(FASTER), tune=TuneOptions(enabled=False))
    assert result.tuning is None
    assert tuned.loaded == []
    assert reasons(result)["up"].startswith("CT20")


def test_large_weights_are_not_loaded_all_at_once(tuned, monkeypatch):
    monkeypatch.setattr("convt_onnx.tuning.nodes.MOST_BYTES", 0)
    result = tuned(model(ONE, w=W), by_form(FASTER))
    loaded = [form_of(p) for p in of_one_node(tuned.loaded)]
    pairs = list(zip(loaded[::2], loaded[1::2], strict=True))
    assert all(pair.count("keep") == 1 for pair in pairs)
    (node,) = result.tuning.nodes
    assert (node.chosen, node.forms[0].form) == ("phases", "keep")
    assert 2 < len(node.forms) <= len(pairs) + 1


def test_what_does_too_much_work_is_not_timed_and_told(tuned):
    text = ONE.replace("strides=[2,2]", "strides=[5,5]")
    result = tuned(model(text, w=array(3, 4, 5, 5)), by_form(FASTER))
    (node,) = result.tuning.nodes
    (inserted,) = [f for f in node.forms if f.form == "zero-insertion"]
    assert (inserted.time, inserted.times) == (None, (None,))
    assert inserted.why == "over 16 times the work of the least"
    (decision,) = result.decisions
    applying = {c.form for c in decision.candidates if c.work is not None}
    assert {f.form for f in node.forms} == applying
    assert all(f.time is not None or f.why for f in node.forms)
