from __future__ import annotations

import sys
from types import ModuleType

import pytest

from convt_onnx.engine import backend
from convt_onnx.engine.backend import Backend, load_backend
from convt_onnx.errors import MissingPartError, UsageError, install


def module(name: str, version: str, **members) -> ModuleType:
    made = ModuleType(name)
    made.__version__ = version
    made.__spec__ = type("Spec", (), {"name": name})()
    for key, value in members.items():
        setattr(made, key, value)
    return made


@pytest.fixture
def installed(monkeypatch):
    """Pretends that these modules, and no other backends, are installed."""

    def install(**modules):
        for _, names, *_ in backend.KNOWN.values():
            for name in names:
                monkeypatch.setitem(sys.modules, name, modules.get(name))
        monkeypatch.setattr(
            backend.importlib.util, "find_spec", lambda name: modules.get(name) and object()
        )

    return install


class TestLoading:
    def test_auto_prefers_tensorrt(self, installed):
        installed(
            tensorrt=module("tensorrt", "10.13.2"), tensorrt_rtx=module("tensorrt_rtx", "1.7.1")
        )
        assert load_backend("auto").title == "TensorRT 10.13.2"

    def test_auto_takes_what_there_is(self, installed):
        installed(tensorrt_rtx_bindings=module("tensorrt_rtx_bindings", "1.7.1.116"))
        loaded = load_backend("auto")
        assert (loaded.name, loaded.version) == ("tensorrt-rtx", (1, 7, 1, 116))

    def test_nothing_installed_says_what_to_install(self, installed):
        installed()
        with pytest.raises(MissingPartError) as error:
            load_backend("auto")
        assert install("tensorrt-rtx") in error.value.help

    def test_the_one_asked_for_is_missing(self, installed):
        installed(tensorrt_rtx=module("tensorrt_rtx", "1.7.1"))
        with pytest.raises(MissingPartError, match="TensorRT is not installed") as error:
            load_backend("tensorrt")
        assert error.value.help == install("tensorrt")

    def test_an_old_version_is_refused(self, installed):
        installed(tensorrt=module("tensorrt", "8.6.1"))
        with pytest.raises(MissingPartError, match=r"TensorRT 8\.6\.1 is too old") as error:
            load_backend("tensorrt")
        assert "at least 10.0" in error.value.help

    def test_bindings_without_libraries_say_so(self, installed, monkeypatch):
        installed(tensorrt=module("tensorrt", "10.13.2"))

        def fail(name):
            raise ImportError("libnvinfer.so.10: cannot open shared object file")

        monkeypatch.setattr(backend.importlib, "import_module", fail)
        with pytest.raises(MissingPartError, match="does not load") as error:
            load_backend("tensorrt")
        assert "libnvinfer.so.10" in error.value.where

    def test_an_unknown_backend_gets_a_suggestion(self):
        with pytest.raises(UsageError) as error:
            load_backend("tensort")
        assert "tensorrt" in error.value.help


class TestDifferences:
    def flags(self, **numbers):
        return type("NetworkDefinitionCreationFlag", (), numbers)

    def test_network_flags_follow_the_numbers_of_the_version(self):
        ten = module("t", "10.9", NetworkDefinitionCreationFlag=self.flags(STRONGLY_TYPED=1))
        eleven = module("t", "11.4", NetworkDefinitionCreationFlag=self.flags(STRONGLY_TYPED=0))
        both = module(
            "t",
            "10.3",
            NetworkDefinitionCreationFlag=self.flags(EXPLICIT_BATCH=0, STRONGLY_TYPED=1),
        )
        assert [Backend("tensorrt", m).network_flags() for m in (ten, eleven, both)] == [2, 1, 3]

    def test_an_option_that_a_version_lacks_is_named(self):
        has = module("t", "10.0", HardwareCompatibilityLevel=type("E", (), {"__members__": {}}))
        with pytest.raises(UsageError, match=r"has no HardwareCompatibilityLevel ampere_plus"):
            Backend("tensorrt", has).enum(
                "HardwareCompatibilityLevel", "ampere_plus", "--hardware-compatibility"
            )

    def test_versions_choose_their_capabilities(self):
        targets = [
            Backend("tensorrt-rtx", module("t", v)).target for v in ("1.4.0.76", "1.5.0", "1.10.2")
        ]
        assert targets == ["tensorrt-rtx-1.4", "tensorrt-rtx", "tensorrt-rtx"]
