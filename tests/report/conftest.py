from __future__ import annotations

import pytest

from .made_up import untimed, with_times


@pytest.fixture(scope="session")
def result(tmp_path_factory):
    """A run with made-up times, each node in a form of its own."""
    folder = tmp_path_factory.mktemp("result")
    return with_times(untimed(folder, forms={"up": "phases", "down": "conv"}))
