"""The two doors: `register` and the library itself."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
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
from convt_onnx.ort import registration
from convt_onnx.plugin_node import DOMAIN
from convt_onnx.plugins.conv_transpose.compile import Argument, Artifact
from convt_onnx.plugins.conv_transpose.formula import Formula
from convt_onnx.plugins.onnxruntime import build, kernel_file, store
from convt_onnx.plugins.onnxruntime.wanted import Wanted, compile_text, wanted_kernels

from ..verify import judging
from ..verify.judging import random_feeds, run
from .nodes import Node, assert_close, make_record
from .test_cpu_kernel import SPECS

API_VERSION = 17
N = Formula.size("n")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVT_ONNX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kernel_text(record, kernel=None, ptx=".target sm_90a\n", capability=90):
    """A kernel file as Triton would have made it, but for the code."""
    kernel = kernel or record.kernel(tf32=True)
    arguments = (Argument("x"), Argument("w"), Argument("rows", N * 3), Argument("y"))
    artifact = Artifact("k", ptx, arguments, N + 1, (N, N, N), 128, 0, record.schedule, capability)
    return kernel_file.text(record, kernel, artifact)


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


def write_store(folder, *texts):
    store.private_folder(folder)
    for text in texts:
        key = next(line[4:] for line in text.splitlines() if line.startswith("key "))
        name = f"{kernel_file.fnv1a(key):016x}-90{kernel_file.SUFFIX}"
        (folder / name).write_text(text)


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


def has(path, record, folder, *, capability=90, sizes=(None, None), tf32=True, wide=False):
    kernel = record.kernel(sizes, tf32=tf32, wide=wide)
    return registration.has_kernel(
        registration.open_library(path), Wanted(record, kernel), capability, folder
    )


def test_the_gpu_is_named_by_its_driver(on_fake_device):
    assert gpu() == ""
    done = on_fake_device("from convt_onnx.machine import gpu; print(gpu())")
    assert done.stdout == "Fake GPU 9000\n", done.stderr


def test_kernels_are_found_by_attributes_sizes_and_device(tmp_path):
    record = make_record(SPECS["vocoder"])
    fixed = record.kernel((None, 7), tf32=True)
    path = tmp_path / "a" / build.NAME
    build.build(path, [kernel_text(record, fixed)])
    none = tmp_path / "none"
    assert has(path, record, none, sizes=(None, 7))
    assert not has(path, record, none, sizes=(None, 8))
    assert not has(path, record, none)
    assert not has(path, record, none, sizes=(None, 7), tf32=False)
    assert not has(path, record, none, sizes=(None, 7), wide=True)
    # sm_90a runs on 9.0 alone.
    assert not has(path, record, none, sizes=(None, 7), capability=100)
    assert not has(path, record, none, sizes=(None, 7), capability=80)
    other = replace(record, has_bias=False)
    assert not has(path, other, none, sizes=(None, 7))


def test_tf32_is_a_matter_of_float32(tmp_path):
    """A session that allows TF32 finds the kernels of other types, which have one way."""
    half, single = (make_record(SPECS["vocoder"], t) for t in ("float16", "float32"))
    texts = [kernel_text(r, r.kernel()) for r in (half, single)]
    path = tmp_path / build.NAME
    build.build(path, texts)
    none = tmp_path / "none"
    assert has(path, half, none, tf32=False)
    assert has(path, half, none, tf32=True)
    assert has(path, single, none, tf32=False)
    assert not has(path, single, none, tf32=True)


def test_plain_ptx_runs_on_later_devices(tmp_path):
    record = make_record(SPECS["vocoder"])
    path = tmp_path / build.NAME
    build.build(path, [kernel_text(record, ptx=".target sm_80\n", capability=80)])
    found = [has(path, record, tmp_path / "none", capability=c) for c in (75, 80, 90, 120)]
    assert found == [False, True, True, True]


def test_the_store_must_be_the_users_own(library, tmp_path):
    record = make_record(SPECS["vocoder"])
    own, shared, broken = tmp_path / "own", tmp_path / "shared", tmp_path / "broken"
    for folder in (own, shared):
        write_store(folder, kernel_text(record))
    shared.chmod(0o777)
    write_store(broken, kernel_text(record).replace("grid n 1 +", "grid n +"))
    assert has(library.path, record, own)
    assert not has(library.path, record, shared)
    assert not has(library.path, record, broken)
    assert not has(library.path, record, tmp_path / "absent")
    with pytest.raises(UsageError, match="others may write"):
        store.private_folder(shared)


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(MissingPartError, match="no C compiler"):
        build.build(tmp_path / build.NAME)


def test_a_compiler_that_fails(tmp_path):
    with pytest.raises(UsageError, match="the C compiler fails"):
        build.build(tmp_path / build.NAME, flags=["--no-such-flag"])
    assert not (tmp_path / build.NAME).exists()
    with pytest.raises(UsageError, match=r"onnxruntime_c_api\.h is not there"):
        build.build(tmp_path / build.NAME, ort_include=tmp_path)


@pytest.mark.skipif("CONVT_ORT_INCLUDE" not in os.environ, reason="names no folder of the header")
def test_the_public_header_agrees(tmp_path):
    """Offsets and parameters are static assertions in ort_abi.c."""
    build.build(tmp_path / build.NAME, ort_include=Path(os.environ["CONVT_ORT_INCLUDE"]))
    assert (tmp_path / build.NAME).stat().st_size > 0


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
    assert "convt-onnx[gpu]" in caught.value.help


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
