"""Measured schedules on disk, and the measuring."""

import json

import pytest

from convt_onnx.plugins.conv_transpose import autotune, heuristics, op, tuned
from convt_onnx.plugins.conv_transpose.problem import Device
from convt_onnx.plugins.conv_transpose.schedule import GEMM, Schedule

from .drawing import problem


def test_a_measured_schedule_is_used_and_keyed_by_device_and_versions(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVT_ONNX_CACHE", str(tmp_path))
    tuned.choose.cache_clear()
    p, device = problem(), Device()
    other = Schedule(GEMM, (True,) * 3, (True,) * 3, 32, 32, 16)
    assert tuned.choose(p, device) == heuristics.choose(p, device)
    tuned.remember(p, device, other, 12.3)
    assert tuned.choose(p, device) == other
    assert tuned.choose(p, Device("another")) != other
    assert tuned.choose(problem(batch=9), device) != other
    monkeypatch.setattr(tuned, "installed_version", lambda name: "9.9")
    tuned.choose.cache_clear()
    assert tuned.choose(p, device) != other
    assert [f.name for f in tmp_path.iterdir()] == ["schedules.json"]


def test_autotune_is_bounded_and_needs_a_clear_win(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("CONVT_ONNX_CACHE", str(tmp_path))
    tuned.choose.cache_clear()
    spec = problem().spec
    x, w = torch.zeros(1, 64, 8, 8), torch.zeros(spec.weight_shape)
    timed = []

    def took(*arguments):
        timed.append(arguments[-1])
        return times[len(timed) - 1]

    monkeypatch.setattr(autotune, "_microseconds", took)
    times = [100.0, 99.0, float("inf"), 80.0, 79.5]
    best = autotune.autotune(x, w, None, spec, limit=5)
    assert best == timed[3]
    assert len(timed) == len(set(timed)) == 5
    assert tuned.choose(op.make_problem(x, spec), op.device_of(x)) == best
    timed.clear()
    autotune.autotune(x, w, None, spec, limit=5, seconds=0.0)
    assert len(timed) == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', b"\xff\xfe\x00"])
def test_a_corrupt_cache_is_ignored_with_a_warning_and_replaced(text, tmp_path, monkeypatch):
    monkeypatch.setenv("CONVT_ONNX_CACHE", str(tmp_path))
    tuned.choose.cache_clear()
    file = tmp_path / "schedules.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.warns(UserWarning, match="ignored"):
        assert tuned.choose(problem(), Device()) == heuristics.choose(problem(), Device())
    with pytest.warns(UserWarning, match="ignored"):
        tuned.remember(problem(), Device(), heuristics.choose(problem(), Device()), 1.0)
    assert json.loads(file.read_text())


def test_a_corrupt_entry_is_ignored_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVT_ONNX_CACHE", str(tmp_path))
    tuned.choose.cache_clear()
    content = {tuned.section_key(Device()): {tuned.problem_key(problem()): {"schedule": [1]}}}
    (tmp_path / "schedules.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="ignored"):
        assert tuned.choose(problem(), Device()) == heuristics.choose(problem(), Device())
