from __future__ import annotations

import pytest

from convt_onnx.plugins.onnxruntime import build

from .nodes import Library


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The custom-op library, built with the system's C compiler and every warning an error."""
    path = tmp_path_factory.mktemp("library") / build.NAME
    build.build(path, flags=["-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion"])
    return Library(path)
