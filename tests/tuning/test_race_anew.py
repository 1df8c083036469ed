"""Races whose entries are loaded anew, as where their memory lies makes them faster or slower."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise, repeat

from convt_onnx.tuning.choosing import measured
from convt_onnx.tuning.race import SURE, WARM_UP, Limits, Race
from convt_onnx.verify.session import RunError

from .faking import Clock, FakeTimed, chosen, loaders


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
            raise RunError("it does not load", where="told so", help="none")
        return FakeTimed(clock, repeat(1.0))

    found = Race(loaders(clock, keep=[1.0]) | {"b": b}, Limits(1e6), clock, fresh=True)
    found.run()
    assert found.dropped == {"b": "it does not load: told so"}
    assert len(found.samples["keep"]) == 4
    assert measured(found)["b"].time is None
