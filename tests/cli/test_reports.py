"""`--report`."""

from __future__ import annotations

import json
import subprocess
import sys

from ..folder import names
from ..report.parsed import parse


def test_report_as_a_page_and_as_json(convt, source, tmp_path):
    page, data = tmp_path / "r.html", tmp_path / "r.json"
    arguments = ("optimize", source, "--no-tune", "--report")
    done = convt(*arguments, page)
    assert done.code == 0
    assert done.out == f"{source.with_name('model.convt.onnx')}\n"
    assert f"report {page}" in done.err
    assert page.read_text().startswith("<!doctype html>")
    command = parse(page.read_bytes()).one("pre").text
    assert command == f"convt-onnx optimize {source} --no-tune --report {page}"
    assert convt(*arguments, data, "--force").code == 0
    found = json.loads(data.read_text())
    assert (found["kind"], found["run"], found["schema_version"]) == ("report", "optimize", 2)
    command = ["convt-onnx", "optimize", str(source), "--no-tune", "--report", str(data), "--force"]
    assert found["command"] == command
    assert [n["path"] for n in found["nodes"]] == ["up", "down"]
    assert found["peaks"]["flops_per_s"] > 1e8 < found["peaks"]["bytes_per_s"]


def test_a_report_has_the_times_that_were_taken(source, tmp_path):
    data = tmp_path / "r.json"
    options = ["--tune", "--tune-seconds", 3, "--tune-cache", tmp_path / "cache"]
    options += ["--report", data, "--json"]
    command = [sys.executable, "-m", "convt_onnx", "optimize", source, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, printed = json.loads(data.read_text()), json.loads(done.stdout)["result"]
    assert "CPUExecutionProvider" in found["measured"]["runtime"]
    assert found["command"] == ["convt-onnx", "optimize", str(source), *map(str, options)]
    for node, decision in zip(found["nodes"], printed["decisions"], strict=True):
        assert node["before"] == decision["before"]
        assert node["after"] == decision["after"]
        assert node["before"]["median_us"] > 0


def test_reports_are_not_written_over_what_is_there(convt, source, tmp_path):
    report = tmp_path / "r.html"
    report.write_text("mine")
    before = names(tmp_path)
    convt("optimize", source, "--report", report).check_failed(2, "r.html exists", "--force")
    for path in (source, source.with_name("model.convt.onnx"), tmp_path / "no" / "r.html"):
        convt("optimize", source, "--force", "--report", path).check_failed(2)
    convt("optimize", source, "--report", "r.pdf").check_failed(2, ".html or .json", "r.html")
    assert report.read_text() == "mine"
    assert names(tmp_path) == before


def test_no_report_where_verification_fails(convt, source, tmp_path):
    exact = ("--target", "portable", "--atol", "0", "--rtol", "0")
    done = convt("optimize", source, *exact, "--report", tmp_path / "r.html")
    done.check_failed(1, "verification failed")
    assert names(tmp_path) == ["model.onnx"]
