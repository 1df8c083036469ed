"""What `optimize` says of tuning, and its options."""

from __future__ import annotations

import pytest

from ..folder import names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tune-seconds", "0"], ["positive number of seconds", "--tune-seconds 0", "--no-tune"]),
        (["--tune-seconds", "nan"], ["positive number of seconds"]),
        (["--threads", "-1"], ["must not be negative", "--threads -1"]),
    ],
)
def test_tuning_options_that_make_no_sense(convt, source, tmp_path, arguments, words):
    convt("optimize", source, *arguments).check_failed(2, *words)
    assert names(tmp_path) == ["model.onnx"]


def test_tuning_for_a_target_that_cannot_be_timed(convt, source, tmp_path):
    done = convt("optimize", source, "--target", "portable", "--tune")
    done.check_failed(3, "nothing can be timed for target 'portable'", "--no-tune")
    assert names(tmp_path) == ["model.onnx"]
    assert convt("optimize", source, "--target", "portable", "--no-tune").code == 0


def test_tuning_is_in_the_document(convt, source, tmp_path, fake_runtime):
    fake_runtime({"ConvTranspose": 0.04}, rest=0.01)
    done = convt("optimize", source, "--json", "--threads", "2", "--tune-cache", tmp_path / "c")
    tuning = done.json["result"]["tuning"]
    assert (tuning["runtime"], tuning["threads"], tuning["rule"]) == ("fake 1.0", 2, "worst")
    assert [n["path"] for n in tuning["nodes"]] == ["up", "down"]
    for decision in done.json["result"]["decisions"]:
        assert decision["reason"]["id"] == "CT602"
        assert decision["before"]["median_us"] == pytest.approx(4 * decision["after"]["median_us"])
    assert len(list((tmp_path / "c").iterdir())) == 2


def test_where_nothing_is_faster_the_copy_says_so(convt, source, tmp_path, fake_runtime):
    fake_runtime({"ConvTranspose": 0.01}, rest=0.01)
    done = convt("optimize", source, "--tune-cache", tmp_path / "c")
    out = source.with_name("model.convt.onnx")
    assert "a copy: nothing is faster" in done.err
    assert done.err.count("CT601") == 2
    assert out.read_bytes() == source.read_bytes()


def test_a_dry_run_makes_no_cache_and_uses_one(convt, source, tmp_path, fake_runtime):
    fake_runtime({"ConvTranspose": 0.04}, rest=0.01)
    options = ("optimize", source, "--dry-run", "--tune-cache", tmp_path / "c")
    assert convt(*options).code == 0
    assert names(tmp_path) == ["model.onnx"]
    (tmp_path / "c").mkdir()
    assert convt(*options).code == 0
    assert len(names(tmp_path / "c")) == 2


def test_a_cache_in_no_folder_is_refused(convt, source, tmp_path, fake_runtime):
    fake_runtime({"ConvTranspose": 0.04}, rest=0.01)
    done = convt("optimize", source, "--tune-cache", tmp_path / "none" / "c")
    done.check_failed(2, f"the folder {tmp_path / 'none'} does not exist")
    assert names(tmp_path) == ["model.onnx"]
