"""Places on the page, and what they are labelled with."""

from __future__ import annotations

import pytest

from convt_onnx.report.axes import LogAxis
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


@pytest.mark.parametrize(
    ("others", "below"),
    [
        ([], False),
        ([mark("2", 53, 135)], True),
        ([mark("2", 70, 135)], False),
        ([mark("2", 50, 100)], False),
        ([mark("2", 53, 135), mark("3", 51, 166)], False),
    ],
)
def test_a_label_goes_below_where_another_mark_is_above(others, below):
    assert _labelled([mark("1", 50, 150), *others])[0].below is below


def test_a_label_at_the_bottom_stays_above():
    assert not _labelled([mark("1", 50, 275), mark("2", 53, 260)])[0].below
