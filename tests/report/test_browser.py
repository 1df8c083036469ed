"""The page in a real browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.report.gathering import report_of
from convt_onnx.report.page import page
from convt_onnx.report.writing import report_document

from .browser import Browser, find_chromium
from .made_up import NO_TIMES, PEAKS, two_nodes, untimed, with_times

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no chromium on the path (Debian: apt-get install chromium)"
)
ROOT = Path(__file__).parents[2]
HOSTILE = "<script>console.error('run')</script><img src=http://example.invalid/x onerror=alert(1)>"
LANDMARKS = {"banner", "navigation", "main", "contentinfo", "region"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(find_chromium(), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def document(folder):
    """A report with times, of nodes of which one has a hostile name."""
    proto = two_nodes()
    proto.graph.node[1].name = HOSTILE
    result = with_times(untimed(folder, proto, forms={"up": "phases"}))
    return report_document(report_of(result, ["convt-onnx", "optimize", HOSTILE], PEAKS))


@pytest.fixture(scope="module")
def path(folder, document):
    path = folder / "report.html"
    path.write_bytes(page(document))
    return path


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1100, 400, 320])
def test_it_loads_without_a_word_and_fits(browser, path, width, dark):
    browser.open(path, width=width, dark=dark)
    assert browser.problems() == []
    assert browser.requested() == [path.as_uri()]
    assert browser.evaluate("document.title") == "model.onnx · convt-onnx report"
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    red, green, blue = (
        int(c)
        for c in browser.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).join(' ')"
        ).split()
    )
    assert (red + green + blue < 3 * 128) == dark


@pytest.mark.parametrize("name", ["fcn8s", "hifigan", "unet"])
def test_pages_of_the_tools_own_models_fit_a_phone(browser, folder, name):
    source = ROOT / "models" / f"{name}_tiny.onnx"
    options = OptimizeOptions(target="portable", tune=NO_TIMES)
    result = optimize(source, folder / f"{name}.onnx", options)
    path = folder / f"{name}.html"
    path.write_bytes(page(report_document(report_of(result, None, PEAKS))))
    for dark in (False, True):
        browser.open(path, width=400, dark=dark)
        assert browser.problems() == []
        assert browser.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("width", [1100, 320])
def test_long_texts_wrap(browser, folder, result, width):
    inputs = ", ".join(f"cache_{i}:1,2,{i},64" for i in range(40))
    models = tuple(replace(m, inputs=inputs + str(i)) for i, m in enumerate(result.tuning.models))
    decisions = tuple(replace(d, path=d.path + "/x" * 400) for d in result.decisions)
    long = replace(result, tuning=replace(result.tuning, models=models), decisions=decisions)
    path = folder / "long.html"
    command = ["convt-onnx", "x" * 300]
    path.write_bytes(page(report_document(report_of(long, command, PEAKS))))
    browser.open(path, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


LINES_OF = """[...document.querySelectorAll({!r})].map(e => [
  e.textContent.trim(),
  new Set([...e.getClientRects()].map(r => Math.round(r.top))).size,
  e.getClientRects()[0].height,
])"""


def test_lines_break_between_words_and_parts_of_names(browser, folder, result):
    """On a phone: options, times and numbers with their units stay whole."""
    renamed = replace(result, source=Path("a_rather_long_name_for_a_network.onnx"))
    path = folder / "breaks.html"
    command = ["convt-onnx", "optimize", *["--no-verify"] * 9, "--tune-cache", "x" * 200]
    path.write_bytes(page(report_document(report_of(renamed, command, PEAKS))))
    browser.open(path, width=320)
    lines = browser.evaluate(LINES_OF.format(".word, time"))
    assert len(lines) == len(command) + 2
    heights = {text: (count, height) for text, count, height in lines}
    one_line = heights["convt-onnx"][1]
    assert all(h == (1, one_line) for w, h in heights.items() if w in command[:-1])
    assert heights["x" * 200][1] > 3 * one_line
    assert all(count == 1 for text, (count, _) in heights.items() if text.endswith("Z"))
    assert browser.evaluate("[...document.querySelectorAll('h1 wbr')].length") == 7
    assert browser.evaluate("document.querySelector('h1').textContent") == renamed.source.name
    spaces = browser.evaluate(
        "[...document.querySelectorAll('.facts dd')].map(e => e.textContent).join('|')"
    )
    assert "\N{NO-BREAK SPACE}ms → " in spaces


@pytest.mark.parametrize("media", ["screen", "print"])
@pytest.mark.parametrize("width", [1280, 800, 400])
def test_many_inputs_leave_room_for_files_and_times(browser, folder, result, width, media):
    inputs = ", ".join(f"cache_{i}:2,1,16,16,33" for i in range(4))
    models = tuple(replace(m, inputs=inputs) for m in result.tuning.models)
    many = replace(result, tuning=replace(result.tuning, models=models))
    path = folder / "many.html"
    path.write_bytes(page(report_document(report_of(many, None, PEAKS))))
    browser.open(path, width=width, media=media)
    values = browser.evaluate(
        "[...document.querySelectorAll('.files td.number, .files td.target')].map(cell => {"
        " const range = document.createRange(); range.selectNodeContents(cell);"
        " return [cell.textContent, range.getBoundingClientRect().height] })"
    )
    assert {text for text, _ in values} >= {"ort-cpu", "–"}
    assert max(height for _, height in values) < 30
    assert browser.evaluate("document.querySelector('.files .file').clientWidth") > 200


@pytest.mark.parametrize("width", [1100, 400])
def test_bars_are_drawn_as_the_json_says(browser, document, path, width):
    browser.open(path, width=width)
    drawn = browser.evaluate(
        "[...document.querySelectorAll('#time-per-node .bar')]"
        ".map(b => [b.dataset.series, b.getBoundingClientRect().width])"
    )
    nodes = sorted(document["nodes"], key=lambda n: -n["before"]["median_us"])
    wanted = [[s, n[s]["median_us"]] for n in nodes for s in ("before", "after")]
    assert [series for series, _ in drawn] == [series for series, _ in wanted]
    longest = max(width for _, width in drawn)
    assert longest > width / 3
    for (_, pixels), (_, value) in zip(drawn, wanted, strict=True):
        assert pixels == pytest.approx(longest * value / 2000, abs=0.5)


@pytest.mark.parametrize("width", [1100, 400])
def test_no_text_of_a_chart_leaves_the_page(browser, path, width):
    browser.open(path, width=width)
    edges = browser.evaluate(
        "[...document.querySelectorAll('svg text')]"
        ".map(t => [t.textContent, t.getBoundingClientRect()])"
        ".map(([text, box]) => [text, box.left, box.right])"
    )
    assert len(edges) > 20
    assert [e for e in edges if e[1] < 0 or e[2] > width] == []


@pytest.mark.parametrize("width", [1100, 400])
def test_a_screen_reader_is_told_of_everything(browser, document, path, width):
    browser.open(path, width=width)
    told = browser.accessible()
    assert {role for role, _ in told} >= LANDMARKS
    images = " ".join(name for role, name in told if role in ("image", "img"))
    for title in ("Time per node", "Time of the whole model", "Error over tolerance", "Roofline"):
        assert title in images
    tables = [name for role, name in told if role == "table"]
    assert any(t.startswith("Each ConvTranspose, what became of it, and why") for t in tables)
    assert ("columnheader", "speed") in told
    rows = [name for role, name in told if role == "rowheader"]
    assert any(name.startswith("1.\N{NO-BREAK SPACE}up") for name in rows)


def focused(browser):
    return browser.evaluate(
        "document.activeElement.getAttribute('href') || document.activeElement.tagName"
    )


def test_the_keyboard_reaches_everything_in_order(browser, path):
    browser.open(path)
    browser.press("Tab")
    assert focused(browser) == "#main"
    assert browser.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    order = []
    for _ in range(20):
        browser.press("Tab")
        order.append(focused(browser))
    assert order[:3] == ["#time", "#nodes", "#errors"]
    assert "SUMMARY" in order
    places = browser.evaluate("[...document.querySelectorAll('a, summary')].length")
    assert places > 20


def test_the_skip_link_skips(browser, path):
    browser.open(path)
    browser.press("Tab")
    browser.press("Enter")
    browser.press("Tab")
    assert browser.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_a_link_to_a_node_opens_what_was_weighed(browser, path):
    browser.open(path)
    closed = "[...document.querySelectorAll('details')].map(d => d.open)"
    assert not any(browser.evaluate(closed))
    browser.evaluate("document.querySelector('a[href=\"#node-2\"]').click()")
    opened = "document.querySelector('#node-2').closest('details').open"
    assert browser.evaluate(opened)


def test_print_shows_what_is_folded_on_the_screen(browser, path):
    height = "document.querySelector('details').getBoundingClientRect().height"
    browser.open(path)
    assert 0 < browser.evaluate(height) < 100
    browser.open(path, media="print", dark=True)
    assert browser.evaluate(height) > 200
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(253, 253, 252)"
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
