from __future__ import annotations

import pytest

from convt_onnx.errors import UsageError
from convt_onnx.tuning.choosing import Measured, choose
from convt_onnx.tuning.options import SizeSet, TuneOptions
from convt_onnx.tuning.statistics import Ratio
from convt_onnx.tuning.times import Timing


def heat(first="keep", time=100.0, **speedups):
    """Times by form: `time` microseconds for the first, the rest as many times faster."""
    found = {first: Measured(Timing(time, time, time, 10), Ratio(1, 1, 1))}
    for form, speedup in speedups.items():
        low, middle, high = speedup if isinstance(speedup, tuple) else (speedup,) * 3
        micros = time / middle
        found[form] = Measured(Timing(micros, micros, micros, 10), Ratio(middle, low, high))
    return found


def test_the_fastest():
    assert choose([heat(a=1.2, b=1.5, c=1.1)]).form == "b"


def test_a_lead_must_be_proven():
    assert choose([heat(a=(0.9, 1.5, 2.0))]).form == "keep"
    assert choose([heat(a=(1.01, 1.5, 2.0))]).form == "a"


def test_where_the_node_itself_does_not_run_any_lead_will_do():
    assert choose([heat(first="a", b=(0.9, 1.5, 2.0))]).form == "b"


def test_what_was_not_timed_is_out():
    found = heat(a=1.2)
    found["b"] = Measured(None, None, "it does not run")
    assert choose([found]).form == "a"


def test_the_worst_size_decides():
    small, large = heat(a=1.1, b=0.9), heat(time=1000, a=1.2, b=3.0)
    assert choose([small, large]).form == "a"
    assert choose([small, large]).deciding == 0
    assert choose([large, small]).deciding == 1


def test_a_form_that_loses_at_one_size_is_out_without_weights():
    assert choose([heat(a=0.99), heat(a=5.0)]).form == "keep"


def test_weights_decide():
    small, large = heat(a=1.1, b=0.9), heat(time=1000, a=1.2, b=3.0)
    assert choose([small, large], [1, 1]).form == "b"
    assert choose([small, large], [1, 1]).deciding == 1
    # Nearly always small.
    found = choose([small, large], [1000, 1])
    assert (found.form, found.deciding) == ("a", 0)


def test_a_form_must_run_at_every_size():
    other = heat(a=1.1)
    other["b"] = Measured(None, None, "it does not run")
    assert choose([heat(a=1.1, b=2.0), other]).form == "a"


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_weights_are_positive(weight):
    with pytest.raises(UsageError, match="weight"):
        SizeSet({}, weight)


def test_all_sizes_have_a_weight_or_none():
    with pytest.raises(UsageError, match="some have none"):
        TuneOptions(sizes=(SizeSet({}, 1.0), SizeSet({})))
