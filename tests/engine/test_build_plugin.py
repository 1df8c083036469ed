"""`build --plugin` and `--override`."""

from __future__ import annotations

from types import ModuleType

import pytest

from convt_onnx.engine import Backend, BuildOptions, build_engine
from convt_onnx.engine.plugins import choose_mode
from convt_onnx.engine.profiles import read_profiles
from convt_onnx.errors import GeometryError, MissingPartError, UsageError

from ..graph.building import array, model, write
from ..shared_models import INVALID, MODELS, inputs_beside, label
from .shared_models import IMPOSSIBLE, profile

CASES = [p for p in MODELS if "cases" in p.values[0].parts]


@pytest.fixture
def build(rtx, tmp_path):
    def call(proto, **options):
        source = write(proto, tmp_path)
        options = BuildOptions(backend="tensorrt-rtx", **({"plugin": "python"} | options))
        return build_engine(source, options=options)

    return call


def two(dilation=2):
    text = f"""g (float[N,4,L] x) => (float[] y) {{
        a = ConvTranspose <strides=[2], dilations=[{dilation}], pads=[1,2]> (x, w, b)
        r = LeakyRelu <alpha=0.2> (a)
        y = ConvTranspose <strides=[3], auto_pad="SAME_UPPER", output_padding=[1]> (r, v)
    }}"""
    return model(text, w=array(4, 6, 5), b=array(6), v=array(6, 2, 4))


RANGES = read_profiles([("x", (1, 4, 3))], [("x", (2, 4, 9))], [("x", (4, 4, 50))])


class TestPlugin:
    def test_nodes_become_layers_that_are_proven(self, build):
        result = build(two(), profiles=RANGES)
        assert result.plugin == "python"
        assert result.kinds["PLUGIN_V3"] == 2
        assert "DECONVOLUTION" not in result.kinds
        assert {d.form for d in result.decisions} == {"plugin"}
        assert result.proof.ok

    def test_auto_is_python_where_there_is_nothing_else(self, build):
        assert build(two(), profiles=RANGES, plugin="auto").plugin == "python"

    def test_off_is_the_default(self, build):
        result = build(two(), profiles=RANGES, plugin="off")
        assert "PLUGIN_V3" not in result.kinds

    def test_a_wrong_body_is_found(self, build, monkeypatch):
        from convt_onnx.engine import simulate_plugins

        run = simulate_plugins._Rule.__call__
        monkeypatch.setattr(
            simulate_plugins._Rule, "__call__", lambda self, inputs: 1.01 * run(self, inputs)
        )
        with pytest.raises(Exception, match="does not compute what the model computes"):
            build(two(), profiles=RANGES)


class TestOverride:
    @pytest.mark.parametrize("dilation", [1, 2])
    def test_the_model_is_parsed_as_it_is(self, build, dilation):
        result = build(two(dilation), profiles=RANGES, override=True)
        assert (result.decisions, result.kinds["PLUGIN_V3"]) == ((), 2)
        assert result.proof.ok

    def test_an_empty_bias_is_none(self, build):
        proto = two()
        proto.graph.node[2].input.append("")
        assert list(proto.graph.node[2].input) == ["r", "v", ""]
        result = build(proto, profiles=RANGES, override=True)
        assert (result.decisions, result.kinds["PLUGIN_V3"]) == ((), 2)
        assert result.proof.ok

    def test_needs_a_plugin_in_python(self, build):
        for mode in ("off", "aot"):
            with pytest.raises(UsageError, match="the override needs the plugin"):
                build(two(), profiles=RANGES, override=True, plugin=mode)

    def test_leaves_later_builds_alone(self, build):
        build(two(1), profiles=RANGES, override=True)
        result = build(two(1), profiles=RANGES, plugin="off", force=True)
        assert "PLUGIN_V3" not in result.kinds


class TestMode:
    def module(self, version, *members):
        made = ModuleType("tensorrt")
        made.__version__ = version
        for name in members:
            setattr(made, name, object())
        return Backend("tensorrt", made)

    def test_auto_takes_what_the_engine_can_hold(self):
        able = self.module("10.13.2", "QuickPluginCreationRequest", "IPluginV3QuickAOTBuild")
        assert choose_mode(able, "auto", override=False) == "aot"
        assert choose_mode(able, "auto", override=True) == "python"
        assert choose_mode(self.module("10.3.0"), "auto", override=False) == "python"

    def test_ahead_of_time_where_there_is_none(self):
        with pytest.raises(MissingPartError, match="no ahead-of-time plugins"):
            choose_mode(self.module("10.3.0"), "aot", override=False)

    def test_an_unknown_mode(self):
        with pytest.raises(UsageError, match="no plugin mode 'jit'"):
            choose_mode(self.module("10.13.2"), "jit", override=False)

    def test_ahead_of_time_networks_say_so(self):
        backend = self.module("10.13.2")
        members = {"STRONGLY_TYPED": 1, "PREFER_AOT_PYTHON_PLUGINS": 3}
        backend.module.NetworkDefinitionCreationFlag = type("F", (), members)
        assert backend.network_flags() == 2
        assert backend.network_flags(aot=True) == 10


def assert_builds_with_plugin(path, folder):
    ranges = profile(path)
    options = BuildOptions(
        backend="tensorrt-rtx",
        plugin="python",
        profiles=(ranges,) if ranges else (),
        inputs=inputs_beside(path),
    )
    if path.parent.name.startswith(INVALID):
        with pytest.raises(GeometryError):
            build_engine(path, folder / "e", options)
        return
    result = build_engine(path, folder / "e", options)
    taken = sum(d.form == "plugin" for d in result.decisions)
    assert result.kinds.get("PLUGIN_V3", 0) == taken
    assert result.proof.ok is not False


@pytest.mark.skipif(not MODELS, reason="the shared cases are not beside the checkout")
@pytest.mark.parametrize("path", CASES, ids=label)
def test_every_case_builds_with_the_plugin(rtx, path, tmp_path):
    assert_builds_with_plugin(path, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("path", [p for p in MODELS if p not in CASES], ids=label)
def test_the_corpus_builds_with_the_plugin(rtx, path, tmp_path):
    if path.stem in IMPOSSIBLE:
        pytest.skip("TensorRT cannot read it")
    assert_builds_with_plugin(path, tmp_path)
