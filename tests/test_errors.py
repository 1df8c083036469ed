"""Errors that a user sees: what, where, and what to do."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from convt_onnx.errors import ConvtError, GeometryError

ROOT = Path(__file__).parents[1]
FOLDERS = ("convt_onnx", "passes", "plugins", "models")


def sources() -> dict[str, ast.Module]:
    paths = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))]
    return {str(p.relative_to(ROOT)): ast.parse(p.read_text()) for p in paths}


def error_classes(modules: dict[str, ast.Module]) -> set[str]:
    """ConvtError and every class of the source that derives from it."""
    found = {ConvtError.__name__}
    classes = [n for m in modules.values() for n in ast.walk(m) if isinstance(n, ast.ClassDef)]
    while more := {c.name for c in classes if found & set(map(last_name, c.bases))} - found:
        found |= more
    return found


def last_name(expression: ast.expr) -> str:
    """`c` of `c` and of `a.b.c`."""
    return getattr(expression, "attr", None) or getattr(expression, "id", "")


def made_without_help(module: ast.Module, classes: set[str]) -> Iterator[int]:
    """Lines that make an error whose help is absent, or may be an empty string."""
    for call in (n for n in ast.walk(module) if isinstance(n, ast.Call)):
        if last_name(call.func) in classes:
            help = [k.value for k in call.keywords if k.arg == "help"]
            if not help or "" in values(help[0], module):
                yield call.lineno


def values(expression: ast.expr, module: ast.Module) -> Iterator[object]:
    """Constants that an expression may be; names stand for all that the module assigns to them."""
    match expression:
        case ast.Constant(value):
            yield value
        case ast.IfExp(_, body, orelse):
            yield from (*values(body, module), *values(orelse, module))
        case ast.Name(name):
            for assigned in ast.walk(module):
                if isinstance(assigned, ast.Assign):
                    for target, value in pairs(assigned.targets[0], assigned.value):
                        if isinstance(target, ast.Name) and target.id == name:
                            yield from values(value, module)


def pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """What is assigned to what, one by one where both sides are tuples."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def test_every_error_says_what_to_do():
    modules = sources()
    classes = error_classes(modules)
    assert {"UsageError", "RunError", "BuildError", "UnknownSizeError"} <= classes
    found = [f"{p}:{n}" for p, m in modules.items() for n in made_without_help(m, classes)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("raise GeometryError('no', where='here', help='do this')", []),
        ("raise GeometryError('no', where='here')", [1]),
        ("raise GeometryError('no', help='')", [1]),
        ("h = 'do' if a else ''\nraise GeometryError('no', help=h)", [2]),
        ("w, h = 'no', ''\nraise GeometryError(w, help=h)", [2]),
        ("class MyError(GeometryError): ...\nreturn_this(MyError('no'))", [2]),
        ("raise ValueError('no')", []),
    ],
)
def test_what_counts_as_an_error_without_help(text, lines):
    module = ast.parse(text)
    classes = error_classes({"": module, "errors": ast.parse("class GeometryError(ConvtError): 1")})
    assert list(made_without_help(module, classes)) == lines


def test_three_lines():
    error = GeometryError("group must be at least 1", where="group = 0", help="give 1")
    assert str(error) == "group must be at least 1\n  at: group = 0\nhelp: give 1"
    assert isinstance(error, ValueError)
