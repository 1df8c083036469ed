"""`python -m convt_onnx`."""

from convt_onnx.cli import main

main()
