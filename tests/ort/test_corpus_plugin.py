"""The shared corpus with plugin nodes, run by the library's CPU kernel; skipped where absent."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime as ort
import pytest

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.errors import ConvtError
from convt_onnx.plugin_node import DOMAIN, FIXED_NAME
from convt_onnx.verify.compare import HALF, QUANTISED, Tolerance, compare
from convt_onnx.verify.session import RunError, Source
from convt_onnx.verify.twin import float32_twin
from convt_onnx.verify.verification import VerifyOptions, run_on_some

SHARED = Path(__file__).parents[3] / "shared"
# Models that take the CPU kernel over some seconds, which is no way to run them.
LARGEST = 1 << 20
FOLDERS = ("cases", "corpus/unit", "corpus/architectures", "corpus/trained")
MODELS = [
    pytest.param(path, marks=[] if folder == "cases" else [pytest.mark.long])
    for folder in FOLDERS
    for path in sorted((SHARED / folder).rglob("*.onnx"))
    if path.stat().st_size < LARGEST
]
pytestmark = pytest.mark.skipif(not MODELS, reason="the shared corpus is not beside the checkout")


def reference(source, path):
    """Inputs that the original runs on, and what it gives."""
    beside = (path.with_suffix(".npz"), path.with_name("inputs.npz"))
    given = next((p for p in beside if p.is_file()), None)
    try:
        inputs, wanted = run_on_some(source, VerifyOptions(inputs=given))
    except RunError as error:
        if given is not None:
            raise
        pytest.skip(error.what)
    return inputs.arrays, wanted


def tolerance(proto):
    if any("QuantizeLinear" in n.op_type for n in proto.graph.node):
        return QUANTISED
    half = any(t.data_type == onnx.TensorProto.FLOAT16 for t in proto.graph.initializer)
    return HALF if half else Tolerance()


@pytest.mark.parametrize("path", MODELS, ids=lambda p: str(p.relative_to(SHARED)))
def test_plugin_models_equal_the_originals(library, path, tmp_path):
    proto = onnx.load(path)
    output = tmp_path / "out.onnx"
    options = OptimizeOptions(target="ort-cuda", plugin=True, verify=False)
    try:
        optimize(path, output, options)
        twin = float32_twin(Source(proto, path.parent))
        feeds, wanted = reference(twin, path)
    except ConvtError as error:
        pytest.skip(f"no original to compare with: {error.what}")
    after = float32_twin(Source(onnx.load(output), tmp_path)).proto
    if not any(n.domain == DOMAIN and n.op_type == FIXED_NAME for n in after.graph.node):
        pytest.skip("no plugin node in the main graph")
    data = after.SerializeToString()
    session = ort.InferenceSession(data, library.options(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    got = dict(zip(names, session.run(names, feeds), strict=True))
    for name, value in wanted.items():
        comparison = compare(name, got[name], value, tolerance(proto))
        assert comparison.ok, comparison
