"""Models timed against each other."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import convt_onnx.report
from convt_onnx import BenchOptions, VerifyOptions, bench, write_report
from convt_onnx.errors import ConvtError, MissingPartError, UsageError
from convt_onnx.report.bench_gathering import bench_report_of
from convt_onnx.report.page import page
from convt_onnx.report.writing import report_document
from convt_onnx.tuning.options import SizeSet, TuneOptions
from convt_onnx.tuning.race import Race

from .graph.building import array, model, write
from .report.parsed import bars, parse
from .tuning.faking import Clock, FakeRuntime

TEXT = """g (float[N,3,L] x) => (float[A,B,C] y) {
  [up] h = ConvTranspose <strides=[2]> (x, w) [down] y = ConvTranspose (h, v) }"""
QUICK = BenchOptions(seconds=0.1)
SCHEMA = Path(convt_onnx.report.__file__).parent / "report.schema.json"


def two(w):
    return model(TEXT, w=w, v=array(4, 2, 3))


@pytest.fixture
def source(tmp_path):
    return write(two(array(3, 4, 5)), tmp_path)


@pytest.fixture
def slow(tmp_path):
    """The same with a thousand times the channels in between."""
    w, v = np.zeros((3, 4000, 5), np.float32), np.zeros((4000, 2, 3), np.float32)
    w[:, :4], v[:4] = array(3, 4, 5), array(4, 2, 3)
    return write(model(TEXT, w=w, v=v), tmp_path, "slow.onnx")


def seconds_of(proto):
    """A millisecond for 4 channels in between, four for 4000."""
    (channels,) = (t.dims[1] for t in proto.graph.initializer if t.name == "w")
    return {4: 1e-3, 4000: 4e-3}[channels]


@pytest.fixture
def clock(monkeypatch):
    """Models take the time that `seconds_of` says, and nothing else takes any."""
    clock = Clock()
    runtime = FakeRuntime(seconds_of, clock)
    monkeypatch.setattr("convt_onnx.benching.ort_runtime", lambda provider, threads: runtime)
    monkeypatch.setattr("convt_onnx.benching.Race", partial(Race, clock=clock))
    return clock


def test_a_slower_model_is_slower(source, slow, clock):
    first, second = bench([source, slow], QUICK).entries
    assert (first.label, second.label) == ("model.onnx", "slow.onnx")
    assert first.runs[0].time.median_us == pytest.approx(1000)
    assert second.runs[0].time.median_us == pytest.approx(4000)
    assert first.runs[0].speedup == 1
    assert second.runs[0].speedup == pytest.approx(0.25)
    assert bench([slow, source], QUICK).entries[1].runs[0].speedup == pytest.approx(4)


@pytest.mark.parametrize("kind", [str, Path])
def test_one_path_is_one_model(source, clock, kind):
    (entry,) = bench(kind(source), QUICK).entries
    assert entry.label == "model.onnx"


def test_models_take_turns_until_the_time_is_over(source, slow, clock):
    first, second = bench([source, slow], BenchOptions(seconds=0.5)).entries
    assert 0.4 < clock.now < 0.6
    assert first.runs[0].time.runs == second.runs[0].time.runs > 10


def test_what_runs_in_onnxruntime_is_timed(source, slow):
    result = bench([source, slow], QUICK)
    first, second = (e.runs[0] for e in result.entries)
    assert 0 < first.time.low_us <= first.time.median_us <= first.time.high_us
    assert second.speedup == first.time.median_us / second.time.median_us
    assert first.time.runs == second.time.runs >= 1
    assert result.entries[0].ops == {"ConvTranspose": 2}
    assert result.entries[0].bytes == source.stat().st_size
    assert result.notes == ()
    assert "CPUExecutionProvider" in result.runtime


def test_targets(source):
    result = bench([source], replace(QUICK, targets=("ort-cpu", "portable")))
    labels = [e.label for e in result.entries]
    assert labels == ["model.onnx", "model.onnx · ort-cpu", "model.onnx · portable"]
    assert [e.target for e in result.entries] == [None, "ort-cpu", "portable"]
    assert result.entries[0].rewriting is None
    assert [d.path for d in result.entries[2].rewriting.decisions] == ["up", "down"]
    assert "ConvTranspose" not in result.entries[2].ops
    assert all(e.runs[0].time is not None for e in result.entries)
    assert [p.name for p in source.parent.iterdir()] == ["model.onnx"]


def test_sets_of_sizes(source):
    sizes = tuple(SizeSet({"x": (1, 3, n)}) for n in (7, 11))
    result = bench([source], replace(QUICK, tune=TuneOptions(sizes=sizes, threads=1)))
    assert [r.inputs for r in result.entries[0].runs] == ["x:1,3,7", "x:1,3,11"]
    assert result.threads == 1


def test_arrays_of_the_user(source, tmp_path):
    np.savez(tmp_path / "in.npz", x=array(2, 3, 13))
    options = replace(QUICK, checks=VerifyOptions(inputs=tmp_path / "in.npz"))
    assert bench([source], options).entries[0].runs[0].inputs == "x:2,3,13"


def test_a_model_that_computes_something_else_is_named(source, tmp_path):
    other = write(two(1.01 * array(3, 4, 5)), tmp_path, "other.onnx")
    (note,) = bench([source, other], QUICK).notes
    assert note.startswith("other.onnx computes something else: output 'y' differs by 0.")
    loose = replace(QUICK, checks=VerifyOptions(atol=1.0))
    assert bench([source, other], loose).notes == ()


def test_a_model_that_does_not_run_has_no_time(source, tmp_path):
    proto = two(array(3, 4, 5))
    proto.graph.node[1].domain = "mine"
    proto.opset_import.add(domain="mine", version=1)
    result = bench([source, write(proto, tmp_path, "bad.onnx")], QUICK)
    run = result.entries[1].runs[0]
    assert (run.time, run.speedup) == (None, None)
    assert "does not load" in run.why
    assert result.notes[0].startswith("bad.onnx does not run")
    assert result.entries[0].runs[0].time is not None
    with pytest.raises(ConvtError, match="does not load"):
        bench([tmp_path / "bad.onnx"], QUICK)


def test_the_same_file_twice_and_the_same_name_twice(source, tmp_path):
    assert [e.label for e in bench([source, source], QUICK).entries] == [
        "model.onnx (1)",
        "model.onnx (2)",
    ]
    (tmp_path / "b").mkdir()
    other = write(two(array(3, 4, 5)), tmp_path / "b")
    assert [e.label for e in bench([source, other], QUICK).entries] == [str(source), str(other)]


def test_wrong_uses(source, tmp_path, monkeypatch):
    text = TEXT.replace("x)", "z)").replace("(x,", "(z,")
    other = write(model(text, w=array(3, 4, 5), v=array(4, 2, 3)), tmp_path, "z.onnx")
    with pytest.raises(UsageError, match="different inputs"):
        bench([source, other], QUICK)
    with pytest.raises(UsageError, match="no model"):
        bench([], QUICK)
    with pytest.raises(UsageError, match="no target 'portabel'"):
        bench([source], replace(QUICK, targets=("portabel",)))
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="positive number"):
            BenchOptions(seconds=seconds)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(MissingPartError, match="nothing can be timed"):
        bench([source], QUICK)


def test_the_table_is_the_answer(convt, source, slow):
    done = convt("bench", source, slow, "--seconds", "0.1")
    assert (done.code, done.err) == (0, "")
    for words in ("model.onnx", "slow.onnx", "quartiles", "1.00×", "x:1,3,128", "KiB"):
        assert words in done.out


def test_json_says_what_python_says(convt, source):
    done = convt("bench", source, "--target", "portable", "--seconds", "0.1", "--json")
    found = done.json
    assert (done.code, found["kind"], found["schema_version"]) == (0, "bench", 2)
    labels = [e["label"] for e in found["result"]["entries"]]
    assert labels == ["model.onnx", "model.onnx · portable"]
    assert found["result"]["entries"][0]["runs"][0]["time"]["median_us"] > 0


def test_the_page_shows_the_times(convt, source, slow, tmp_path, clock):
    data = tmp_path / "r.json"
    arguments = ("bench", source, slow, "--seconds", "0.1", "--report", data)
    done = convt(*arguments)
    assert done.code == 0
    assert "slow.onnx" in done.out
    assert done.err == f"report {data}\n"
    document = json.loads(data.read_text())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert document["command"] == ["convt-onnx", *map(str, arguments)]
    tree = parse(page(document))
    found = bars(tree.one("svg", id="time-per-model"))
    wanted = [m["runs"][0]["time"]["median_us"] for m in document["models"]]
    assert [value for _, value, _ in found] == wanted
    _, longest, widest = max(found, key=lambda bar: bar[1])
    for _, value, width in found:
        assert width == pytest.approx(widest * value / longest, abs=1e-3)
    assert "none is faster than model.onnx" in tree.one("header").text
    assert not tree.all("section", aria_labelledby="nodes")
    links = {a.attributes["href"][1:] for a in tree.all("a")}
    assert links <= {e.attributes["id"] for e in tree.all() if "id" in e.attributes}


def test_the_page_of_targets_lists_forms(source):
    result = bench([source], replace(QUICK, targets=("portable",)))
    tree = parse(page(report_document(bench_report_of(result))))
    assert tree.one("svg", id="error-over-tolerance")
    assert [a.text for a in tree.all("a", href="#node-1")] == ["1.\N{NO-BREAK SPACE}up"]
    assert bars(tree.one("svg", id="work-per-node"))
    assert tree.all("section", aria_labelledby="passes")
    table = next(t for t in tree.all("table") if "for each target" in t.one("caption").text)
    assert [th.text for th in table.all("th")][2:] == ["up", "down"]
    assert len(table.all("td")) == 2


def test_progress_of_the_rewrites_never_goes_back(source, tmp_path):
    other, shares = write(two(array(3, 4, 5, seed=1)), tmp_path, "other.onnx"), []
    options = replace(QUICK, targets=("portable", "tensorrt"), tune=TuneOptions(enabled=False))
    bench([source, other], options, progress=lambda text, share: shares.append((text, share)))
    steps = [share for text, share in shares if text.startswith(("reading", "optimising"))]
    assert len(steps) == 6
    assert steps == sorted(steps)
    assert steps[-1] < 1


def test_the_nodes_of_several_targets_are_told_apart(source):
    result = bench([source], replace(QUICK, targets=("portable", "ort-cpu")))
    document = report_document(bench_report_of(result))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert [(n["number"], n["path"]) for n in document["nodes"]] == [
        (1, "up · portable"),
        (2, "down · portable"),
        (3, "up · ort-cpu"),
        (4, "down · ort-cpu"),
    ]
    tree = parse(page(document))
    links = {a.attributes["href"][1:] for a in tree.all("a")}
    assert links <= {e.attributes["id"] for e in tree.all() if "id" in e.attributes}


def test_reports_are_not_replaced_without_force(convt, source, tmp_path):
    result = bench([source], QUICK)
    path = tmp_path / "r.html"
    assert write_report(result, path) == path
    with pytest.raises(UsageError, match="exists"):
        write_report(result, path)
    convt("bench", source, "--seconds", "0.1", "--report", path).check_failed(2, "--force")
    assert convt("bench", source, "--seconds", "0.1", "--report", path, "--force").code == 0
