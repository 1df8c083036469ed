"""The plugin among the forms that are timed, on a target that takes it."""

from __future__ import annotations

import onnxruntime as ort
import pytest

from convt_onnx.ort.provider import cuda_works
from convt_onnx.ort.registration import Registration
from convt_onnx.plugin_node import DOMAIN
from convt_onnx.tuning import ort as timing
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.verify.session import RunError, Source

from ..graph.building import array, model, op_types

# Virtual seconds: what is equally fast is timed until they have passed.
BRIEF = TuneOptions(seconds=2000)
TEXT = """g (float[2,16,9,8] x) => (float[A,B,C,D] y) {
  [up] h = ConvTranspose <strides=[2,2]> (x, w) [act] y = Relu (h) }"""


@pytest.fixture
def proto():
    return model(TEXT, w=array(16, 8, 3, 3))


def is_plugin(proto):
    return any(n.domain == DOMAIN for n in proto.graph.node)


def by_kind(plugin, keep, other=9.0):
    """Seconds of a model with a plugin node, of one with a ConvTranspose, of any other."""

    def speed(proto):
        if is_plugin(proto):
            return plugin
        return keep if "ConvTranspose" in op_types(proto) else other

    return speed


def test_the_plugin_is_timed_against_the_other_forms(tuned, proto):
    result = tuned(proto, by_kind(1.0, 2.0), target="ort-cuda", plugin=True, tune=BRIEF)
    (decision,) = result.decisions
    assert decision.form == "plugin"
    (node,) = result.tuning.nodes
    assert {"keep", "plugin", "phases"} <= {f.form for f in node.forms}
    timed = [p for p in tuned.loaded if p.graph.name == "node" and is_plugin(p)]
    assert all(p.functions and p.ir_version >= 10 for p in timed)
    assert timed


def test_a_plugin_that_cannot_be_registered_is_not_timed_as_its_function(
    tuned, proto, monkeypatch, tmp_path
):
    tuned(proto, by_kind(1.0, 2.0), target="ort-cuda", plugin=True, tune=BRIEF)
    one = next(p for p in tuned.loaded if is_plugin(p))
    refused = Registration(tmp_path, False, "Triton is not installed")
    monkeypatch.setattr("convt_onnx.ort.registration.register", lambda *given: refused)
    runtime = timing.OrtRuntime("CPUExecutionProvider", 1, "onnxruntime", "cpu")
    with pytest.raises(RunError) as caught:
        runtime.load(Source(one, tmp_path), {})
    assert caught.value.where == "Triton is not installed"


def test_kernels_are_compiled_before_the_time_runs(tuned, proto, tmp_path):
    slow = TuneOptions(seconds=2000, cache=tmp_path / "times")
    given = {"target": "ort-cuda", "plugin": True, "tune": slow, "prepare_seconds": 1e6}
    result = tuned(proto, by_kind(1.0, 2.0), **given)
    assert [d.form for d in result.decisions] == ["plugin"]
    assert result.tuning.seconds < 1e4
    single, whole = tuned.runtimes[-1].prepared
    assert (single.graph.name, whole.graph.name) == ("node", proto.graph.name)
    assert is_plugin(single)
    assert is_plugin(whole)
    again = tuned(proto, by_kind(1.0, 2.0), **given)
    assert again.tuning.nodes[0].cached
    assert [p.graph.name for p in tuned.runtimes[-1].prepared] == [proto.graph.name]


def test_a_provider_that_is_installed_but_does_not_start_times_nothing(monkeypatch, capsys):
    """ONNX Runtime makes a session on the CPU then, which is not what was asked for."""
    cuda_works.cache_clear()
    names = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: names)
    with pytest.warns(UserWarning, match="not in available provider names"):
        assert timing.ort_runtime("CUDAExecutionProvider", 0) is None
    assert timing.ort_runtime("CPUExecutionProvider", 0) is not None
    cuda_works.cache_clear()
    assert capsys.readouterr().out == ""
