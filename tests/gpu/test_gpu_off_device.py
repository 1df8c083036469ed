"""What ort-cuda writes for operators that the CUDA provider lacks; run alone: pytest tests/gpu."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ort = pytest.importorskip("onnxruntime")
if "CUDAExecutionProvider" not in ort.get_available_providers() or not torch.cuda.is_available():
    pytest.skip("no CUDA provider", allow_module_level=True)

from convt_onnx import OptimizeOptions, optimize  # noqa: E402
from convt_onnx.ort.placement_check import check_placement  # noqa: E402
from convt_onnx.ort.provider import keep_on_device  # noqa: E402
from convt_onnx.tuning.options import TuneOptions  # noqa: E402

from ..graph.building import array, model, write  # noqa: E402

PROVIDERS = [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"]
# A node for which the model is read at all.
UP = "u = ConvTranspose <strides=[2]> (v, w)"
DTYPES = {"float": np.float32, "float16": np.float16, "double": np.float64}


def optimised(proto, tmp_path):
    options = OptimizeOptions(target="ort-cuda", verify=False, tune=TuneOptions(enabled=False))
    return optimize(write(proto, tmp_path), tmp_path / "done.onnx", options).output


def with_node(call, x, opset, more=""):
    text = f"""g ({x} x{more}, float[1,2,5] v) => (float[a,b,c] u, {x.split("[")[0]}[] y)
    {{ {UP} y = {call} }}"""
    return model(text, opset=opset, w=array(2, 3, 4))


def on_cuda(path, tmp_path, feeds):
    """Outputs by name; every node must have run on the GPU."""
    feeds = {"v": array(1, 2, 5)} | feeds
    placement = check_placement(
        keep_on_device(ort.SessionOptions()), path, feeds, PROVIDERS, tmp_path
    )
    assert [detail for _, detail in placement.strays] == []
    session = ort.InferenceSession(str(path), keep_on_device(ort.SessionOptions()), PROVIDERS)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("opset", "axis"), [(11, 1), (12, 2), (13, 1), (18, -1)])
def test_hardmax(tmp_path, dtype, opset, axis):
    x = np.random.default_rng(0).integers(-2, 3, (3, 40, 33)).astype(DTYPES[dtype])
    x[0, 1, 2], x[2, 3, 4] = np.inf, -np.inf
    proto = with_node(f"Hardmax <axis={axis}> (x)", f"{dtype}[3,40,33]", opset)
    got = on_cuda(optimised(proto, tmp_path), tmp_path, {"x": x})["y"]
    rows = x.reshape(3, -1) if (opset, axis) == (11, 1) else np.moveaxis(x, axis, -1)
    wanted = np.eye(rows.shape[-1], dtype=x.dtype)[rows.argmax(axis=-1)]
    back = wanted.reshape(x.shape) if rows.ndim == 2 else np.moveaxis(wanted, -1, axis)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, back)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("opset", [11, 17])
def test_bit_shift(tmp_path, dtype, direction, opset):
    name, bits = np.dtype(dtype).name, np.iinfo(dtype).bits
    counts = np.array([*range(bits + 2), np.iinfo(dtype).max], dtype)
    x = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, counts.shape, dtype, True)
    call = f'BitShift <direction="{direction}"> (x, n)'
    proto = with_node(call, f"{name}[N]", opset, f", {name}[N] n")
    got = on_cuda(optimised(proto, tmp_path), tmp_path, {"x": x, "n": counts})["y"]
    pairs = [(int(v), min(int(c), bits)) for v, c in zip(x, counts, strict=True)]
    wanted = [v << c if direction == "LEFT" else v >> c for v, c in pairs]
    assert got.tolist() == [w % 2**bits for w in wanted]


def test_quantised_biases(tmp_path):
    """The provider has no DequantizeLinear of int32, and the optimiser must not bring it back."""
    text = """g (float[1,2,5] v) => (float[a,b,c] y) {
      q = QuantizeLinear (v, s, z) d = DequantizeLinear (q, s, z)
      w = DequantizeLinear (wq, ws, z) b = DequantizeLinear (bq, bs)
      u = ConvTranspose <strides=[2]> (d, w, b) r = Relu (u)
      t = QuantizeLinear (r, s, z) y = DequantizeLinear (t, s, z) }"""
    integers = np.random.default_rng(0).integers(-100, 100, (2, 3, 4)).astype(np.int8)
    proto = model(
        text,
        s=np.float32(0.02),
        z=np.int8(0),
        wq=integers,
        ws=np.float32(0.01),
        bq=np.array([50, -700, 900], np.int32),
        bs=np.float32(2e-4),
    )
    got = on_cuda(optimised(proto, tmp_path), tmp_path, {})["y"]
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"v": array(1, 2, 5)})
    assert wanted.any()
    np.testing.assert_allclose(got, wanted, rtol=0, atol=0.021)  # one step
