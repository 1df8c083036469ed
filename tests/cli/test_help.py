"""What every command says about itself, and what it says to a wrong call."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from convt_onnx import __version__
from convt_onnx.cli import cli
from convt_onnx.cli.failure import report_failure
from convt_onnx.cli.group import COMMANDS
from convt_onnx.cli.options import TARGETS_TEXT
from convt_onnx.targets import TARGETS

HEAVY = ("onnx", "onnx_ir", "onnxruntime", "torch", "numpy", "rich")


def commands():
    """Every command, groups included, as words."""
    found = [()]
    for name in cli.list_commands(click.Context(cli)):
        found.append((name,))
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            found += [(name, sub) for sub in command.commands]
    return found


@pytest.mark.parametrize("command", commands(), ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_ends_with_examples(convt, command, flag):
    done = convt(*command, flag)
    assert (done.code, done.err) == (0, "")
    words = " ".join(("convt-onnx", *command))
    assert done.out.startswith(f"Usage: {words}")
    examples = done.out.partition("Examples:\n")[2].splitlines()
    calls = [line for line in examples if line.strip().startswith(words)]
    assert calls
    assert all(line.startswith("  ") or not line for line in examples)


def test_help_lists_every_command_and_exit_code(convt):
    out = convt("--help").out
    for name, (_, text) in COMMANDS.items():
        assert f"  {name}" in out
        assert text in out
    for code in range(4):
        assert f"\n    {code}  " in out
    assert "_CONVT_ONNX_COMPLETE=bash_source" in out


def test_every_option_is_explained(convt):
    for command in commands():
        context = click.Context(cli)
        found = cli
        for name in command:
            found = found.get_command(context, name)
        for parameter in found.params:
            assert not isinstance(parameter, click.Option) or parameter.help


def test_help_names_every_target():
    assert ", ".join(TARGETS) == TARGETS_TEXT


@pytest.mark.parametrize("command", ["optimize", "inspect", "bench"])
def test_help_of_a_target_option_names_them(convt, command):
    # Lines are broken behind hyphens too.
    assert "".join(TARGETS_TEXT.split()) in "".join(convt(command, "--help").out.split())


def test_version(convt):
    done = convt("--version")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"convt-onnx, version {__version__}\n"


@pytest.mark.parametrize("command", [(), ("models",)])
def test_without_a_command_the_help_is_shown(convt, command):
    done = convt(*command)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("Usage: convt-onnx")
    assert "Examples:" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["optimise", "m.onnx"], ["no command 'optimise'", "did you mean 'optimize'?"]),
        (["xyzzy"], ["no command 'xyzzy'", "choose one of optimize, inspect"]),
        (["models", "lst"], ["'lst'", "'list'"]),
        (["optimize", "m.onnx", "--taget", "portable"], ["--taget", "--target"]),
        (["--versoin"], ["--versoin", "--version"]),
        (["optimize"], ["Missing argument 'MODEL'", "convt-onnx optimize --help"]),
        (["verify", "a.onnx"], ["Missing argument 'OTHER'", "convt-onnx verify --help"]),
        (["optimize", "m.onnx", "extra"], ["unexpected extra argument", "extra"]),
        (["optimize", "m.onnx", "--seed", "x"], ["--seed", "convt-onnx optimize --help"]),
        (["build", "m.onnx", "--memory", "0"], ["--memory", "convt-onnx build --help"]),
        (["optimize", "m.onnx", "--seed", "x"], ["--seed", "not a valid integer"]),
        (["optimize", "m.onnx", "--atol", "x"], ["--atol", "not a valid float"]),
        (["models", "export", "unet", "--opset", "3"], ["--opset", "3"]),
        (["explain", "CT10"], ["no reason 'CT10'", "CT10"]),
        (["models", "export", "unett"], ["'unett'", "unet"]),
    ],
)  # fmt: skip
def test_wrong_calls(convt, arguments, words):
    convt(*arguments).check_failed(2, *words)


@pytest.mark.parametrize(
    ("arguments", "help"),
    [
        (["bench", "m.onnx"], "convt-onnx bench --help"),
        (["-v"], "convt-onnx --help"),
        ([], "convt-onnx --help"),
    ],
)
def test_errors_of_the_system_point_at_the_command(capsys, arguments, help):
    assert report_failure(OSError(28, "disk full"), arguments) == 2
    assert capsys.readouterr().err == f"error: cannot read or write: disk full\nhelp:  {help}\n"


@pytest.mark.parametrize("flags", [["-vv"], ["-v", "-v"], ["--verbose", "-v"], ["-vvv"]])
def test_tracebacks_only_when_asked_for_twice(convt, flags):
    assert "Traceback" not in convt("optimize", "no.onnx", "-v").err
    done = convt("optimize", "no.onnx", *flags)
    assert done.code == 2
    assert done.err.startswith("error: cannot read no.onnx")
    assert "Traceback" in done.err
    assert "help:  " in done.err


def test_the_module_is_the_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "convt_onnx", "--version"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stdout == f"convt-onnx, version {__version__}\n"
    done = subprocess.run(
        [sys.executable, "-m", "convt_onnx", "optimize", "no.onnx"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("arguments", [["--help"], ["optimize", "--help"], ["explain", "CT104"]])
def test_nothing_heavy_is_imported_for_words(tmp_path, arguments):
    code = f"""
