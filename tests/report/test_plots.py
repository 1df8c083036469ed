"""Places on the page, and what they are labelled with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convt_onnx.report.axes import LogAxis
from convt_onnx.report.labels import Point, place_labels
from convt_onnx.report.plots import PLOT_HEIGHT, Mark, _labelled, roof, roofline_plot
from convt_onnx.report.units import count_text, digits, percent_text, size_text, time_text


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [([2e-7, 3e-4], -7, -3), ([5.0], 0, 1), ([1.0, 1000.0], -1, 4), ([0.0], -1, 1), ([], -1, 1)],
)
def test_axes_end_at_decades(values, low, high):
    axis = LogAxis.over(values)
    assert (axis.low, axis.high) == (low, high)
    assert all(0 <= axis.at(v) <= 100 for v in values)


def test_places_on_an_axis():
    axis = LogAxis(-2, 2)
    assert [axis.at(v) for v in (0.01, 0.1, 1, 100)] == [0, 25, 50, 100]
    assert axis.at(0) == axis.at(1e-9) == 0
    assert axis.at(1e9) == 100
    ticks = {tick.label: tick.at for tick in axis.ticks()}
    assert ticks == {"0.01": 0, "0.1": 25, "1": 50, "10": 75, "100": 100}
    assert len(LogAxis(-30, 10).ticks()) <= 9


def mark(label, x, y):
    return Mark("node", x, y, "title", label)


def test_marks_on_top_of_each_other_share_a_label_over_the_highest():
    marks = _labelled([mark("1", 50, 100), mark("2", 51, 95), mark("3", 90, 100)])
    assert [m.label for m in marks] == ["", "1, 2", "3"]
    many = _labelled([mark(str(i), 50, 100) for i in range(1, 7)])
    assert [m.label for m in many if m.label] == ["1, 2, 3 +3"]


PEAKS = {"flops_per_s": 1e11, "bytes_per_s": 1e10, "how": "so"}


def test_the_roof_is_the_lower_of_two():
    assert roof(1, PEAKS) == 1e10
    assert roof(10, PEAKS) == roof(1000, PEAKS) == 1e11


def node(number, flops, moved, microseconds=None):
    time = None if microseconds is None else {"median_us": microseconds}
    costs = {"flops_exact": flops, "bytes": moved}
    return {"number": number, "path": "n", "costs": costs, "before": time, "after": time}


def test_a_node_at_the_roof_is_drawn_on_it():
    # 10 FLOP a byte is the corner of this roof: 1e6 FLOP in 10 microseconds are all of it.
    plot = roofline_plot({"peaks": PEAKS, "nodes": [node(1, 1e6, 1e5, 10.0)]})
    corner = plot.line[1]
    for drawn in plot.marks:
        assert (drawn.x, 100 * (1 - drawn.y / PLOT_HEIGHT)) == pytest.approx(corner)
    untimed = roofline_plot({"peaks": PEAKS, "nodes": [node(1, 1e6, 1e5)]})
    assert [m.series for m in untimed.marks] == ["bound"]
    assert untimed.marks[0].x == pytest.approx(untimed.line[1][0])


def test_nothing_to_draw():
    assert roofline_plot({"peaks": None, "nodes": [node(1, 1e6, 1e5)]}) is None
    assert roofline_plot({"peaks": PEAKS, "nodes": []}) is None
    assert roofline_plot({"peaks": PEAKS, "nodes": [node(1, 0, 1e5, 10.0)]}) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (time_text(0.5), "0.50 µs"),
        (time_text(999.4), "999 µs"),
        (time_text(1234), "1.23 ms"),
        (time_text(12_345_678), "12.3 s"),
        (count_text(999), "999 "),
        (count_text(1234), "1.23 k"),
        (count_text(5.6e13), "56.0 T"),
        (size_text(1023), "1023 B"),
        (size_text(1536), "1.5 KiB"),
        (size_text(5 << 30), "5.0 GiB"),
        (percent_text(0.0294), "2.94 %"),
        (percent_text(None), "–"),
        (digits(0), "0"),
    ],
)
def test_numbers_for_people(text, wanted):
    assert text == wanted


ABOVE, BELOW, RIGHT, LEFT = (0, -10, "middle"), (0, 20, "middle"), (9, 5, "start"), (-9, 5, "end")
TIP, UNDER = mark("2", 53, 135), mark("3", 51, 166)


@pytest.mark.parametrize(
    ("others", "place"),
    [
        ([], ABOVE),
        ([mark("2", 70, 135)], ABOVE),
        ([mark("2", 50, 100)], ABOVE),
        ([TIP], BELOW),
        ([TIP, UNDER], RIGHT),
        ([TIP, UNDER, mark("4", 55, 150)], LEFT),
    ],
)
def test_a_label_goes_where_no_mark_is(others, place):
    found = _labelled([mark("1", 50, 150), *others])[0].place
    assert (found.dx, found.dy, found.anchor) == place


@pytest.mark.parametrize(("x", "y", "dy", "anchor"), [(50, 275, 5, "start"), (95, 275, 5, "end")])
def test_a_label_at_the_bottom_is_not_below(x, y, dy, anchor):
    place = _labelled([mark("1", x, y), mark("2", x, y - 15)])[0].place
    assert (place.dy, place.anchor) == (dy, anchor)


@pytest.mark.parametrize(("x", "anchor"), [(1, "start"), (99, "end")])
def test_labels_stay_on_the_page(x, anchor):
    assert _labelled([mark("1", x, 100)])[0].place.anchor == anchor


def test_labels_do_not_cover_each_other():
    """As the marks of a row, in which labels of five letters have no room side by side."""
    row = [Point(50 + 7 * i, 100, None, "ab, c") for i in range(4)]
    found = [place.dy for place in place_labels(row, PLOT_HEIGHT)]
    assert len(set(found[:2])) == 2
    assert found[0] != found[1] != found[2] != found[3]


def test_a_label_leaves_a_tail_free():
    marks = _labelled([mark("1", 50, 150), replace(mark("2", 51, 100), tail=145)])
    assert marks[0].place.dy == 20
