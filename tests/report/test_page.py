from __future__ import annotations

import re
from dataclasses import replace
from itertools import cycle

import pytest

from convt_onnx.reasons import REASONS
from convt_onnx.report import page as page_module
from convt_onnx.report.gathering import report_of
from convt_onnx.report.peaks import measure_peaks, peaks_for
from convt_onnx.report.units import NO_BREAK
from convt_onnx.report.writing import report_document

from ..graph.building import model
from ..tuning.faking import FakeRuntime, FakeTimed
from .made_up import not_taken, untimed
from .parsed import bars, parse
from .showing import ids, shown

EMPTY = "g (float[2] x) => (float[2] y) { y = Relu (x) }"


def test_bars_of_nodes_are_the_times_of_the_json(result):
    document, tree = shown(result)
    nodes = sorted(document["nodes"], key=lambda n: -n["before"]["median_us"])
    wanted = [(s, n[s]["median_us"]) for n in nodes for s in ("before", "after")]
    found = bars(tree.one("svg", id="time-per-node"))
    assert [(series, value) for series, value, _ in found] == wanted
    assert wanted[0] == ("before", 2000.0)
    assert ("after", 500.0) in wanted
    scale = found[0][2] / found[0][1]
    for _, value, width in found:
        assert width == pytest.approx(scale * value, abs=1e-3)
    assert 10 < max(width for *_, width in found) < 90


def test_bars_of_the_model_are_the_times_of_the_json(result):
    document, tree = shown(result)
    before, after = document["models"]
    found = bars(tree.one("svg", id="time-per-model"))
    wanted = [
        (model["label"], run["time"]["median_us"])
        for runs in zip(before["runs"], after["runs"], strict=True)
        for model, run in zip((before, after), runs, strict=True)
    ]
    assert [(series, value) for series, value, _ in found] == wanted
    assert wanted == [("before", 5000), ("after", 4000), ("before", 9000), ("after", 8000)]
    assert "1.12× to 1.25× as fast" in tree.one("header").text


def test_without_times_the_page_says_so_and_shows_work(tmp_path):
    document, tree = shown(untimed(tmp_path, forms={"up": "phases"}))
    assert "Nothing was timed" in tree.one("main").text
    assert not tree.all("svg", id="time-per-node")
    found = bars(tree.one("svg", id="work-per-node"))
    work = {n["path"]: {c["form"]: c["macs"] for c in n["candidates"]} for n in document["nodes"]}
    before = {n["path"]: n["costs"]["flops_native"] for n in document["nodes"]}
    assert before["up"] == 2 * work["up"]["keep"]
    assert {before["up"], before["down"]} == {v for s, v, _ in found if s == "before"}
    assert 2 * work["up"]["phases"] in {v for s, v, _ in found if s == "after"}
    # Each node at the roof: the most that the machine allows.
    assert len(tree.one("svg", id="roofline").all("g", class_="point")) == 2
    assert "not timed" in tree.text


def test_points_of_the_roofline_are_where_the_json_says(result):
    document, tree = shown(result)
    plot = tree.one("svg", id="roofline")
    titles = [t.text for g in plot.all("g", class_="point") for t in g.all("title")]
    for node in document["nodes"]:
        for series in ("before", "after"):
            rate = 1e6 * node["costs"]["flops_exact"] / node[series]["median_us"]
            (title,) = [t for t in titles if t.startswith(f"{node['path']}, {series}: ")]
            number, prefix = re.search(r": ([\d.]+) ([kMG]?)FLOP/s", title).groups()
            shown_rate = float(number) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[prefix]
            assert shown_rate == pytest.approx(rate, rel=0.02)
    assert "made up for a test" in tree.one("section", aria_labelledby="machine").text


def test_the_roof_is_no_promise(result):
    _, tree = shown(result)
    nodes = tree.one("section", aria_labelledby="nodes").text
    assert re.search(r"at the measured peaks it takes [\d.]+ µs, and a form that does fewer", nodes)
    assert "at least" not in nodes
    assert "at best" not in tree.one("section", aria_labelledby="machine").text


def test_points_of_the_error_plot_lie_below_the_diagonal(result):
    document, tree = shown(result)
    plot = tree.one("svg", id="error-over-tolerance")
    points = plot.all("use")
    assert len(points) == len(document["nodes"]) + len(document["proof"]["outputs"])
    for point in points:
        across = float(point.attributes["x"].rstrip("%")) / 100
        up = 1 - float(point.attributes["y"]) / float(plot.attributes["height"])
        assert up < across


def test_a_slow_quartile_does_not_make_bars_short(result):
    node = result.tuning.nodes[0]
    slow = replace(node.forms[0], time=replace(node.forms[0].time, high_us=1e6))
    nodes = (replace(node, forms=(slow, *node.forms[1:])), *result.tuning.nodes[1:])
    tuning = replace(result.tuning, nodes=nodes)
    _, tree = shown(replace(result, tuning=tuning))
    chart = tree.one("svg", id="time-per-node")
    assert max(width for *_, width in bars(chart)) > 40
    ends = [float(line.attributes["x2"].rstrip("%")) for line in chart.all("line")]
    assert max(ends) <= 75


