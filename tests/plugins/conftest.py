"""The kernels run in Triton's interpreter here, which must be chosen before they are imported."""

import os

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")

pytest.importorskip("torch", reason="the plugin needs torch")
pytest.importorskip("triton", reason="the plugin needs triton")
