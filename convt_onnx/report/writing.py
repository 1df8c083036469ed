"""Write a report: HTML or JSON, by the suffix of its name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from convt_onnx.benching import BenchResult
from convt_onnx.errors import UsageError
from convt_onnx.model_io import check_new_file, staging, write_error
from convt_onnx.optimization import OptimizeResult
from convt_onnx.report.as_json import Document, document
from convt_onnx.report.bench_gathering import bench_report_of
from convt_onnx.report.contents import Report
from convt_onnx.report.gathering import report_of
from convt_onnx.report.peaks import peaks_for

SUFFIXES = (".html", ".json")


def check_report_path(path: Path, *others: Path, force: bool) -> None:
    """Check before any work whether a report can go to `path`.

    Args:
        path: The file to write.
        others: Files that this run reads or writes besides.
        force: Whether `path` may be replaced.

    Raises:
        UsageError: The suffix is unknown, or see `check_new_file`.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"a report ends in {' or '.join(SUFFIXES)}",
            where=f"--report {path}",
            help=f"--report {path.with_suffix('.html').name or 'report.html'}",
        )
    check_new_file(path, *others, force=force)


def write_report(
    result: OptimizeResult | BenchResult,
    path: str | Path,
    *,
    command: Sequence[str] | None = None,
    force: bool = False,
) -> Path:
    """Write what `optimize` or `bench` found out as one HTML page or as JSON.

    Measures what the machine can do, for about a second, where there are nodes to judge by it.
    Nothing is left behind where writing fails.

    Args:
        result: What was returned.
        path: Ends in .html or .json.
        command: The command line to show.
        force: Replace the file if it exists.

    Raises:
        UsageError: The file may not or cannot be written.
    """
    path = Path(path)
    check_report_path(path, force=force)
    peaks = peaks_for(result)
    if isinstance(result, BenchResult):
        report = bench_report_of(result, command, peaks)
    else:
        report = report_of(result, command, peaks)
    data = rendered(report, path.suffix.lower())
    try:
        with staging() as stage, stage.open(path) as file:
            file.write(data)
    except OSError as error:
        raise write_error(path, error) from error
    return path


def rendered(report: Report, suffix: str) -> bytes:
    """The bytes of a report, as a page or as JSON."""
    content = report_document(report)
    if suffix == ".html":
        from convt_onnx.report.page import page

        return page(content)
    return (json.dumps(content, indent=2) + "\n").encode()


def report_document(report: Report) -> Document:
    """The JSON document of a report, as `report.schema.json` describes it."""
    content = {f.name: getattr(report, f.name) for f in fields(report)}
    return document("report", **content)
