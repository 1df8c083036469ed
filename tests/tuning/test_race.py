from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise, repeat

import pytest

from convt_onnx.tuning.choosing import choose, measured
from convt_onnx.tuning.race import HOPELESS_AFTER, SURE, WARM_UP, Limits, Race
from convt_onnx.verify.session import RunError

from .faking import Clock, FakeTimed, loaders


def race(clock=None, *, seconds=1e6, rounds=100, least=1, log=None, **times):
    clock = clock or Clock()
    found = Race(loaders(clock, log, **times), Limits(seconds, rounds, least), clock)
    found.run()
    return found


def chosen(found):
    return choose([measured(found)]).form


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
        raise RunError("it does not run", where="told so")


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


@dataclass
class Lucky:
    """Loads things that take the same, each faster or slower for its life by chance."""

    clock: Clock
    rng: random.Random
    seconds: float = 0.0
    order: list[str] = field(default_factory=list)

    def loader(self, name):
        def load():
            self.order.append(name)
            self.clock.now += self.seconds
            luck = self.rng.choice([1.0, 1.1, 1.2])
            return FakeTimed(self.clock, (luck + 0.01 * self.rng.random() for _ in count()))

        return load


def lucky_race(seed=0, *, limits=None, load_seconds=0.0, **options):
    lucky = Lucky(Clock(), random.Random(seed), load_seconds)
    entries = {name: lucky.loader(name) for name in ("keep", "b")}
    found = Race(entries, limits or Limits(1e6, 40), lucky.clock, **options)
    found.run()
    return found, lucky.order


def test_luck_at_loading_decides_nothing():
    once = [chosen(lucky_race(seed)[0]) for seed in range(20)]
    anew = [chosen(lucky_race(seed, fresh=True)[0]) for seed in range(20)]
    assert "b" in once
    assert set(anew) == {"keep"}


def test_every_round_has_entries_of_its_own():
    found, order = lucky_race(limits=Limits(1e6, rounds=20), fresh=True, to_the_end=True)
    assert len(found.samples["b"]) == 20
    loads = list(zip(order[::2], order[1::2], strict=True))
    assert len(loads) == 20
    assert set(loads) == {("keep", "b"), ("b", "keep")}


def test_rounds_are_shared_out_over_the_loads_that_there_is_time_for():
    clock, loads = Clock(), count()

    def load():
        """Takes 10 s; what was loaded tells in its time which load it was."""
        clock.now += 10.0
        return FakeTimed(clock, repeat(1 + next(loads) / 1000))

    # A pair takes 25 s to load and warm up, 2 s to run: three more loads and their turns fit.
    limits = Limits(25 + 3 * 35 + 2.5 * SURE, rounds=99)
    found = Race({"keep": load, "b": load}, limits, clock, to_the_end=True, fresh=True)
    found.run()
    rounds = Counter(found.samples["keep"])
    assert len(rounds) == 4
    assert all(2 < n < SURE / 2 for n in rounds.values())
    assert sum(rounds.values()) == SURE


def test_a_race_ends_where_nothing_can_be_loaded_any_more():
    found, order = lucky_race(
        limits=Limits(1000.0, rounds=99), load_seconds=400.0, fresh=True, to_the_end=True
    )
    assert order == ["keep", "b"]
    assert len(found.samples["b"]) == SURE


def test_fresh_entries_run_several_turns_in_the_time_that_loading_takes():
    log = []
    clock = Clock()
    entries = loaders(clock, log, keep=[1.0, 1.1, 0.9], b=[1.0, 1.2, 1.1])

    def slowly(load):
        clock.now += 3.0
        return load()

    slow = {name: partial(slowly, load) for name, load in entries.items()}
    found = Race(slow, Limits(1e6, rounds=2), clock, to_the_end=True, fresh=True)
    found.run()
    assert {len(samples) for samples in found.samples.values()} == {2}
    first, renewed = log[2 * WARM_UP : 2 * WARM_UP + 2], log[2 * WARM_UP + 4 :]
    assert sorted(first) == ["b", "keep"]
    # Loading and two warm-up runs take 10 s, a turn 2.
    assert len(renewed) == 2 * 5
    assert not [(x, y) for x, y in pairwise(renewed) if x == y]


def test_what_does_not_load_again_is_dropped():
    clock = Clock()
    loads = count()

    def b():
        if next(loads) == 3:
            raise RunError("it does not load", where="told so")
        return FakeTimed(clock, repeat(1.0))

    found = Race(loaders(clock, keep=[1.0]) | {"b": b}, Limits(1e6), clock, fresh=True)
    found.run()
    assert found.dropped == {"b": "it does not load: told so"}
    assert len(found.samples["keep"]) == 4
    assert measured(found)["b"].time is None


def test_what_was_ahead_and_fails_later_is_not_chosen():
    clock = Clock()

    class Expiring(FakeTimed):
        def seconds(self, runs: int) -> float:
            if self.runs > 2 * SURE:
                raise RunError("no memory", where="GPU")
            return super().seconds(runs)

    entries = loaders(clock, keep=[1.0, 1.01], other=[1.2])
    entries["b"] = partial(Expiring, clock, repeat(0.5))
    found = Race(entries, Limits(1e6, 100), clock, to_the_end=True)
    found.run()
    assert found.dropped["b"] == "no memory: GPU"
    assert chosen(found) == "keep"
