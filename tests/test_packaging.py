"""What is built holds what the tree holds, and runs without it."""

from __future__ import annotations

import functools
import importlib.metadata
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import convt_onnx

ROOT = Path(__file__).parents[1]
# Where each folder of the tree goes.
FOLDERS = {
    "convt_onnx": "convt_onnx",
    "passes": "convt_onnx/passes",
    "plugins": "convt_onnx/plugins",
    "models": "convt_onnx/models",
}
# What an older version left where setuptools builds by default.
STALE = Path("build/lib/convt_onnx/stale.py")


@functools.cache
def tree_files():
    """Every file of the checkout that git does not ignore."""
    git = shutil.which("git")
    command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = None if git is None else subprocess.run(command, cwd=ROOT, capture_output=True)
    if done is None or done.returncode:
        pytest.skip("the list of files comes from git, and this is no git checkout")
    names = done.stdout.decode().split("\0")
    return sorted(name for name in names if name and (ROOT / name).is_file())


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the checkout, where an older version was built: building writes into it."""
    folder = tmp_path_factory.mktemp("tree")
    (folder / STALE).parent.mkdir(parents=True)
    (folder / STALE).write_text("raise ImportError('of an older version')\n")
    for name in tree_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def build(tree, out, *what):
    command = [sys.executable, "-m", "build", "--outdir", str(out), *what]
    version = importlib.metadata.version("setuptools") if _has("setuptools") else "0"
    if int(version.partition(".")[0]) >= 77:
        command.append("--no-isolation")
    done = subprocess.run([*command, str(tree)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def _has(name):
    return any(True for _ in importlib.metadata.distributions(name=name))


@pytest.fixture(scope="module")
def wheel(tree, tmp_path_factory):
    """The wheel, built from the tree."""
    out = tmp_path_factory.mktemp("wheel")
    build(tree, out, "--wheel")
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist_and_wheel(tree, tmp_path_factory):
    """The sdist, and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("sdist")
    build(tree, out)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return folder


def contents(wheel):
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


def packaged(names):
    """What belongs into the wheel, by the name that it has there."""
    found = {}
    for name in names:
        folder, _, rest = name.partition("/")
        if folder in FOLDERS and not name.endswith(".md"):
            found[f"{FOLDERS[folder]}/{rest}"] = name
    return found


def python(code_or_module, cwd, path=None):
    flag = "-m" if not isinstance(code_or_module, str) else "-c"
    arguments = [code_or_module] if isinstance(code_or_module, str) else list(code_or_module)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [sys.executable, flag, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_the_wheel_holds_the_tree(tree, wheel):
    wanted = packaged(tree_files())
    found = contents(wheel)
    assert {n for n in found if ".dist-info/" not in n} == wanted.keys()
    for name, source in wanted.items():
        assert found[name] == (tree / source).read_bytes(), name


def test_building_neither_takes_nor_leaves_files_in_the_tree(tree, sdist_and_wheel):
    assert [f for f in (tree / "build").rglob("*") if f.is_file()] == [tree / STALE]
    assert not any("stale" in name for name in contents(sdist_and_wheel[1]))


def test_the_list_is_not_empty():
    wanted = packaged(tree_files())
    for name in (
        "convt_onnx/py.typed",
        "convt_onnx/cli/__init__.py",
        "convt_onnx/passes/lower.py",
        "convt_onnx/plugins/__init__.py",
        "convt_onnx/plugins/onnxruntime/c/library.c",
        "convt_onnx/models/unet.py",
        "convt_onnx/models/unet_tiny.onnx",
        "convt_onnx/report/report.schema.json",
        "convt_onnx/report/templates/report.css",
    ):
        assert name in wanted


def test_the_wheel_says_what_it_is(wheel):
    found = contents(wheel)
    (metadata,) = (v.decode() for n, v in found.items() if n.endswith(".dist-info/METADATA"))
    assert f"\nVersion: {convt_onnx.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert any(n.endswith("/licenses/LICENSE") for n in found)
    (scripts,) = (v.decode() for n, v in found.items() if n.endswith("entry_points.txt"))
    assert "convt-onnx = convt_onnx.__main__:main" in scripts


def test_the_core_asks_for_little(wheel):
    metadata = next(v for n, v in contents(wheel).items() if n.endswith("/METADATA")).decode()
    lines = [s.partition(": ")[2] for s in metadata.splitlines() if s.startswith("Requires-Dist")]
    core = {s.split(">")[0].split("<")[0].strip() for s in lines if "extra ==" not in s}
    small = {"numpy", "ml_dtypes", "click", "rich", "platformdirs", "jinja2"}
    assert core == {"onnx", "onnx-ir"} | small


def test_the_sdist_builds_the_same_wheel(tree, wheel, sdist_and_wheel):
    sdist, from_sdist = sdist_and_wheel
    first, second = contents(wheel), contents(from_sdist)
    assert first.keys() == second.keys()
    # RECORD lists the others.
    assert all(first[n] == second[n] for n in first if not n.endswith("RECORD"))
    with tarfile.open(sdist) as file:
        names = {n.partition("/")[2] for n in file.getnames()}
    assert set(packaged(tree_files()).values()) <= names


def test_the_wheel_runs_without_the_tree(unpacked, tmp_path):
    done = python(("convt_onnx", "--version"), tmp_path, unpacked)
    assert done.stdout == f"convt-onnx, version {convt_onnx.__version__}\n", done.stderr
    code = """
import convt_onnx, convt_onnx.passes, convt_onnx.plugins, convt_onnx.models
from convt_onnx.models import names
print(*(m.__file__ for m in (convt_onnx, convt_onnx.passes, convt_onnx.plugins, convt_onnx.models)))
"""
    done = python(code, tmp_path, unpacked)
    files = done.stdout.split()
    assert len(files) == 4, done.stderr
    assert all(Path(f).is_relative_to(unpacked) for f in files)


def test_a_checkout_runs_without_being_installed(tree):
    done = python(("convt_onnx", "explain", "CT104"), tree)
    assert done.stdout.startswith("CT104: "), done.stderr
    code = "import convt_onnx.passes as p, convt_onnx.models as m; print(p.__file__, m.__file__)"
    done = python(code, tree)
    assert all(Path(f).is_relative_to(tree) for f in done.stdout.split()), done.stdout
    assert len(done.stdout.split()) == 2, done.stderr


@pytest.mark.parametrize("name", ["passes", "plugins", "models"])
def test_folders_refuse_their_short_names(tree, name):
    done = python(f"import {name}", tree)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == f"ImportError: import convt_onnx.{name}: this folder is a part of that package"


HEAVY = ("onnx", "onnx_ir", "onnxruntime", "torch", "numpy", "jax", "onnxscript")


@pytest.mark.parametrize("code", ["import convt_onnx", "import convt_onnx; dir(convt_onnx)"])
def test_importing_costs_nothing(unpacked, tmp_path, code):
    check = f"import sys; {code}; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(check, tmp_path, unpacked).stdout == "[]\n"
