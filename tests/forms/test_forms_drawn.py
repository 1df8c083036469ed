from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings

from .drawn import check, drawn

BASE = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


def sweep(shard, examples):
    """Draw and check; returns how many geometries were tried."""
    tried = []

    @seed(shard)
    @settings(BASE, max_examples=examples)
    @given(drawn())
    def run(case):
        check(case)
        tried.append(case)

    run()
    return len(tried)


@pytest.mark.parametrize("shard", range(4))
def test_every_form_equals_the_oracle(shard):
    assert sweep(shard, 520) >= 500


@pytest.mark.long
@pytest.mark.parametrize("shard", range(100, 110))
def test_every_form_equals_the_oracle_on_50000(shard):
    assert sweep(shard, 5100) >= 5000
