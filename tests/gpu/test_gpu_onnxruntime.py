"""The custom-op library on ONNX Runtime's CUDA provider; run alone: pytest tests/gpu."""

import gc
import os
import resource
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="device memory is read through torch")
ort = pytest.importorskip("onnxruntime")
if "CUDAExecutionProvider" not in ort.get_available_providers() or not torch.cuda.is_available():
    pytest.skip("no CUDA provider", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton's interpreter is on; run tests/gpu alone", allow_module_level=True)

import onnx  # noqa: E402

from convt_onnx import Session, register  # noqa: E402
from convt_onnx.ort.placement_check import check_placement  # noqa: E402
from convt_onnx.plugins.conv_transpose.activations import (  # noqa: E402
    ACTIVATIONS,
    make_activation,
)

from ..ort.nodes import SIZES, SPECS, Node, assert_close, make_record  # noqa: E402

RUNS = int(os.environ.get("CONVT_LEAK_RUNS", "10000"))
CUDA = "CUDAExecutionProvider"
PROVIDERS = [(CUDA, {"use_tf32": "0"}), "CPUExecutionProvider"]
GRAPHS = [(CUDA, {"use_tf32": "0", "enable_cuda_graph": "1"}), "CPUExecutionProvider"]


def saved(node, tmp_path, **options):
    path = tmp_path / "node.onnx"
    onnx.save(node.model(**options), path)
    return path


def session_of(path, providers=PROVIDERS, *, tf32=False):
    options = ort.SessionOptions()
    done = register(options, path, tf32=tf32)
    assert done.registered, done.why
    return ort.InferenceSession(str(path), options, providers=providers)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", SPECS)
def test_geometries_equal_the_oracle_on_the_gpu(tmp_path, name, dtype):
    spec = SPECS[name]
    activation = make_activation("leaky_relu", 0.1)
    record = make_record(spec, dtype, residual=True, activation=activation)
    node = Node(record, SIZES[spec.ndim])
    path = saved(node, tmp_path)
    # What allows TF32 must find the kernels of narrower types too.
    (got,) = session_of(path, tf32=dtype != "float32").run(None, node.feeds())
    assert_close(got, node.wanted(), dtype)
    options = ort.SessionOptions()
    register(options, path, tf32=False)
    placement = check_placement(options, path, node.feeds(), PROVIDERS, tmp_path)
    assert placement.strays == () or {n.op_type for n, _ in placement.strays} <= {
        "MemcpyToHost",
        "MemcpyFromHost",
    }
    (kernel,) = (n for n in placement.nodes if n.op_type == "FusedConvTranspose")
    assert kernel.provider == CUDA


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_epilogues_on_the_gpu(tmp_path, kind):
    alpha = {"clip": -0.4, "leaky_relu": 0.2, "elu": 1.5}.get(kind)
    activation = make_activation(kind, alpha, 0.9 if kind == "clip" else None)
    node = Node(make_record(SPECS["grouped"], residual=True, activation=activation), (5, 6))
    (got,) = session_of(saved(node, tmp_path)).run(None, node.feeds())
    assert_close(got, node.wanted(), "float32")


def memory():
    """Bytes in use on the device and of this process on the host."""
    gc.collect()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_changing_sizes_leak_nothing_and_stay_equal(tmp_path, record_property):
    record = make_record(SPECS["vocoder"], "float16")
    nodes = [Node(record, (length,), batch) for length in (7, 64, 31, 200) for batch in (1, 3)]
    session = session_of(saved(nodes[0], tmp_path))
    feeds = [n.feeds() for n in nodes]
    first = [session.run(None, f)[0] for f in feeds]
    for got, node in zip(first, nodes, strict=True):
        assert_close(got, node.wanted(), "float16")
    for i in range(200):
        session.run(None, feeds[i % len(feeds)])
    before = memory()
    for i in range(RUNS):
        (got,) = session.run(None, feeds[i % len(feeds)])
        assert np.array_equal(got, first[i % len(feeds)]), i
    device, host = (b - a for a, b in zip(before, memory(), strict=True))
    record_property("runs", RUNS)
    record_property("device_bytes", device)
    record_property("host_bytes", host)
    assert device <= 0, device
    assert host <= 4 << 20, host


def test_sessions_come_and_go(tmp_path):
    node = Node(make_record(SPECS["vocoder"]), (7,))
    path = saved(node, tmp_path)
    for _ in range(3):
        session_of(path).run(None, node.feeds())
    before = memory()
    for _ in range(10):
        session_of(path).run(None, node.feeds())
    device, _ = (b - a for a, b in zip(before, memory(), strict=True))
    assert device <= 2 << 20, device


def test_four_threads_on_two_sessions(tmp_path):
    nodes = [
        Node(make_record(SPECS["grouped"], "float16"), (5, 6)),
        Node(make_record(SPECS["volume"], "float32"), (3, 4, 5)),
    ]
    paths = [tmp_path / f"{i}.onnx" for i in range(2)]
    for node, path in zip(nodes, paths, strict=True):
        onnx.save(node.model(), path)
    sessions = [session_of(p) for p in paths]
    feeds = [n.feeds() for n in nodes]
    wanted = [s.run(None, f)[0] for s, f in zip(sessions, feeds, strict=True)]
    wrong = []

    def work(which):
        for _ in range(300):
            (got,) = sessions[which].run(None, feeds[which])
            if not np.array_equal(got, wanted[which]):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for got, node in zip(wanted, nodes, strict=True):
        assert_close(got, node.wanted(), node.record.dtype)


def test_a_cuda_graph_replays_on_new_values(tmp_path):
    node = Node(make_record(SPECS["vocoder"]), (7,))
    shape = [2, 24, 7]
    session = session_of(saved(node, tmp_path, shape=shape), GRAPHS)
    x = ort.OrtValue.ortvalue_from_numpy(node.feeds()["X_in"], "cuda", 0)
    y = ort.OrtValue.ortvalue_from_shape_and_type([2, 10, 56], np.float32, "cuda", 0)
    binding = session.io_binding()
    binding.bind_ortvalue_input("X_in", x)
    binding.bind_ortvalue_output("Y_out", y)
    for _ in range(4):
        session.run_with_iobinding(binding)
    assert_close(y.numpy(), node.wanted(), "float32")
    x.update_inplace(node.feeds()["X_in"] * 2 + 1)
    session.run_with_iobinding(binding)
    eager = session_of(saved(node, tmp_path, shape=shape))
    (wanted,) = eager.run(None, {"X_in": node.feeds()["X_in"] * 2 + 1})
    np.testing.assert_array_equal(y.numpy(), wanted)


def test_session_keeps_torch_tensors_on_the_device(tmp_path):
    node = Node(make_record(SPECS["grouped"]), (5, 6))
    session = Session(saved(node, tmp_path), tf32=False)
    assert session.registration.registered, session.registration.why
    x = torch.from_numpy(node.feeds()["X_in"])
    (on_host,) = session.run({"X_in": x}).values()
    wide = torch.zeros(x.numel() + 1, device="cuda")
    shifted = wide[1:].view(x.shape).copy_(x)  # not aligned to 16 bytes
    for tensor in (x.cuda(), shifted, x.cuda().to(memory_format=torch.channels_last)):
        (y,) = session.run({"X_in": tensor}).values()
        assert y.is_cuda
        assert torch.equal(y.cpu(), on_host)
    assert_close(on_host.numpy(), node.wanted(), "float32")


def test_a_node_without_a_kernel_runs_as_its_function_or_is_named(tmp_path, monkeypatch):
    node = Node(make_record(SPECS["depthwise"]), (5, 6))
    path = saved(node, tmp_path)
    options = ort.SessionOptions()
    register(options, path, tf32=False)
    other = Node(make_record(SPECS["apart"], bias=False), (5, 6))
    onnx.save(other.model(), tmp_path / "other.onnx")
    with pytest.raises(Exception, match="no kernel for this node on compute capability"):
        ort.InferenceSession(str(tmp_path / "other.onnx"), options, providers=PROVIDERS)
    monkeypatch.setenv("CONVT_ONNX_CACHE", str(tmp_path / "empty"))
    monkeypatch.setitem(__import__("sys").modules, "triton", None)
    done = register(ort.SessionOptions(), tmp_path / "other.onnx", tf32=False)
    assert not done.registered
    assert "Triton is not installed" in done.why
