"""The page of a result, parsed."""

from __future__ import annotations

from convt_onnx.report.gathering import report_of
from convt_onnx.report.page import page
from convt_onnx.report.writing import report_document

from .made_up import PEAKS
from .parsed import Element, parse

COMMAND = ["convt-onnx", "optimize", "a model.onnx", "--report", "<b>.html"]


def shown(result, command=COMMAND, peaks=PEAKS):
    """The document and the page of it, parsed."""
    document = report_document(report_of(result, command, peaks))
    return document, parse(page(document))


def ids(tree: Element) -> set[str]:
    """Where links can lead."""
    return {e.attributes["id"] for e in tree.all() if "id" in e.attributes}
