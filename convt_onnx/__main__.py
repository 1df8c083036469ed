"""The entry point: `convt-onnx` and `python -m convt_onnx`."""

from __future__ import annotations

import sys

# As shells count: 128 and the number of SIGINT.
INTERRUPTED = 130


def main() -> None:
    """Run the command line; an interrupt is one line, also while modules are loading."""
    try:
        from convt_onnx.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
