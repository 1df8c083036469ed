"""The version, read by the build and by `convt-onnx --version`."""

__version__ = "0.1.0"
