"""The whole model in turn with the original, with times that the test sets."""

from __future__ import annotations

from functools import partial

import onnx
import pytest

from convt_onnx.report.gathering import timing_notes
from convt_onnx.tuning.options import TuneOptions

from ..graph.building import array, model, op_types
from .faking import by_form, form_of

NODES = 4
OUTPUTS = ", ".join(f"float[A{i},B{i},C{i},D{i}] y{i}" for i in range(NODES))
TEXT = (
    f"g (float[1,3,7,5] x) => ({OUTPUTS}) {{"
    + "\n".join(
        f"[n{i}] y{i} = ConvTranspose <strides=[2,2], pads=[{i},0,0,0]> (x, w)"
        for i in range(NODES)
    )
    + "}"
)
W = array(3, 4, 4, 3)


def replaced(proto):
    """Numbers of the nodes that are no longer a ConvTranspose."""
    left = {n.output[0] for n in proto.graph.node if n.op_type == "ConvTranspose"}
    return [i for i in range(NODES) if f"y{i}" not in left]


def speed(whole):
    """Alone, `phases` takes half as long; in the model, as `whole` says."""

    def seconds(proto):
        if proto.graph.name != "node":
            return whole(replaced(proto))
        return {"keep": 2.0, "phases": 1.0}.get(form_of(proto), 5.0)

    return seconds


def forms(result):
    return [d.form for d in result.decisions]


def test_a_faster_model_is_taken_as_it_is(tuned):
    result = tuned(model(TEXT, w=W), speed(lambda nodes: 4.0 - len(nodes) / 2))
    assert forms(result) == ["phases"] * NODES
    assert result.tuning.reverted == ()
    (timing,) = result.tuning.models
    assert (timing.inputs, timing.before.median_us, timing.ratio) == ("x:1,3,7,5", 4e6, 2.0)


def test_a_slower_model_loses_forms_until_it_is_faster(tuned):
    result = tuned(
        model(TEXT, w=W), speed(lambda nodes: 4.5 if len(nodes) > 2 else 3.0 if nodes else 4.0)
    )
    assert sorted(map(str, forms(result))) == ["keep", "keep", "phases", "phases"]
    back = {d.path for d in result.decisions if d.form == "keep"}
    assert set(result.tuning.reverted) == back
    assert {d.reason.id for d in result.decisions if d.path in back} == {"CT603"}
    assert len(replaced(onnx.load(result.output))) == 2
    assert result.tuning.models[0].ratio == pytest.approx(4 / 3)


def test_where_nothing_wins_the_original_is_kept(tuned):
    result = tuned(model(TEXT, w=W), speed(lambda nodes: 4.0))
    assert forms(result) == [None] * NODES
    assert {d.reason.id for d in result.decisions} == {"CT606"}
    assert result.tuning.reverted == ()
    assert not result.modified
    assert result.output.read_bytes() == result.source.read_bytes()
    assert result.changes == {}
    assert result.ops_after == result.ops_before


def test_a_gain_within_a_draw_is_none(tuned):
    assert not tuned(model(TEXT, w=W), speed(lambda nodes: 3.99 if nodes else 4.0)).modified
    assert tuned(model(TEXT, w=W), speed(lambda nodes: 3.9 if nodes else 4.0)).modified


@pytest.mark.parametrize(("gain_us", "taken"), [(1.2, False), (1.3, True)])
def test_a_gain_pays_for_the_operators_that_are_added(tuned, gain_us, taken):
    """A form's operators, of which there are some, take longer on a slower machine."""
    one = """g (float[1,3,7,5] x) => (float[A,B,C,D] y) {
      y = ConvTranspose <strides=[2,2], pads=[1,0,0,0]> (x, w) }"""

    def seconds(proto):
        if proto.graph.name == "node":
            return {"keep": 30e-6, "phases": 10e-6}.get(form_of(proto), 90e-6)
        more = len(op_types(proto)) - 1
        return 30e-6 - gain_us * 1e-6 * more

    result = tuned(model(one, w=W), seconds)
    assert result.modified is taken
    if not taken:
        assert result.tuning.attempts[0].faster is False


def test_operators_of_a_called_function_are_none_that_its_inlining_adds(tuned):
    body = "\n".join(f"h{i + 1} = Neg (h{i})" for i in range(40))
    text = """g (float[1,3,7,5] x) => (float[A,B,C,D] y) { y = local.Up (x, w) }
      <domain: "local", opset_import: ["" : 17]>
      Up (x, w) => (h40) { h0 = ConvTranspose <strides=[2,2], pads=[1,0,0,0]> (x, w) """
    proto = model(text + body + "}", domains='"local" : 1', w=W)

    def seconds(tried):
        if tried.graph.name == "node":
            return {"keep": 300e-6, "phases": 100e-6}.get(form_of(tried), 900e-6)
        return 300e-6 - (0 if tried.functions else 30e-6)

    assert tuned(proto, seconds).modified


