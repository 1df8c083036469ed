"""The entry point: `convt-onnx` and `python -m convt_onnx`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

# As shells count: 128 and the number of SIGINT.
INTERRUPTED = 130


def main() -> None:
    """Run the command line; an interrupt is one line, also while modules are loading."""
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        from convt_onnx.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; end at once in an import, where protobuf crashes on exceptions.

    Not once onnx has loaded: commands import more while files lie aside that they clean up.
    """
    if not hasattr(sys.modules.get("onnx"), "load") and _is_importing(frame):
        os.write(2, b"interrupted\n")
        os._exit(INTERRUPTED)
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    main()
