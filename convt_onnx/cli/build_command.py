"""`convt-onnx build`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from convt_onnx.cli.completion import backends, completing, plugin_modes
from convt_onnx.cli.options import ModelPath, json_option, parse_shape, quiet_option, verbose_option

EPILOG = """\b
Examples:
  convt-onnx build decoder.onnx -o decoder.engine
  convt-onnx build vocoder.onnx --min mel:1,80,10 --opt mel:1,80,200 --max mel:1,80,2000
  convt-onnx build decoder.onnx --backend tensorrt-rtx --compute-capability 89 --json
"""


F = TypeVar("F", bound=Callable[..., Any])


def _range(option: str, text: str) -> Callable[[F], F]:
    return click.option(
        f"--{option}", f"{option}s", multiple=True, metavar="NAME:1,80,100", help=text
    )


@click.command("build", epilog=EPILOG)
@click.argument("model", type=ModelPath)
@click.option(
    "-o", "--output", type=ModelPath, help="Where to write.  [default: MODEL's stem + .engine]"
)
@click.option(
    "--backend",
    default="auto",
    show_default=True,
    shell_complete=completing(backends),
    help="tensorrt, tensorrt-rtx, or auto: what is installed.",
)
@_range("min", "Smallest shape of an open input; a second --min is for a second profile.")
@_range("opt", "Usual shape; the engine is tuned for it.")
@_range("max", "Largest shape.")
@click.option("--inputs", type=ModelPath, metavar="FILE.npz", help="Arrays to verify with.")
@click.option(
    "--optimize/--no-optimize", default=True, show_default=True, help="Rewrite the model first."
)
@click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="Compare model and parsed network.",
)
@click.option(
    "--plugin",
    default="off",
    show_default=True,
    metavar="MODE",
    shell_complete=completing(plugin_modes),
    help="Layers that run this project's kernels: off; python, where this package is installed; "
    "aot, in the engine itself (TensorRT 10.9); auto.",
)
@click.option(
    "--override",
    is_flag=True,
    help="Parse MODEL as it is, with the plugin in place of every ConvTranspose.",
)
@click.option("--timing-cache", type=ModelPath, help="A file of timings, read and written.")
@click.option(
    "--compute-capability",
    "capabilities",
    multiple=True,
    metavar="89",
    help="GPU generation to build for; may be repeated (TensorRT-RTX).",
)
@click.option(
    "--hardware-compatibility",
    metavar="LEVEL",
    help="ampere_plus or same_compute_capability: run on other GPUs too.",
)
@click.option(
    "--version-compatible", is_flag=True, help="Let later versions of TensorRT load the engine."
)
@click.option("--memory", type=click.IntRange(1), metavar="MIB", help="Workspace for layers.")
@click.option(
    "--optimization-level", type=int, metavar="0-5", help="How long the builder searches."
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@json_option
@quiet_option
@verbose_option
def command(
    model: Path,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: int,
    **choices: Any,
) -> None:
    """Build a TensorRT or TensorRT-RTX engine from MODEL.

    The ConvTranspose nodes are rewritten for the backend first, and the network that its parser
    makes is compared with the model. Prints the path of the engine. TensorRT-RTX builds without a
    GPU.
    """
    from convt_onnx.cli import output as out
    from convt_onnx.engine import build_engine
    from convt_onnx.engine.progress import watching
    from convt_onnx.report.as_json import document
    from convt_onnx.report.engine_tables import build_table
    from convt_onnx.report.printable import escape

    console = out.console(quiet=quiet)
    echo = (lambda line: console.print(escape(line))) if verbose > 0 else None
    options = _options(choices, echo)
    with out.progress(console) as steps:
        result = build_engine(
            model,
            output,
            options,
            progress=steps,
            monitor=lambda backend: watching(backend, steps.bar),
        )
    build_table(console, result, verbose=verbose > 0)
    if as_json:
        out.print_json(document("build", result=result))
    else:
        click.echo(result.engine)


def _options(choices: dict[str, Any], echo: Any) -> Any:
    from convt_onnx.engine import BuildOptions
    from convt_onnx.engine.config import Settings
    from convt_onnx.engine.profiles import read_profiles

    settings = Settings(
        timing_cache=choices["timing_cache"],
        compute_capabilities=choices["capabilities"],
        hardware_compatibility=choices["hardware_compatibility"],
        version_compatible=choices["version_compatible"],
        memory_mib=choices["memory"],
        optimization_level=choices["optimization_level"],
    )
    ranges = [
        [parse_shape(text, f"--{option}") for text in choices[f"{option}s"]]
        for option in ("min", "opt", "max")
    ]
    return BuildOptions(
        backend=choices["backend"],
        optimize=choices["optimize"],
        verify=choices["verify"],
        plugin="auto" if choices["override"] and choices["plugin"] == "off" else choices["plugin"],
        override=choices["override"],
        profiles=read_profiles(*ranges),
        settings=settings,
        inputs=choices["inputs"],
        force=choices["force"],
        echo=echo,
    )
