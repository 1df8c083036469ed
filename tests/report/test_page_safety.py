"""Whatever a model holds, the page is small, loads nothing and runs nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from convt_onnx.report.gathering import report_of
from convt_onnx.report.page import MAX_BYTES, page
from convt_onnx.report.writing import report_document

from ..graph.building import array, model
from .made_up import PEAKS, two_nodes, untimed, with_times
from .parsed import parse
from .showing import COMMAND, ids, shown

HOSTILE = '</title><script>alert(1)</script><img src=x onerror="alert(2)">\'"&{{7*7}}\x1b[31m\u202e'


def test_it_loads_nothing(result):
    _, tree = shown(result)
    assert not tree.all("script")
    assert not [e for e in tree.all() if any(n.startswith("on") for n in e.attributes)]
    assert not [e for e in tree.all() if "src" in e.attributes]
    (link,) = tree.all("link")
    assert link.attributes["href"] == "data:,"
    policy = tree.one("meta", http_equiv="Content-Security-Policy")
    assert policy.attributes["content"].startswith("default-src 'none'")
    css = tree.one("style").text
    assert "url(" not in css and "@import" not in css
    document = report_document(report_of(result, COMMAND, PEAKS))
    assert b"//" not in page(document).replace(b"<!--", b"")


@pytest.mark.parametrize("where", ["node", "input", "output", "file", "command"])
def test_hostile_names_stay_text(tmp_path, where):
    hostile = HOSTILE if where not in ("file",) else HOSTILE.replace("/", "|")
    proto = two_nodes()
    if where == "node":
        proto.graph.node[0].name = hostile
    if where == "input":
        proto.graph.input[0].name = proto.graph.node[0].input[0] = hostile
    if where == "output":
        proto.graph.output[0].name = proto.graph.node[1].output[0] = hostile
    result = with_times(untimed(tmp_path, proto))
    if where == "file":
        result = replace(result, source=Path("/") / hostile, output=Path("/") / hostile)
    command = ["convt-onnx", hostile] if where == "command" else COMMAND
    _, tree = shown(result, command)
    assert not tree.all("script") and not tree.all("img")
    assert "alert(1)" in tree.text
    assert "49" not in [t.text for t in tree.all("title")]
    assert "\x1b" not in tree.text and r"\x1b[31m" in tree.text
    assert not [e for e in tree.all() if "onerror" in e.attributes]


def test_names_that_are_not_unicode_are_spelt_out(result):
    path = Path("/tmp") / b"\xff.onnx".decode("utf-8", "surrogateescape")
    _, tree = shown(replace(result, source=path), ["convt-onnx", str(path)])
    assert r"\udcff.onnx" in tree.text


def test_a_long_name_is_cut_in_its_middle(result):
    name = f"first{'n' * 300}last"
    decisions = (replace(result.decisions[0], path=name), *result.decisions[1:])
    _, tree = shown(replace(result, decisions=decisions))
    assert name not in tree.text
    assert re.search("firstn{50,}…n{50,}last", tree.text)


def chain(count, name_length):
    """A model of many nodes with long names."""
    names = [f"{'n' * name_length}{i}" for i in range(count)]
    values = ["x", *(f"h{i}" for i in range(count - 1)), "y"]
    lines = [
        f"[{name}] {value} = ConvTranspose (x, w)"
        for name, value in zip(names, values[1:], strict=True)
    ]
    text = "g (float[1,2,5] x) => (float[1,A,B] y) {" + "\n".join(lines) + "}"
    return model(text, w=array(2, 3, 4))


@pytest.mark.parametrize(("count", "name_length"), [(150, 5), (120, 2000)])
def test_large_models_make_small_pages(tmp_path, count, name_length):
    result = untimed(tmp_path, chain(count, name_length), verify=False)
    assert len(result.decisions) == count
    document = report_document(report_of(with_times(result), COMMAND, PEAKS))
    data = page(document)
    assert len(data) < MAX_BYTES
    tree = parse(data)
    assert "more nodes are in the JSON report" in tree.text
    assert len(tree.all("details")) >= 10
    assert {a.attributes["href"][1:] for a in tree.all("a")} <= ids(tree)
