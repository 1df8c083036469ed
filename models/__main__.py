"""Writes the tiny files that come with the package: `python -m convt_onnx.models [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from convt_onnx.errors import ConvtError
from convt_onnx.models import export


def write_tiny_files(folder: Path) -> list[Path]:
    """Exports the three tiny files into `folder`, the same bytes each time."""
    return [
        export("fcn8s", folder / "fcn8s_tiny.onnx"),
        # This exporter leaves weight_norm's arithmetic in a graph of any size.
        export("hifigan", folder / "hifigan_tiny.onnx", dynamic=True, exporter="torchscript"),
        export("unet", folder / "unet_tiny.onnx", dynamic=True),
    ]


def main() -> int:
    """Writes the files beside this one, or into the folder given, and prints their sizes."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    try:
        written = write_tiny_files(folder)
    except ConvtError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit_code)
    for path in written:
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
