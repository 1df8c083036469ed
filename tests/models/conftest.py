from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Keeps torch on one thread: these models are too small to share, and waiting costs more."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
