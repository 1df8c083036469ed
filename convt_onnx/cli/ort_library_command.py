"""`convt-onnx ort-library`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convt_onnx.cli.options import ModelPath, json_option, quiet_option, verbose_option
from convt_onnx.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from convt_onnx.ort.library import BuiltLibrary

EPILOG = """\b
Examples:
  convt-onnx ort-library -o libconvt_ort.so decoder.onnx
  convt-onnx ort-library -o libconvt_ort.so --compute-capability 90 decoder.onnx vocoder.onnx
"""


@click.command("ort-library", epilog=EPILOG)
@click.argument("models", nargs=-1, type=ModelPath)
@click.option("-o", "--output", type=ModelPath, required=True, help="Where to write.")
@click.option(
    "--compute-capability",
    "capabilities",
    multiple=True,
    metavar="90",
    help="GPU generation to compile for; may be repeated.  "
    "[default: of this machine's devices, else 80 and 90]",
)
@click.option(
    "--ort-include",
    type=ModelPath,
    metavar="DIR",
    help="Compile against the onnxruntime_c_api.h in DIR.  [default: own declarations]",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes that compile kernels.",
)
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@json_option
@quiet_option
@verbose_option
def command(
    models: tuple[Path, ...],
    output: Path,
    capabilities: tuple[str, ...],
    ort_include: Path | None,
    jobs: int,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Build the custom-op library for ONNX Runtime, with the kernels of MODELS' plugin nodes.

    Applications in any language register it: RegisterCustomOpsLibrary_V2 in C and C++,
    SessionOptions.RegisterCustomOpLibraryV2 in C#. Python takes it through convt_onnx.register.
    Prints the path of the library.
    """
    from convt_onnx.cli import output as out
    from convt_onnx.model_io import check_new_file
    from convt_onnx.ort.library import build_library
    from convt_onnx.report.as_json import document

    check_new_file(output, *models, force=force)
    console = out.console(quiet=quiet)
    with out.progress(console) as step:
        built = build_library(
            output, models, _numbers(capabilities), ort_include, processes=jobs, progress=step
        )
    _tell(console, built)
    if as_json:
        out.print_json(document("ort-library", result=built))
    else:
        click.echo(built.path)


def _tell(console: Console, built: BuiltLibrary) -> None:
    """What is in the library, and for which models there was nothing to put in."""
    console.print(
        f"{built.kernels} kernels for compute capabilities "
        f"{', '.join(map(str, built.capabilities))}, {built.bytes / 1024:,.0f} KiB"
    )
    if not built.kernels and not built.without_nodes:
        console.print("  note: no model was named, so the library has no kernels for any device")
    for model in built.without_nodes:
        console.print(
            f"  note: {model} has no plugin nodes, so no kernel is here for it; "
            f"`convt-onnx optimize {model} --target ort-cuda --plugin` writes them",
            markup=False,
            soft_wrap=True,
        )


def _numbers(words: tuple[str, ...]) -> tuple[int, ...]:
    """9.0 and 90 as 90."""
    digits = [w.replace(".", "") for w in words]
    for word, number in zip(words, digits, strict=True):
        if not number.isdecimal():
            raise UsageError(
                f"cannot read the compute capability {word!r}",
                where="--compute-capability",
                help="--compute-capability 90 for 9.0",
            )
    return tuple(dict.fromkeys(map(int, digits)))
