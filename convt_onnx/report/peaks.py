"""The best that this machine does in ONNX Runtime: the roof of the roofline."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from convt_onnx.benching import PROVIDER, BenchResult
from convt_onnx.optimization import OptimizeResult
from convt_onnx.report.contents import Peaks
from convt_onnx.targets import get_target
from convt_onnx.tuning.ort import ort_runtime
from convt_onnx.tuning.runtime import Runtime
from convt_onnx.verify import Source
from convt_onnx.verify.session import RunError

# A square matrix product of this side, and copies of this many floats: larger than any cache.
SIDE = 1024
COPIED = 1 << 24
COPIES = 4
RUNS = 5
# Where the median run takes so many times the best, something else used the machine.
BUSY = 1.25
OPSET, IR_VERSION = 13, 8


def peaks_for(result: OptimizeResult | BenchResult) -> Peaks | None:
    """Peaks of the provider that the models are meant for.

    None where the target means none, where that is not on this machine, or where there is no node
    to judge.
    """
    if isinstance(result, BenchResult):
        provider, threads = PROVIDER, result.threads
        judged = any(e.rewriting is not None and e.rewriting.decisions for e in result.entries)
    else:
        provider = get_target(result.target).provider
        threads = 0 if result.tuning is None else result.tuning.threads
        judged = bool(result.decisions)
    runtime = ort_runtime(provider, threads) if provider and judged else None
    if runtime is None:
        return None
    try:
        return measure_peaks(runtime)
    except RunError:
        return None


def measure_peaks(runtime: Runtime) -> Peaks:
    """Time a matrix product and a chain of copies in float32; takes about a second.

    Args:
        runtime: Where the models run that are to be judged.
    """
    rng = np.random.default_rng(0)
    square = rng.standard_normal((SIDE, SIDE)).astype(np.float32)
    product = _seconds(runtime, [helper.make_node("MatMul", ["x", "x"], ["y"])], square)
    names = ["x", *(f"h{i}" for i in range(1, COPIES)), "y"]
    chain = [helper.make_node("Neg", [a], [b]) for a, b in pairwise(names)]
    copies = _seconds(runtime, chain, np.ones(COPIED, np.float32))
    count = runtime.threads
    threads = f"{count} thread{'s' if count > 1 else ''}" if count else "its default threads"
    busy = any(median(runs) > BUSY * min(runs) for runs in (product, copies))
    return Peaks(
        flops_per_s=2 * SIDE**3 / min(product),
        bytes_per_s=2 * 4 * COPIED * COPIES / min(copies),
        how=f"measured in {runtime.name} with {threads}: "
        f"a float32 matrix product of {SIDE}×{SIDE}, and Neg over {4 * COPIED >> 20} MiB, "
        f"the best of {RUNS} runs each"
        + ("; the machine was busy then, so its peaks may be higher" if busy else ""),
    )


def _seconds(
    runtime: Runtime, nodes: list[onnx.NodeProto], x: npt.NDArray[np.float32]
) -> list[float]:
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "peak", value[:1], value[1:])
    opset = [helper.make_opsetid("", OPSET)]
    proto = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    timed = runtime.load(Source(proto, Path()), {"x": x})
    return [timed.seconds(1) for _ in range(RUNS)]