def test_folding_alone_may_win(tuned):
    text = """g (float[1,3,7,5] x) => (float[A,B,C,D] y) {
      h = ConvTranspose <strides=[2,2]> (x, w)
      y = Mul (h, scale) }"""
    proto = model(text, w=W, scale=array(4, 1, 1))
    slow = by_form({"keep": 1.0}, rest=9.0)

    def seconds(proto):
        return slow(proto) + ("Mul" in op_types(proto))

    result = tuned(proto, seconds)
    assert forms(result) == ["keep"]
    assert result.modified
    assert op_types(onnx.load(result.output)) == ["ConvTranspose"]


FOLDED = """g (float[1,3,7,5] x) => (float[A,B,C,D] y, float[E,F,G,H] z) {
  a = ConvTranspose <strides=[2,2]> (x, w)
  y = Mul (a, scale)
  b = ConvTranspose <strides=[2,2], pads=[1,0,0,0]> (x, w)
  z = Mul (b, scale) }"""


def folded_speed(proto, *, phases):
    """Folding y's Mul makes the model slower, folding z's faster."""
    if proto.graph.name == "node":
        return {"keep": 2.0, "phases": phases}.get(form_of(proto), 5.0)
    muls = {n.output[0] for n in proto.graph.node if n.op_type == "Mul"}
    return 4.0 + 3.0 * ("y" not in muls) - 1.0 * ("z" not in muls)


@pytest.mark.parametrize(("name", "path"), [("", "ConvTranspose->a"), ("dec: up", "dec: up")])
@pytest.mark.parametrize(("phases", "form"), [(9.0, "keep"), (1.0, "phases")])
def test_what_was_folded_into_a_node_goes_back_with_it(tuned, phases, form, name, path):
    proto = model(FOLDED, w=W, scale=array(4, 1, 1))
    proto.graph.node[0].name = name
    result = tuned(proto, partial(folded_speed, phases=phases))
    assert result.tuning.reverted == (path,)
    assert [(d.form, d.reason.id) for d in result.decisions] == [
        ("keep", "CT603"),
        (form, "CT601" if form == "keep" else "CT602"),
    ]
    ops = op_types(onnx.load(result.output))
    assert ops.count("Mul") == 1
    assert ops.count("ConvTranspose") == 1 + (form == "keep")
    assert result.tuning.models[0].ratio == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    ("phases", "back"), [(9.0, ()), (1.0, ("ConvTranspose->a", "ConvTranspose->b"))]
)
def test_passes_that_were_asked_for_stay(tuned, phases, back):
    def seconds(proto):
        """Folding alone makes the model slower."""
        if proto.graph.name == "node":
            return folded_speed(proto, phases=phases)
        return 7.0 if "Mul" not in op_types(proto) else 4.0

    proto = model(FOLDED, w=W, scale=array(4, 1, 1))
    result = tuned(proto, seconds, passes=("fold-neighbours", "lower"))
    assert result.tuning.reverted == back
    assert op_types(onnx.load(result.output)) == ["ConvTranspose", "ConvTranspose"]


def dumped(folder):
    return [p.name for p in sorted(folder.glob("*.onnx"))]


def test_dumps_are_those_of_the_rewrite_that_is_taken(tuned, tmp_path):
    text = """g (float[1,3,7,5] x) => (float[A,B,C,D] y, float[E,F,G,H] z) {
      a = ConvTranspose <strides=[2,2]> (x, w)
      y = Mul (a, scale)
      z = ConvTranspose <strides=[2,2], pads=[1,0,0,0]> (x, w) }"""
    ways = {"folded": 4.5, "z alone": 3.0, "none": 4.0}

    def seconds(proto):
        if proto.graph.name == "node":
            return {"keep": 2.0, "phases": 1.0}.get(form_of(proto), 5.0)
        ops = op_types(proto)
        return ways["folded" if "Mul" not in ops else "none" if len(ops) == 3 else "z alone"]

    proto, folder = model(text, w=W, scale=array(4, 1, 1)), tmp_path / "dump"
    result = tuned(proto, seconds, dump=folder)
    assert result.tuning.reverted == ("ConvTranspose->a",)
    *_, last = names = dumped(folder)
    assert [n.partition("-")[2] for n in names] == ["canonical-pads.onnx", "lower.onnx"]
    assert onnx.load(folder / last).graph == onnx.load(result.output).graph


def test_nothing_is_dumped_where_the_original_is_kept(tuned, tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "mine.onnx").write_text("mine")
    assert not tuned(model(TEXT, w=W), speed(lambda nodes: 4.0), dump=folder).modified
    assert dumped(folder) == ["mine.onnx"]


def test_expected_forms_go_back_too(tuned):
    text = """g (float[1,21,16,16] x) => (float[A,B,C,D] y) {
      y = ConvTranspose <strides=[32,32], group=21> (x, w) }"""

    def seconds(proto):
        """No node runs by itself, and the rewritten model is slower."""
        if proto.graph.name == "node":
            return None
        return 1.0 if op_types(proto) == ["ConvTranspose"] else 2.0

    result = tuned(model(text, w=array(21, 1, 64, 64)), seconds)
    assert not result.modified
    assert len(tuned.loaded) > 2


