from __future__ import annotations

import io

from rich.console import Console

from convt_onnx.cli.output import progress


def shown(terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with progress(console) as steps:
        steps("reading [the] model")
        steps.measure("timing up (1 of 2)", 0.25)
        steps.measure("timing down (2 of 2)", 1.0)
        steps("writing")
    return console.file.getvalue()


def test_a_terminal_sees_the_last_step():
    assert "writing" in shown(True)


def test_a_file_stays_empty():
    assert shown(False).strip() == ""
