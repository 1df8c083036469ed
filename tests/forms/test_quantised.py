from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings

from .quantising import (
    applicable,
    assert_right,
    build,
    feed,
    lowered,
    make_parts,
    oracle,
    quantised,
    run,
)

BASE = settings(
    deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


def check(case):
    names = applicable(case)
    assume(names)
    parts = make_parts(case)
    proto = lowered(case, names, build(case, names, parts))
    onnx.checker.check_model(proto)
    feeds = {"x": feed(case)}
    wanted = oracle(case, parts, feeds)
    got = run(proto, feeds)
    for name in names:
        assert_right(case, parts, got[f"y_{name}"].astype(np.float64), wanted, name)


@pytest.mark.parametrize("shard", range(4))
def test_every_form_equals_the_oracle(shard):
    @seed(shard)
    @settings(BASE, max_examples=100)
    @given(quantised())
    def sweep(case):
        check(case)

    sweep()
