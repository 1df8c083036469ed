from __future__ import annotations

import random
from collections import Counter
from functools import partial
from itertools import pairwise, repeat

import pytest

from convt_onnx.tuning.choosing import measured
from convt_onnx.tuning.race import HOPELESS_AFTER, SURE, WARM_UP, Limits, Race
from convt_onnx.verify.session import RunError

from .faking import Clock, FakeTimed, chosen, loaders


def race(clock=None, *, seconds=1e6, rounds=100, least=1, log=None, **times):
    clock = clock or Clock()
    found = Race(loaders(clock, log, **times), Limits(seconds, rounds, least), clock)
    found.run()
    return found


def noisy(seconds, seed, spread=0.3):
    """Times that are longer at random, as on a busy machine."""
    rng = random.Random(seed)
    return [seconds * (1 + spread * rng.random() ** 4) for _ in range(1000)]


def rounds_of(log, names):
    """The order of each round, warm-up left out."""
    turns = log[WARM_UP * names :]
    return [tuple(turns[i : i + names]) for i in range(0, len(turns), names)]


def test_nobody_follows_itself_or_always_the_same():
    log = []
    race(rounds=60, log=log, keep=[1.0], b=[1.0, 1.01, 1.001], c=[1.0, 1.02, 1.001, 0.99])
    rounds = rounds_of(log, 3)
    assert len(rounds) == 60
    assert {tuple(sorted(r)) for r in rounds} == {("b", "c", "keep")}
    turns = [name for r in rounds for name in r]
    assert not [(x, y) for x, y in pairwise(turns) if x == y]
    followers = Counter(pairwise(turns))
    assert len(followers) == 6
    assert min(followers.values()) > 15


def test_two_take_strict_turns():
    log = []
    race(rounds=30, log=log, keep=[1.0], b=[1.0, 1.01, 0.99, 1.001])
    assert set(rounds_of(log, 2)) == {("keep", "b")}


def test_warm_up_does_not_count():
    found = race(rounds=10, keep=[9.0, 9.0, *[1.0] * 100], b=[9.0, 9.0, *[0.5] * 100])
    assert max(found.samples["keep"]) == 1
    assert max(found.samples["b"]) == 0.5


def test_short_runs_are_timed_together():
    clock = Clock()
    found = race(clock, rounds=1, keep=[1e-4], b=[1e-5], c=[2e-4])
    assert found.samples["b"] == [pytest.approx(1e-5)]
    # As often in a row, whatever they take.
    assert {e.runs - WARM_UP for e in found.entries.values()} == {11}


def test_what_cannot_win_leaves_early():
    found = race(keep=noisy(1.0, 1), b=noisy(0.9, 2, 0.02), c=noisy(2.0, 3))
    assert len(found.samples["c"]) == HOPELESS_AFTER
    assert "times slower than b" in found.dropped["c"]
    assert chosen(found) == "b"


def test_what_is_far_slower_runs_once():
    found = race(keep=[1.0], b=[6.0], c=[0.5])
    assert found.entries["b"].runs == 1
    assert found.samples["b"] == []
    assert "first run" in found.dropped["b"]
    assert chosen(found) == "c"


def test_a_clear_winner_ends_it():
    found = race(keep=[1.0], b=[0.5])
    assert len(found.samples["keep"]) == len(found.samples["b"]) == 8
    assert chosen(found) == "b"


def test_whether_it_is_over_is_asked_now_and_then():
    # With 12 rounds one that was not faster could be one in a hundred.
    found = race(keep=[1.0], b=[1.0] * (WARM_UP + 1) + [0.5] * 99)
    assert len(found.samples["b"]) == 16
    assert chosen(found) == "b"


def test_who_is_behind_does_not_run_to_the_limit():
    found = race(keep=[1.0, 1.1, 0.9, 1.05], b=[1.1, 1.0, 1.06, 0.95, 1.02])
    assert found.ratio("keep", "b").median < 1
    assert len(found.samples["b"]) == SURE


def test_a_close_race_goes_on_to_the_limit():
    found = race(rounds=40, keep=[1.0, 1.1], b=[1.06, 1.0, 0.95])
    assert len(found.samples["keep"]) == 40


def test_a_draw_goes_to_the_first():
    found = race(keep=noisy(1.0, 1), b=noisy(1.0, 2), c=noisy(0.99, 3))
    assert chosen(found) == "keep"


def test_a_lead_within_the_margin_is_none():
    assert chosen(race(keep=[1.0], b=[0.98])) == "keep"
    assert chosen(race(keep=[1.0], b=[0.96])) == "b"


def test_equal_leaders_leave_one():
    found = race(keep=[1.0], b=[0.5], c=[0.499])
    assert chosen(found) == "b"
    assert len(found.dropped) == 1


def test_one_lucky_sample_does_not_end_what_is_ahead():
    lucky = [1.0] * (WARM_UP + 4) + [0.5] + [1.0] * 1000
    found = race(keep=lucky, b=noisy(0.9, 1, spread=0.4))
    assert not found.dropped
    assert chosen(found) == "b"


def test_time_runs_out():
    clock = Clock()
    found = race(clock, seconds=20.0, keep=[1.0, 1.2], b=[1.1, 1.0])
    assert 20 <= clock.now < 23
    assert len(found.samples["keep"]) == len(found.samples["b"])


def test_no_time_at_all_proves_nothing():
    found = race(seconds=0.0, keep=[1.0], b=[0.5])
    assert len(found.samples["keep"]) == 1
    assert chosen(found) == "keep"


def test_there_may_be_a_least():
    assert len(race(seconds=0.0, least=5, keep=[1.0, 1.1], b=[1.1, 1.0]).samples["b"]) == 5


class Failing:
    def seconds(self, runs):
        raise RunError("it does not run", where="told so", help="none")


def test_what_fails_is_dropped():
    clock = Clock()
    found = Race(loaders(clock, keep=[1.0]) | {"b": Failing}, Limits(1e6), clock)
    found.run()
    assert found.dropped == {"b": "it does not run: told so"}
    assert measured(found)["b"].time is None
    assert chosen(found) == "keep"


def test_the_first_must_run():
    clock = Clock()
    with pytest.raises(RunError):
        Race({"keep": Failing} | loaders(clock, b=[1.0]), Limits(1e6), clock).run()


@pytest.mark.parametrize("seed", range(20))
def test_the_same_choice_on_a_busy_machine(seed):
    found = race(keep=noisy(1.0, f"{seed} keep"), b=noisy(0.85, f"{seed} b"), c=noisy(0.84, seed))
    assert chosen(found) in ("b", "c")


def test_to_the_end_nobody_leaves():
    clock = Clock()
    found = Race(
        loaders(clock, a=[1.0], hopeless=[50.0], b=[0.5]),
        Limits(1e6, rounds=7),
        clock,
        to_the_end=True,
    )
    found.run()
    assert found.dropped == {}
    assert {len(samples) for samples in found.samples.values()} == {7}


def test_what_was_ahead_and_fails_later_is_not_chosen():
    clock = Clock()

    class Expiring(FakeTimed):
        def seconds(self, runs: int) -> float:
            if self.runs > 2 * SURE:
                raise RunError("no memory", where="GPU", help="none")
            return super().seconds(runs)

    entries = loaders(clock, keep=[1.0, 1.01], other=[1.2])
    entries["b"] = partial(Expiring, clock, repeat(0.5))
    found = Race(entries, Limits(1e6, 100), clock, to_the_end=True)
    found.run()
    assert found.dropped["b"] == "no memory: GPU"
    assert chosen(found) == "keep"
