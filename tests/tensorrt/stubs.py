"""Libraries with the symbols that TensorRT's Python bindings link, and nothing behind them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

LIBRARIES = ("nvinfer", "nvonnxparser", "nvinfer_plugin")
SYMBOLS = (
    "createInferBuilder_INTERNAL",
    "createInferRefitter_INTERNAL",
    "createInferRuntime_INTERNAL",
    "createNvOnnxParser_INTERNAL",
    "createNvOnnxParserRefitter_INTERNAL",
    "getBuilderPluginRegistry",
    "getPluginRegistry",
    "getNvOnnxParserVersion",
    "initLibNvInferPlugins",
)


def compiler() -> str | None:
    """A C compiler, where there is one."""
    return shutil.which("cc") or shutil.which("gcc")


def make_stubs(folder: Path, major: int) -> Path:
    """The libraries for one major version of TensorRT; every function returns 0."""
    folder.mkdir()
    source = folder.parent / "stubs.c"
    source.write_text("".join(f"void *{name}(void) {{ return 0; }}\n" for name in SYMBOLS))
    for library in LIBRARIES:
        name = f"lib{library}.so.{major}"
        command = [compiler(), "-shared", "-fPIC", f"-Wl,-soname,{name}", source]
        subprocess.run([*command, "-o", folder / name], check=True)
    return folder


if __name__ == "__main__":
    import sys

    make_stubs(Path(sys.argv[1]), int(sys.argv[2]))