import sys
from convt_onnx.cli import main
try:
    main({arguments!r})
except SystemExit as done:
    print("code", done.code, file=sys.stderr)
print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stderr.splitlines() == ["code 0", "[]"]


@pytest.mark.parametrize("module", ["convt_onnx.cli", "convt_onnx.cli.failure", "click", "onnx_ir"])
def test_an_interrupt_while_modules_load_is_one_line(tmp_path, module):
    code = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                print("raised in the import, where protobuf would crash")
sys.meta_path.insert(0, Interrupting())
sys.argv = ["convt-onnx", "optimize", "no.onnx"]
from convt_onnx.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_an_interrupt_of_a_later_import_cleans_up(tmp_path):
    code = """
import signal, sys, tempfile
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "later":
            signal.raise_signal(signal.SIGINT)
def command():
    import onnx
    with tempfile.TemporaryDirectory(dir="."):
        import later
sys.meta_path.insert(0, Interrupting())
from convt_onnx import __main__, cli
cli.main = command
__main__.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("convt-onnx opt", "optimize"),
        ("convt-onnx optimize --target po", "portable"),
        ("convt-onnx explain ct10", "CT104"),
        ("convt-onnx inspect --target tensorrt-rtx", "tensorrt-rtx-1.4"),
        ("convt-onnx bench --target po", "portable"),
        ("convt-onnx optimize --form a", "all=phases-split"),
        ("convt-onnx optimize --form /up=un", "/up=unfold"),
        ("convt-onnx optimize --form /up", "/up=keep"),
        ("convt-onnx optimize --passes fold-cr", "fold-crops"),
        ("convt-onnx optimize --passes fold-crops,fold-p", "fold-crops,fold-pads"),
        ("convt-onnx build --plugin a", "aot"),
        ("convt-onnx build --backend t", "tensorrt-rtx"),
        ("convt-onnx models export hi", "hifigan"),
        ("convt-onnx models export --size full-3", "full-32s"),
        ("convt-onnx models export unet --size f", "full"),
    ],
)
def test_shell_completion(monkeypatch, capsys, words, wanted):
    count = len(words.split()) - 1
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(count))
    monkeypatch.setenv("_CONVT_ONNX_COMPLETE", "bash_complete")
    with pytest.raises(SystemExit):
        cli.main(prog_name="convt-onnx")
    assert f"plain,{wanted}\n" in capsys.readouterr().out


def test_completed_sizes_are_those_of_the_decoder(monkeypatch, capsys):
    monkeypatch.setenv("COMP_WORDS", "convt-onnx models export unet --size ")
    monkeypatch.setenv("COMP_CWORD", "5")
    monkeypatch.setenv("_CONVT_ONNX_COMPLETE", "bash_complete")
    with pytest.raises(SystemExit):
        cli.main(prog_name="convt-onnx")
    assert capsys.readouterr().out == "plain,tiny\nplain,full\n"
