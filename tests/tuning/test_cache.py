from __future__ import annotations

import json
import threading

import pytest

from convt_onnx.tuning.cache import MAX_SIZE, TimingCache
from convt_onnx.tuning.choosing import Measured
from convt_onnx.tuning.statistics import Ratio
from convt_onnx.tuning.times import Timing

KEY = {"spec": {"kernel": (4, 4), "group": 2}, "threads": 1, "runtime": "fake 1.0"}


def heats(time=10.0):
    return [
        {
            "keep": Measured(Timing(time, time - 1, time + 1, 12), Ratio(1, 1, 1)),
            "phases": Measured(Timing(5, 4, 6, 9), Ratio(2, 0.0, float("inf")), "left early"),
            "gemm": Measured(None, None, "it does not run"),
        }
    ]


@pytest.fixture
def cache(tmp_path):
    return TimingCache(tmp_path / "deep" / "cache")


def only_file(cache):
    (path,) = cache.folder.iterdir()
    return path


def test_what_was_put_comes_back(cache):
    assert cache.get(KEY) is None
    cache.put(KEY, heats())
    assert cache.get(KEY) == heats()
    assert TimingCache(cache.folder).get(json.loads(json.dumps(KEY))) == heats()
    assert cache.warnings == []


@pytest.mark.parametrize(
    "other",
    [{"threads": 2}, {"runtime": "fake 1.1"}, {"spec": {"kernel": (4, 5), "group": 2}}, {"x": 1}],
)
def test_another_question_has_another_answer(cache, other):
    cache.put(KEY, heats())
    assert cache.get(KEY | other) is None
    cache.put(KEY | other, heats(99))
    assert (cache.get(KEY), cache.get(KEY | other)) == (heats(), heats(99))


GOOD = {"time": {"median_us": 2, "low_us": 1, "high_us": 3, "runs": 8}, "speedup": None, "why": ""}


@pytest.mark.parametrize(
    "heat",
    [
        {"keep": {}},
        {"keep": GOOD | {"time": {"median_us": 2}}},
        {"keep": GOOD | {"time": GOOD["time"] | {"median_us": -2}}},
        {"keep": GOOD | {"time": GOOD["time"] | {"median_us": float("nan")}}},
        {"keep": GOOD | {"speedup": {"low": 3, "median": 2, "high": 1}}},
        {"keep": GOOD | {"speedup": 5}},
        {"keep": None},
        5,
    ],
)
def test_numbers_that_make_no_sense(cache, heat):
    cache.put(KEY, heats())
    document = json.loads(only_file(cache).read_text())
    only_file(cache).write_text(json.dumps(document | {"heats": [{"keep": GOOD}]}))
    assert cache.get(KEY)[0]["keep"].time.median_us == 2
    only_file(cache).write_text(json.dumps(document | {"heats": [heat]}))
    assert cache.get(KEY) is None
    assert len(cache.warnings) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100_000, b" " * (MAX_SIZE + 10), b"7"],
    ids=["empty", "cut", "list", "null", "nothing", "bytes", "deep", "long", "number"],
)
def test_a_corrupt_file_is_ignored_told_and_replaced(cache, content):
    cache.put(KEY, heats())
    only_file(cache).write_bytes(content)
    assert cache.get(KEY) is None
    (warning,) = cache.warnings
    assert str(only_file(cache)) in warning
    cache.put(KEY, heats(7))
    assert cache.get(KEY) == heats(7)


def test_a_file_of_another_question_or_version_is_not_an_answer(cache):
    cache.put(KEY, heats())
    document = json.loads(only_file(cache).read_text())
    for other in ({"key": {"threads": 9}}, {"schema_version": 2}):
        only_file(cache).write_text(json.dumps(document | other))
        assert cache.get(KEY) is None
    assert cache.warnings == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    cache = TimingCache(tmp_path / "file" / "cache")
    cache.put(KEY, heats())
    assert cache.get(KEY) is None
    assert any("cannot keep timings" in w for w in cache.warnings)


def test_many_writers_and_readers_at_once(cache):
    """Whoever reads sees one whole answer."""
    seen, start = [], threading.Barrier(8)

    def work(number):
        mine = TimingCache(cache.folder)
        start.wait()
        for _ in range(30):
            mine.put(KEY, heats(10.0 + number))
            seen.append(mine.get(KEY))
        assert mine.warnings == []

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(seen) == 8 * 30
    assert all(answer in [heats(10.0 + n) for n in range(8)] for answer in seen)
    assert [p.suffix for p in cache.folder.iterdir()] == [".json"]
