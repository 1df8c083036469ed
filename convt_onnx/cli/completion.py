"""Shell completion of values. What knows them is imported when a shell asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(names: Callable[[], Iterable[str]]) -> Complete:
    """Those of `names()` that begin as what was typed."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def targets() -> Iterable[str]:
    """For --target."""
    from convt_onnx.targets import NAMES

    return NAMES


def backends() -> Iterable[str]:
    """For --backend."""
    from convt_onnx.engine.backend import BACKENDS

    return BACKENDS


def plugin_modes() -> Iterable[str]:
    """For --plugin of `build`."""
    from convt_onnx.engine.plugins import MODES

    return MODES


def reasons() -> Iterable[str]:
    """For `explain`."""
    from convt_onnx.reasons import REASONS

    return REASONS


def decoders() -> Iterable[str]:
    """For `models export`."""
    from convt_onnx.models import names

    return names()


def complete_size(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For --size of `models export`: sizes of the decoder that was named, else of any."""
    from convt_onnx.models import get, names

    # click leaves an argument in front of an unfinished option unread.
    named = [word for word in (ctx.params.get("name"), *ctx.args) if word in names()]
    sizes = dict.fromkeys(size for name in named or names() for size in get(name).sizes)
    return [size for size in sizes if size.startswith(incomplete)]


def complete_form(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For --form NODE=FORM: forms for the node that was typed, which may be `all`."""
    from convt_onnx.forms import FORMS

    node, equals, form = incomplete.rpartition("=")
    if not equals:
        node, form = ("all" if "all".startswith(form) else form), ""
    return [f"{node}={name}" for name in FORMS if name.startswith(form)]


def complete_passes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For --passes NAME,…: the last name."""
    from convt_onnx.pipeline import PASSES

    before, comma, name = incomplete.rpartition(",")
    return [f"{before}{comma}{cls.name}" for cls in PASSES if cls.name.startswith(name)]
