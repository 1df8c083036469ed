"""Whether ONNX Runtime's CUDA provider works in this process, not only whether it is installed."""

from __future__ import annotations

import contextlib
import io
from functools import lru_cache
from typing import Any

from onnx import TensorProto, helper

from convt_onnx.verify.session import onnxruntime

CUDA = "CUDAExecutionProvider"
# The optimiser would otherwise make float biases of quantised layers int32 again, which CUDA has
# no kernel for.
ON_DEVICE_ENTRIES = {"session.disable_quant_qdq": "1"}


def preload_libraries() -> None:
    """Load the CUDA libraries of pip's nvidia packages, which ONNX Runtime does not look for.

    What is not there it finds by itself or says so when a session is made; the lines that its
    loader prints on stdout are dropped.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        onnxruntime().preload_dlls()


def keep_on_device(session_options: Any) -> Any:
    """The options, an onnxruntime.SessionOptions, so that no optimisation moves nodes to the CPU.

    For sessions on the CUDA provider; `convt_onnx.Session` does it itself.
    """
    for name, value in ON_DEVICE_ENTRIES.items():
        session_options.add_session_config_entry(name, value)
    return session_options


@lru_cache(maxsize=1)
def cuda_works() -> bool:
    """Whether a session gets the CUDA provider: ONNX Runtime goes on without it otherwise."""
    ort = onnxruntime()
    if CUDA not in ort.get_available_providers():
        return False
    preload_libraries()
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "probe", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            session = ort.InferenceSession(model.SerializeToString(), providers=[CUDA])
    except Exception:  # onnxruntime's exceptions share no base of their own
        return False
    return CUDA in session.get_providers()