def test_a_target_without_the_operator_has_bars_of_work_too(tmp_path):
    _, tree = shown(untimed(tmp_path, target="portable"))
    assert len(bars(tree.one("svg", id="work-per-node"))) == 4
    assert not [th for th in tree.all("th") if th.text == "speed"]


def test_the_original_that_was_kept_is_told(result):
    _, tree = shown(not_taken(result))
    assert "The original was kept, byte for byte" in tree.one("header").text
    assert not tree.all("svg", id="time-per-model")
    assert "with other forms of 2 nodes the whole model was not" in tree.one("main").text


def test_a_page_says_why_nothing_was_verified(tmp_path):
    _, tree = shown(untimed(tmp_path, target="portable", verify=False))
    assert "--no-verify was given" in tree.one("main").text
    _, tree = shown(untimed(tmp_path, model(EMPTY.replace("Relu", "Neg"))))
    assert "--no-verify" not in tree.one("main").text
    _, tree = shown(replace(untimed(tmp_path), verification=None, modified=False))
    assert "Nothing was changed, so there was nothing to verify" in tree.one("main").text


def test_the_set_of_sizes_that_times_are_of_is_named_where_there_are_several(result):
    _, tree = shown(result)
    assert tree.all("td", data_label="times at") == []
    named = tuple(replace(d, inputs=f"x:{i},6,9,7") for i, d in enumerate(result.decisions))
    _, tree = shown(replace(result, decisions=named))
    assert [c.text for c in tree.all("td", data_label="times at")] == ["x:0,6,9,7", "x:1,6,9,7"]
    assert "One call at x:1,6,9,7, with batch" in tree.one("section", aria_labelledby="nodes").text
    assert "up · x:0,6,9,7" in tree.one("section", aria_labelledby="time").text


def test_a_target_without_a_runtime_here_has_no_peaks(tmp_path):
    assert peaks_for(untimed(tmp_path, target="portable")) is None
    assert peaks_for(untimed(tmp_path, model(EMPTY))) is None


def test_peaks_are_those_of_the_runtime(tmp_path):
    peaks = peaks_for(untimed(tmp_path))
    assert 1e8 < peaks.flops_per_s < 1e14
    assert 1e8 < peaks.bytes_per_s < 1e13
    assert "CPUExecutionProvider" in peaks.how


@pytest.mark.parametrize(("slowest", "busy"), [(1.1, False), (1.5, True)])
def test_peaks_of_a_busy_machine_say_so(slowest, busy):
    class Uneven(FakeRuntime):
        def load(self, source, feeds):
            return FakeTimed(self.clock, cycle([0.01, 0.01 * slowest, 0.01 * slowest]))

    peaks = measure_peaks(Uneven(lambda proto: 0.0))
    assert peaks.flops_per_s == pytest.approx(2 * 1024**3 / 0.01)
    assert ("the machine was busy" in peaks.how) == busy


def test_without_peaks_there_is_no_roof(result, tmp_path):
    _, tree = shown(result, peaks=None)
    assert not tree.all("polyline", class_="roof")[1:]
    assert "peaks of the machine are not known" in tree.text
    _, tree = shown(untimed(tmp_path), peaks=None)
    assert not tree.all("svg", id="roofline")


def test_every_link_leads_somewhere_on_the_page(result):
    document, tree = shown(result)
    targets = [a.attributes["href"] for a in tree.all("a")]
    assert len(targets) > 20
    assert {t[1:] for t in targets} <= ids(tree)
    assert all(t.startswith("#") for t in targets)
    marks = {u.attributes["href"][1:] for u in tree.all("use")}
    assert marks <= ids(tree)
    # Each decision's reason is explained, and so is what every form was refused for.
    for node in document["nodes"]:
        assert node["reason"]["id"] in ids(tree)
        for candidate in node["candidates"]:
            assert candidate["refusal"] is None or candidate["refusal"]["id"] in ids(tree)


def test_the_exact_command_can_be_pasted(result):
    _, tree = shown(result)
    assert tree.one("pre").text == "convt-onnx optimize 'a model.onnx' --report '<b>.html'"
    _, tree = shown(result, None)
    assert "Called from Python" in tree.text


def test_a_model_without_nodes_has_a_page(tmp_path):
    _, tree = shown(untimed(tmp_path, model(EMPTY)), peaks=None)
    assert "no ConvTranspose" in tree.one("header").text
    assert not tree.all("section", aria_labelledby="nodes")
    assert {a.attributes["href"][1:] for a in tree.all("a")} <= ids(tree)


def test_every_reason_of_the_package_is_whole(result):
    reasons = tuple(REASONS.values())
    document = report_document(replace(report_of(result), reasons=reasons))
    tree = parse(page_module.page(document))
    for reason in reasons:
        entry = tree.one("div", id=reason.id)
        assert entry.one("dt").text == f"{reason.id}: {reason.title}"
        shown_text = entry.one("dd").text.replace(NO_BREAK, " ")
        assert shown_text == reason.text.replace("`", "")


def test_reasons_show_code_as_code(result):
    _, tree = shown(result)
    reasons = tree.one("dl", class_="reasons")
    assert "gemm" in [c.text for c in reasons.all("code")]
    assert page_module._marked("a `b` <c> `d") == "a <code>b</code> &lt;c&gt; `d"
