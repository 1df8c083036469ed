"""The kernels run in Triton's interpreter here: see tests/conftest.py."""

import pytest

pytest.importorskip("torch", reason="the plugin needs torch")
pytest.importorskip("triton", reason="the plugin needs triton")
