"""The two doors: `register` and the library itself."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

from convt_onnx import Session, optimize, register
from convt_onnx.errors import MissingPartError, UsageError
from convt_onnx.machine import gpu
from convt_onnx.optimization import OptimizeOptions
from convt_onnx.plugin_node import DOMAIN
from convt_onnx.plugins.onnxruntime import build
from convt_onnx.plugins.onnxruntime.wanted import Wanted, compile_text, wanted_kernels

from ..verify import judging
from ..verify.judging import random_feeds, run
from .nodes import SPECS, Node, assert_close, kernel_text, make_record, write_store

API_VERSION = 17


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVT_ONNX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Api(ctypes.Structure):
    _fields_ = (
        ("get_api", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)),
        ("version", ctypes.CFUNCTYPE(ctypes.c_void_p)),
    )


def running_runtime():
    (path,) = (Path(ort.__file__).parent / "capi").glob("libonnxruntime.so.*")
    runtime = ctypes.CDLL(str(path))
    runtime.OrtGetApiBase.restype = ctypes.POINTER(Api)
    return runtime.OrtGetApiBase().contents


def message_of(api, status):
    functions = ctypes.cast(api, ctypes.POINTER(ctypes.c_void_p))
    get_message = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(functions[2])
    return get_message(status).decode()


def test_an_old_onnxruntime_is_refused_in_one_line(library):
    real = running_runtime()

    def get_api(version):
        return real.get_api(version) if version < API_VERSION else None

    text = ctypes.create_string_buffer(b"1.16.3")
    old = Api(type(real.get_api)(get_api), type(real.version)(lambda: ctypes.addressof(text)))
    door = ctypes.CDLL(str(library.path)).RegisterCustomOps
    door.restype = ctypes.c_void_p
    message = message_of(real.get_api(1), door(None, ctypes.byref(old)))
    assert message == "convt_onnx: this library needs ONNX Runtime 1.17 or later, not 1.16.3"


def test_nothing_is_registered_where_no_device_has_kernels(library):
    """The session then runs the function, or says that it knows no such operator."""
    node = Node(make_record(SPECS["vocoder"]), (7,))
    with pytest.raises(Exception, match="FusedConvTranspose"):
        library.run(node.model(), node.feeds(), cpu_kernel=False)
    library.run(node.model(), node.feeds())


def test_register_says_why_nodes_run_as_functions():
    options = ort.SessionOptions()
    done = register(options)
    assert (done.registered, done.why) == (False, "there is no CUDA device")
    assert done.library.is_file()
    again = register(ort.SessionOptions())
    assert again.library == done.library


@pytest.fixture
def on_fake_device(library, tmp_path):
    """Run Python where a CUDA driver shows one device of compute capability 9.0."""
    source = Path(__file__).with_name("fake_driver.c")
    driver = tmp_path / "libcuda.so.1"
    command = [*build.find_compiler(), "-shared", "-fPIC", str(source), "-o", str(driver)]
    subprocess.run(command, check=True)

    def call(code):
        environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )

    return call


def test_both_providers_are_registered_for_a_device_with_kernels(on_fake_device, library, tmp_path):
    """A session on the CPU provider still finds the kernel that is its own."""
    node = Node(make_record(SPECS["vocoder"]), (7,))
    onnx.save(node.model(), tmp_path / "node.onnx")
    write_store(tmp_path / "kernels", kernel_text(node.record))
    code = f"""
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.add_session_config_entry("convt.kernel_store", {str(tmp_path / "kernels")!r})
options.register_custom_ops_library({str(library.path)!r})
session = ort.InferenceSession(
    {str(tmp_path / "node.onnx")!r}, options, providers=["CPUExecutionProvider"]
)
x = np.ones((2, 24, 7), np.float32)
assert session.run(None, {{"X_in": x}})[0].shape == (2, 10, 56)
print("ran")
"""
    done = on_fake_device(code)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


def test_a_device_without_kernels_is_named(on_fake_device, library):
    code = f"""
