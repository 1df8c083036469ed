from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from convt_onnx.report.optimize_table import optimize_table
from convt_onnx.tuning.times import Attempt, Timing

from .made_up import not_taken, two_nodes, untimed, with_times


def shown(result, *, width=140, verbose=False, **console):
    """What a console of that width prints, with no line beyond the width."""
    out = io.StringIO()
    optimize_table(
        Console(file=out, width=width, highlight=False, **console), result, verbose=verbose
    )
    text = out.getvalue()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= width
    return text


def cells(text, first):
    """The columns of the line that begins with a word."""
    line = next(line for line in text.splitlines() if line.split()[:1] == [first])
    return re.split(r"\s{2,}", line.strip())


def test_a_row_a_node(result):
    text = shown(result)
    row = cells(text, "up")
    assert row[:3] == ["up", "6->4 k3×5 s2 p1×0|0×1 g2", "phases"]
    assert row[3].startswith("CT205 forced")
    assert row[4:7] == ["1.00 ms", "500 µs", "2.00×"]
    assert re.fullmatch(r"\d\.\de-\d\d", row[-1])


def test_the_model_before_and_after(result):
    text = shown(result)
    assert cells(text, "ConvTranspose") == ["ConvTranspose", "2", "0"]
    before, after = (sum(ops.values()) for ops in (result.ops_before, result.ops_after))
    assert before == 2 < after
    assert cells(text, "nodes") == ["nodes", str(before), str(after)]
    assert "time, x:1,6,9,7" in text
    assert "times are medians" in text
    assert "5.00 ms" in text and "4.00 ms" in text and "1.25×" in text
    assert "time, x:2,6,9,7" in text and "1.12×" in text
    assert f"wrote {result.output}" in text.replace("\n", "")


def test_no_columns_of_times_where_nothing_was_timed(tmp_path):
    text = shown(untimed(tmp_path))
    assert "speed" not in text
    assert "max |error|" in text
    assert "time," not in text
    assert "medians" not in text


@pytest.mark.parametrize("width", [80, 60, 40])
def test_lines_instead_of_a_table_where_it_is_narrow(result, width):
    text = shown(result, width=width)
    flat = " ".join(text.split())
    assert "1. up" in flat and "2. down" in flat
    assert "6->4 k3×5 s2 p1×0|0×1 g2 -> phases" in flat
    assert "1.00 ms -> 500 µs (2.00×)" in flat
    assert re.search(r"error \d\.\de-\d\d of \d\.\de-\d\d allowed", flat)
    assert "5.00 ms" in flat


def test_a_node_that_was_put_back_says_so(result):
    put_back = with_times(result, reverted=("down",))
    assert "(put back)" in shown(put_back)
    assert "(put back)" in shown(put_back, width=60)


def test_the_set_of_sizes_that_times_are_of_is_named_where_there_are_several(result):
    assert "times at" not in shown(result)
    first, second = result.decisions
    several = replace(result, decisions=(first, replace(second, inputs="x:2,6,9,7")))
    assert cells(shown(several), "down")[-2] == "x:2,6,9,7"
    assert re.search(r"×\) at x:2,6,9,7", shown(several, width=60))


@pytest.mark.parametrize("what", ["whole model", "attempts", "nodes"])
def test_a_busy_machine_is_told_by_the_spread_of_times(result, what):
    assert "busy machine" not in shown(result)
    slow = Timing(5000, 4000, 6100, 31)
    tuning = result.tuning
    models = tuple(replace(m, before=slow) for m in tuning.models)
    nodes = tuple(
        replace(n, forms=(replace(n.forms[0], time=slow), *n.forms[1:])) for n in tuning.nodes
    )
    changed = {
        "whole model": replace(tuning, models=models),
        "attempts": replace(tuning, models=(), attempts=(Attempt("folds", models, False),)),
        "nodes": replace(tuning, nodes=nodes),
    }[what]
    assert "as on a busy machine" in " ".join(shown(replace(result, tuning=changed)).split())
    cached = replace(tuning, nodes=tuple(replace(n, cached=True) for n in nodes))
    assert "busy machine" not in shown(replace(result, tuning=cached))


def test_times_of_an_earlier_run_are_told(result):
    assert "earlier run" not in shown(result)
    first, second = result.tuning.nodes
    tuning = replace(result.tuning, nodes=(first, replace(second, cached=True)))
    for width in (140, 60):
        text = shown(replace(result, tuning=tuning), width=width)
        assert "times of 1 of 2 nodes come from an earlier run" in text


def test_a_dry_run_has_no_size_after(tmp_path):
    text = shown(untimed(tmp_path, dry_run=True))
    assert cells(text, "size")[-1] == "-"
    assert "dry run: nothing written" in text


def test_names_are_not_markup(tmp_path):
    proto = two_nodes()
    proto.graph.node[0].name = "[bold]a[/bold][red]"
    result = untimed(tmp_path, proto)
    for width in (140, 60):
        assert "[bold]a[/bold][red]" in shown(result, width=width)


def test_colour_only_on_a_terminal_that_wants_it(result, monkeypatch):
    coloured = r"\x1b\[[0-9;]*3[0-9]m"
    assert "\x1b" not in shown(result)
    assert "\x1b" not in shown(result, width=60)
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(result, force_terminal=True, color_system="standard")
    assert not re.search(coloured, text)


def test_more_when_verbose(result):
    quiet, text = shown(result), shown(result, verbose=True)
    assert "overlap-add" not in quiet
    assert "overlap-add" in text
    assert "canonical-pads: " in text
    assert re.search(r"phases +\S+ MFLOP, \S+ M elements moved, 500 µs measured\n", text)
    assert "behind it" not in text


def test_expected_times_are_shown_where_none_was_measured(tmp_path):
    text = shown(untimed(tmp_path, forms={}), verbose=True)
    assert re.search(r"keep +\S+ MFLOP, \S+ M elements moved, \S+ [mµ]s expected\n", text)
    assert "measured\n" not in text


def test_plugin_nodes_are_counted_by_themselves(tmp_path):
    result = untimed(tmp_path, target="tensorrt", plugin=True)
    text = shown(result, verbose=True)
    assert cells(text, "plugin") == ["plugin", "0", "2"]
    assert cells(text, "ConvTranspose") == ["ConvTranspose", "2", "0"]
    assert sum(result.ops_after.values()) == sum(result.ops_before.values())
    assert "behind it" in text
    assert "plugin 0" not in " ".join(shown(untimed(tmp_path)).split())


def test_times_of_what_was_not_taken_are_no_times_of_the_copy(result):
    text = shown(not_taken(result))
    assert "time, x:1,6,9,7" not in text
    flat = " ".join(text.split())
    assert "with other forms of 2 nodes the whole model was not faster by enough" in flat
    assert "1.25×" not in flat


def test_a_model_without_nodes(result):
    nothing = replace(
        result, decisions=(), modified=False, verification=None, tuning=None, ops_before={"Relu": 1}
    )
    text = shown(nothing)
    assert "0 ConvTranspose" in text
    assert "there is nothing to do" in text