def test_a_rewritten_model_that_does_not_run_goes_back(tuned):
    result = tuned(model(TEXT, w=W), speed(lambda nodes: None if nodes else 4.0))
    assert forms(result) == [None] * NODES
    assert result.output.read_bytes() == result.source.read_bytes()


def test_what_the_user_asked_for_stays(tuned):
    result = tuned(
        model(TEXT, w=W), speed(lambda nodes: 9.0 if nodes else 4.0), forms={"n0": "phases"}
    )
    assert forms(result) == ["phases", "keep", "keep", "keep"]
    assert result.decisions[0].reason.id == "CT205"
    assert result.modified


def test_a_model_that_the_runtime_does_not_take_is_not_compared(tuned):
    def seconds(proto):
        return speed(lambda nodes: None)(proto)

    result = tuned(model(TEXT, w=W), seconds)
    assert forms(result) == ["phases"] * NODES
    assert result.tuning.models == ()


def test_what_was_tried_and_not_taken_is_told_with_its_spread(tuned):
    notes = timing_notes(tuned(model(TEXT, w=W), speed(lambda nodes: 4.0)))
    for note, count in zip(notes, ("4 nodes", "2 nodes", "1 node"), strict=True):
        assert "fold" not in note
        more, tried = note.partition(" operators more) ")[::2]
        assert f"of {count} (" in more
        assert tried.startswith("the whole model was not faster by enough on x:1,3,7,5")
        assert note.count("4.00 s to 4.00 s (quartiles of ") == 2


def test_what_was_tried_before_a_faster_model_is_told_too(tuned):
    result = tuned(
        model(TEXT, w=W), speed(lambda nodes: 4.5 if len(nodes) > 2 else 3.0 if nodes else 4.0)
    )
    (attempt,) = result.tuning.attempts
    assert attempt.changed.startswith("other forms of 4 nodes (")
    assert attempt.faster is False
    assert attempt.models[0].ratio == pytest.approx(4 / 4.5)
    assert result.tuning.models[0].ratio == pytest.approx(4 / 3)
    assert len(timing_notes(result)) == 1


def quick_nodes(whole):
    """As `speed`, with nodes that take no time worth speaking of."""
    seconds = speed(whole)
    return lambda proto: seconds(proto) / (1e6 if proto.graph.name == "node" else 1)


def test_where_the_time_ends_before_the_whole_model_was_timed_its_nodes_decide(tuned):
    result = tuned(model(TEXT, w=W), quick_nodes(lambda nodes: 4.0), tune=TuneOptions(seconds=10.0))
    assert {(d.form, d.reason.id) for d in result.decisions} == {("phases", "CT602")}
    assert result.modified
    assert result.tuning.models == ()
    assert [a.faster for a in result.tuning.attempts] == [None]
    (note,) = timing_notes(result)
    assert "the time for tuning ran out" in note
    assert "other forms of 4 nodes" in note


def test_where_the_time_ends_at_once_the_cost_model_decides(tuned):
    text = """g (float[1,21,16,16] x) => (float[A,B,C,D] y) {
      y = ConvTranspose <strides=[32,32], group=21> (x, w) }"""
    proto = model(text, w=array(21, 1, 64, 64))
    wanted = tuned(proto, by_form({}), tune=TuneOptions(enabled=False)).decisions[0].form
    result = tuned(proto, by_form({}), tune=TuneOptions(seconds=1e-9))
    assert wanted != "keep"
    assert [(d.form, d.reason.id) for d in result.decisions] == [(wanted, "CT604")]
    assert result.modified
    assert len(timing_notes(result)) == 1


def test_where_the_time_ends_after_a_first_verdict_the_original_is_kept(tuned):
    result = tuned(
        model(TEXT, w=W), quick_nodes(lambda nodes: 4.5 if len(nodes) > 2 else 3.0 if nodes else 4),
        tune=TuneOptions(seconds=170.0),
    )  # fmt: skip
    assert [a.faster for a in result.tuning.attempts] == [False, None]
    assert not result.modified
    assert result.output.read_bytes() == result.source.read_bytes()


def test_folds_that_lose_are_not_called_forms(tuned):
    text = """g (float[1,3,7,5] x) => (float[A,B,C,D] y) {
      h = ConvTranspose <strides=[2,2]> (x, w)
      y = Mul (h, scale) }"""
    slow = by_form({"keep": 1.0}, rest=9.0)
    result = tuned(
        model(text, w=W, scale=array(4, 1, 1)), lambda p: slow(p) + ("Mul" not in op_types(p))
    )
    (note,) = timing_notes(result)
    assert note.startswith("with fold-neighbours the whole model was not faster by enough")
