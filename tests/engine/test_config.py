"""What only TensorRT itself has or lacks. It is not here: the builder is a stand-in."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from convt_onnx.engine.backend import Backend
from convt_onnx.engine.config import MIB, Settings, configure, save_timing_cache
from convt_onnx.engine.network import Network, parse
from convt_onnx.errors import MissingPartError, UsageError


class Config:
    """A builder configuration of TensorRT: no compute capabilities, a timing cache."""

    def __init__(self, takes_cache=True) -> None:
        self.flags: list[str] = []
        self.limits: dict[str, int] = {}
        self.cache: bytes | None = None
        self.takes_cache = takes_cache

    def set_flag(self, flag):
        self.flags.append(flag)

    def set_memory_pool_limit(self, pool, count):
        self.limits[pool] = count

    def create_timing_cache(self, content):
        return content

    def set_timing_cache(self, cache, ignore_mismatch):
        self.cache = cache
        return self.takes_cache and not ignore_mismatch

    def get_timing_cache(self):
        return SimpleNamespace(serialize=lambda: b"measured")


def members(*names):
    return SimpleNamespace(__members__={n: n for n in names}, **{n: n for n in names})


MODULE = SimpleNamespace(
    __version__="10.13.2.6",
    ProfilingVerbosity=members("DETAILED"),
    MemoryPoolType=members("WORKSPACE"),
    BuilderFlag=members("VERSION_COMPATIBLE"),
    HardwareCompatibilityLevel=members("NONE", "AMPERE_PLUS"),
)


@pytest.fixture
def network():
    config = Config()
    builder = SimpleNamespace(create_builder_config=lambda: config)
    backend = Backend("tensorrt", MODULE)
    return Network(backend, SimpleNamespace(num_inputs=0), builder, None, None)


def test_settings_reach_the_builder(network, tmp_path):
    path = tmp_path / "cache"
    path.write_bytes(b"old")
    settings = Settings(
        timing_cache=path,
        hardware_compatibility="ampere_plus",
        version_compatible=True,
        memory_mib=256,
        optimization_level=4,
    )
    config = configure(network, settings, ())
    assert config.flags == ["VERSION_COMPATIBLE"]
    assert config.limits == {"WORKSPACE": 256 * MIB}
    assert config.hardware_compatibility_level == "AMPERE_PLUS"
    assert config.builder_optimization_level == 4
    assert config.cache == b"old"
    assert save_timing_cache(config, path) == b"measured"
    assert settings.plugin_capability == 80


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("optimization_level", 6),
        ("optimization_level", -1),
        ("hardware_compatibility", "ada_plus"),
        ("compute_capabilities", ("89", "sm_")),
        ("compute_capabilities", ("8",)),
    ],
)
def test_values_that_no_version_takes(option, value):
    with pytest.raises(UsageError) as error:
        Settings(**{option: value})
    named = f"--{option.replace('_', '-').replace('capabilities', 'capability')}"
    assert error.value.where.startswith(named)
    assert error.value.help


def test_nothing_is_set_that_is_not_asked_for(network):
    config = configure(network, Settings(), ())
    assert (config.flags, config.limits, config.cache) == ([], {}, None)
    assert not hasattr(config, "hardware_compatibility_level")
    assert save_timing_cache(config, None) is None
    assert Settings().plugin_capability is None


def test_a_new_timing_cache_starts_empty(network, tmp_path):
    assert configure(network, Settings(timing_cache=tmp_path / "new"), ()).cache == b""


def test_a_timing_cache_of_another_device(network, tmp_path):
    config = Config(takes_cache=False)
    network.builder.create_builder_config = lambda: config
    with pytest.raises(UsageError, match="of another device or version"):
        configure(network, Settings(timing_cache=tmp_path / "c"), ())


def test_compute_capabilities_are_of_rtx_alone(network):
    with pytest.raises(UsageError, match="builds for the GPU that it runs on"):
        configure(network, Settings(compute_capabilities=("89",)), ())


@pytest.mark.parametrize("text", ["89", "8.9", "sm_89", "SM89"])
def test_spellings_of_a_capability(text):
    assert Settings(compute_capabilities=(text, "120")).plugin_capability == 89


class TestParsing:
    def backend(self, **parts):
        return Backend("tensorrt", SimpleNamespace(**(vars(MODULE) | parts)))

    class ILogger:
        def __init__(self) -> None:
            pass

    def test_without_a_gpu_tensorrt_has_no_builder(self, tmp_path):
        def builder(log):
            log.log(SimpleNamespace(name="ERROR"), "CUDA initialization failure with error: 100")
            raise TypeError("pybind11::init(): factory function returned nullptr")

        backend = self.backend(ILogger=self.ILogger, Builder=builder)
        with pytest.raises(MissingPartError, match=r"TensorRT 10\.13\.2\.6 cannot build") as error:
            parse(backend, tmp_path / "m.onnx")
        assert "CUDA initialization failure" in error.value.where
        assert error.value.exit_code == 3

    def test_old_parsers_have_no_override(self, tmp_path):
        backend = self.backend(
            ILogger=self.ILogger,
            Builder=lambda log: SimpleNamespace(create_network=lambda flags: flags),
            OnnxParser=lambda definition, log: SimpleNamespace(),
            OnnxParserFlag=SimpleNamespace(),
            NetworkDefinitionCreationFlag=SimpleNamespace(STRONGLY_TYPED=1),
        )
        with pytest.raises(UsageError, match="standard operator's place") as error:
            parse(backend, tmp_path / "m.onnx", override=True)
        assert error.value.where == "--override"
