"""Every command and every Python block of the README runs."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from convt_onnx.cli import cli
from convt_onnx.forms import FORMS
from convt_onnx.pipeline import PASSES
from convt_onnx.reasons import REASONS
from convt_onnx.targets import TARGETS

from .graph.building import array, model, write

ROOT = Path(__file__).parent.parent
# Options of `optimize` that the README tells of elsewhere, or that say their own negation there.
HINTED = {"--output", "--force", "--verify", "--quiet", "--verbose"}
README = (ROOT / "README.md").read_text()
FOLDERS = ("benchmarks", "convt_onnx", "plugins")
DOCUMENTS = [*ROOT.glob("*.md"), *(p for name in FOLDERS for p in (ROOT / name).rglob("*.md"))]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands():
    """Command lines with the words behind them."""
    lines = [line.strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("convt-onnx ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("readme")
    (path / "models").mkdir()
    for file in (ROOT / "models").glob("*.onnx"):
        shutil.copy(file, path / "models")
    return path


@pytest.fixture(scope="module")
def ran(folder):
    """What each command printed, by its line; they ran in order."""
    return {line: run(line, folder) for line in commands()}


def run(line, folder):
    words = [sys.executable, "-m", "convt_onnx", *shlex.split(line.split(" #")[0])[1:]]
    mine = os.environ | {"CONVT_ONNX_CACHE": str(folder)}
    mine.pop("TRITON_INTERPRET", None)  # which the tests set, and which compiles nothing
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, env=mine)


def test_commands_run(ran):
    assert len(ran) >= 6
    for line, done in ran.items():
        if "needs [gpu]" in line and importlib.util.find_spec("triton") is None:
            assert done.returncode == 3, (line, done.stderr)
            continue
        assert done.returncode == 0, (line, done.stderr)
        assert done.stdout, line


def cells(line):
    return re.split(r"\s{2,}", line.strip())


def test_the_sample_is_what_the_command_prints(ran):
    """But for what differs from run to run: times, and the forms that follow from them."""
    command, *lines = blocks("console")[0].splitlines()
    start = command.removeprefix("$ ")
    (done,) = [d for line, d in ran.items() if line.startswith(start)]
    printed = [x.strip() for x in done.stderr.splitlines()]
    named = {tuple(cells(x)[:2]) for x in printed if len(cells(x)) > 2}
    nodes = [x for x in lines if x.startswith(" node_convolution")]
    assert len(nodes) == 3
    assert {tuple(cells(x)[:2]) for x in nodes} <= named
    for first in ("convt-onnx ", "node ", "model ", "ConvTranspose ", "times are"):
        (line,) = [x.strip() for x in lines if x.strip().startswith(first)]
        assert cells(line)[0] in {cells(x)[0] for x in printed}, line
    assert next(x for x in lines if x.startswith(" node ")).split() in [x.split() for x in printed]


def test_what_would_go_wrong_is_printed_so(folder):
    text = "g (float[2,4,5,7] x) => (float[] y) { y = ConvTranspose <%s> (x, w) }"
    proto = model(text % "output_shape=[10,15], strides=[2,2]", w=array(4, 3, 3, 4))
    path = write(proto, folder, "shifted.onnx")
    done = run(f"convt-onnx inspect {path} --target tensorrt-rtx", folder)
    for line in blocks("console")[1].splitlines():
        assert line in done.stdout.splitlines()


def test_links_lead_somewhere():
    texts = {name: (ROOT / name).read_text() for name in ("README.md", "benchmarks/README.md")}
    links = [link for text in texts.values() for link in re.findall(r"\]\(([^)]+)\)", text)]
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    }
    assert len(links) > 10
    for link in links:
        assert (
            link.removeprefix("#") in anchors if link.startswith("#") else (ROOT / link).is_file()
        )


def test_every_section_is_in_the_contents():
    titles = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert len(titles) == README.partition("\n## ")[0].count("](#")


def test_figures_are_those_of_the_benchmarks():
    """Each number of the headline figures stands in the full tables."""
    section = README.partition("## Numbers")[2].partition("## Limits")[0]
    full = (ROOT / "benchmarks/README.md").read_text()
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 8
    for row in rows:
        for number in re.findall(r"\d[\d.,]*\d|\d", row):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", full), (number, row)
    for script in re.findall(r"`(\w+\.py)", section):
        assert (ROOT / "benchmarks" / script).is_file()


@pytest.mark.usefixtures("ran")  # the blocks load what the commands wrote
def test_python_blocks_run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert blocks("python")
    for block in blocks("python"):
        exec(compile(block, "README", "exec"), {})


def test_no_placeholder_is_left():
    assert not re.search(r"^[A-Z]{4,}$", README, re.MULTILINE)


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = {t for block in blocks("sh") for t in re.findall(r"^make (\w+)", block, re.MULTILINE)}
    assert named == {"demo", "test"}
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def table(head):
    """First cells of the table with that head line, in order; what stands behind backticks goes."""
    rows = README.partition(f"\n{head}\n")[2].split("\n\n")[0].splitlines()[1:]
    assert rows, head
    return [re.search(r"`([^`]+)`", row)[1] for row in rows]


def test_tables_name_every_target_form_and_pass():
    assert table("| target | what it is | what it gets |") == list(TARGETS)
    assert table("| form | what it is | applies |") == list(FORMS)
    assert table("| pass | what it does |") == [cls.name for cls in PASSES]


@pytest.mark.parametrize(
    ("head", "command"), [("| option | meaning |", "optimize"), ("| `build` | |", "build")]
)
def test_options_of_the_tables_are_those_of_the_commands(head, command):
    section = README.partition(f"\n{head}\n")[2].split("\n\n")[0]
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", section.replace("/", " ")))
    context = click.Context(cli)
    parameters = cli.get_command(context, command).params
    known = {o for p in parameters for o in (*p.opts, *p.secondary_opts)}
    assert len(named) > 10
    assert named <= known
    if command == "optimize":
        assert {p.opts[0] for p in parameters if p.opts[0].startswith("--")} <= named | HINTED


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_reasons_that_are_named_exist(path):
    assert set(re.findall(r"\bCT\d{3}\b", path.read_text())) <= REASONS.keys()