import onnxruntime as ort
ort.SessionOptions().register_custom_ops_library({str(library.path)!r})
"""
    done = on_fake_device(code)
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "convt_onnx: no kernel for device 0 (compute capability 9.0) in this library: "
        "nodes run as their functions\n"
    )


def test_the_gpu_is_named_by_its_driver(on_fake_device):
    assert gpu() == ""
    done = on_fake_device("from convt_onnx.machine import gpu; print(gpu())")
    assert done.stdout == "Fake GPU 9000\n", done.stderr


def test_what_is_no_library(tmp_path):
    wrong = tmp_path / "wrong.so"
    wrong.write_bytes(b"\x7fELF")
    with pytest.raises(UsageError, match="no custom-op library"):
        register(ort.SessionOptions(), library=wrong)
    with pytest.raises(UsageError, match="does not take the custom-op library"):
        register(ort.SessionOptions(), library=wrong, cpu_kernel=True)


MODELS = Path(__file__).parents[2] / "models"


@pytest.mark.parametrize("name", ["hifigan_tiny", "unet_tiny", "fcn8s_tiny"])
def test_plugin_models_run_right_as_kernels_and_as_functions(library, tmp_path, name):
    source, output = MODELS / f"{name}.onnx", tmp_path / "out.onnx"
    options = OptimizeOptions(target="ort-cuda", plugin=True, forms={"all": "plugin"})
    optimize(source, output, options)
    before, after = onnx.load(source), onnx.load(output)
    assert any(n.domain == DOMAIN for n in after.graph.node)
    assert all(n.op_type != "ConvTranspose" for n in after.graph.node)
    feeds = random_feeds(before, open_size=64)
    wanted = run(before, feeds)
    kernels = dict(zip(wanted, library.run(after, feeds), strict=True))
    judging.assert_close(run(after, feeds), wanted)
    judging.assert_close(kernels, wanted)


def test_kernels_need_triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    record = make_record(SPECS["vocoder"])
    wanted = Wanted(record, record.kernel((None, None)))
    with pytest.raises(MissingPartError, match="Triton is not installed") as caught:
        compile_text((wanted, 90))
    assert ".[gpu]" in caught.value.help


def test_wanted_kernels_of_a_model(tmp_path):
    output = tmp_path / "out.onnx"
    optimize(MODELS / "hifigan_tiny.onnx", output, OptimizeOptions(target="ort-cuda", plugin=True))
    found = wanted_kernels([output, output])
    assert len(found) == 2 * len({w.record for w in found})
    assert {w.kernel.tf32 for w in found} == {True, False}
    assert {w.kernel.sizes for w in found} == {(None, None)}
    assert {w.record.dtype for w in found} == {"float32"}


def test_session_on_the_cpu(tmp_path):
    output = tmp_path / "out.onnx"
    optimize(MODELS / "hifigan_tiny.onnx", output, OptimizeOptions(target="ort-cuda", plugin=True))
    session = Session(output)
    (name,) = (i.name for i in session.session.get_inputs())
    (x,) = random_feeds(onnx.load(output), open_size=13).values()
    (wanted,) = ort.InferenceSession(
        str(MODELS / "hifigan_tiny.onnx"), providers=["CPUExecutionProvider"]
    ).run(None, {name: x})
    (got,) = session.run({name: x}).values()
    (tensor,) = session.run({name: torch.from_numpy(x)}).values()
    assert isinstance(got, np.ndarray)
    assert isinstance(tensor, torch.Tensor)
    assert_close(got, wanted, "float32")
    np.testing.assert_array_equal(got, tensor.numpy())
    with pytest.raises(UsageError, match="no input 'mell'"):
        session.run({"mell": x})
    with pytest.raises(UsageError, match="an input is missing"):
        session.run({})
    with pytest.raises(UsageError, match="does not load"):
        Session(tmp_path / "absent.onnx")
