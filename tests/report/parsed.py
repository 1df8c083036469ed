"""A page as its tree, strictly: every tag closed, every id once."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """Every element below with that tag and those attributes, in order; `class_` is class."""
        wanted = {name.rstrip("_").replace("_", "-"): v for name, v in attributes.items()}
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if tag in ("", child.tag) and wanted.items() <= child.attributes.items():
                    found.append(child)
                found += child.all(tag, **attributes)
        return found

    def one(self, tag: str = "", **attributes: str) -> Element:
        (found,) = self.all(tag, **attributes)
        return found

    @property
    def text(self) -> str:
        parts = [c if isinstance(c, str) else c.text for c in self.children]
        return "".join(parts)


class Parser(HTMLParser):
    """Builds the tree; a tag that is not closed, or closed wrongly, is an error."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in {tag}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data):
        self._open[-1].children.append(data)

    def close(self):
        super().close()
        assert self._open == [self.root], f"<{self._open[-1].tag}> is not closed"


def parse(data: bytes) -> Element:
    parser = Parser()
    parser.feed(data.decode())
    parser.close()
    ids = [e.attributes["id"] for e in parser.root.all() if "id" in e.attributes]
    assert len(ids) == len(set(ids)), "an id is there twice"
    return parser.root


def bars(chart: Element) -> list[tuple[str, float, float]]:
    """Series, value and width in percent of each bar of a chart."""
    return [
        (
            bar.attributes["data-series"],
            float(bar.attributes["data-value"]),
            float(bar.attributes["width"].rstrip("%")),
        )
        for bar in chart.all("rect")
        if "data-value" in bar.attributes
    ]
