"""What keyboards, screen readers and tired eyes need of the page."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from .showing import shown


def test_landmarks_headings_and_captions(result):
    _, tree = shown(result)
    assert tree.one("html").attributes["lang"] == "en"
    for landmark in ("header", "nav", "main", "footer", "h1"):
        tree.one(landmark)
    assert tree.one("nav").attributes["aria-label"]
    sections = tree.all("section")
    assert len(sections) >= 7
    for section in sections:
        assert section.one("h2").attributes["id"] == section.attributes["aria-labelledby"]
    for table in tree.all("table"):
        assert table.one("caption").text.strip()
        assert all(th.attributes.get("scope") in ("row", "col") for th in table.all("th"))
    assert tree.all("a")[0].attributes["class"] == "skip"
    levels = [int(h.tag[1]) for h in tree.all() if re.fullmatch("h[1-6]", h.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_charts_have_titles_and_descriptions(result):
    _, tree = shown(result)
    charts = tree.all("svg", role="img")
    assert len(charts) == 4
    for chart in charts:
        title, description = (
            tree.one(id=id).text for id in chart.attributes["aria-labelledby"].split()
        )
        assert title and len(description) > 40
    decoration = [s for s in tree.all("svg") if s.attributes.get("aria-hidden") == "true"]
    inside = [s for chart in charts for s in chart.all("svg")]
    assert len(decoration) + len(charts) + len(inside) == len(tree.all("svg"))


def luminance(colour):
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first, second):
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_contrast(result, scheme):
    """WCAG 2.2: 4.5 for text, 3 for graphics, in both colour schemes."""
    _, tree = shown(result)
    roots = re.findall(r":root \{(.*?)\}", tree.one("style").text, re.DOTALL)
    assert len(roots) == 2
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", roots[scheme]))
    for ground in ("paper", "card", "head"):
        for text in ("ink", "muted", "after", "bad", "good"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        assert contrast(colours["before"], colours[ground]) >= 3
    assert contrast(colours["after"], colours["before"]) > 1.2
    assert contrast(colours["bad"], colours["shade"]) >= 3
