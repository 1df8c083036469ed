"""Models of one plugin node, and the library that runs them on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper

from convt_onnx.ort.registration import CPU_KERNEL, STORE
from convt_onnx.plugin_node import DOMAIN, FIXED_NAME, PluginRecord
from convt_onnx.plugins.conv_transpose import ahead
from convt_onnx.plugins.conv_transpose.activations import NONE, apply_reference
from convt_onnx.plugins.conv_transpose.compile import Argument, Artifact
from convt_onnx.plugins.conv_transpose.formula import Formula
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.packing import pack
from convt_onnx.plugins.onnxruntime import kernel_file, store
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec

NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ONNX = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}
# Largest difference over the largest value, for sums of some hundred terms.
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.2e-2}


# 1-D, grouped with C_in/g != C_out/g, dilated, asymmetric, output_padding beyond the stride, 3-D.
SPECS = {
    "vocoder": ConvTransposeSpec(24, 10, 1, (16,), (8,), (1,), (4,), (4,), (0,)),
    "causal": ConvTransposeSpec(32, 16, 1, (8,), (4,), (1,), (0,), (4,), (0,)),
    "grouped": ConvTransposeSpec(40, 12, 2, (3, 5), (2, 3), (1, 1), (1, 0), (0, 2), (1, 0)),
    "depthwise": ConvTransposeSpec(6, 6, 6, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0)),
    "few": ConvTransposeSpec(10, 12, 1, (3, 3), (2, 2), (1, 1), (1, 1), (0, 1), (1, 0)),
    "dilated": ConvTransposeSpec(20, 7, 1, (3, 2), (2, 1), (3, 2), (2, 1), (1, 0), (2, 1)),
    "apart": ConvTransposeSpec(17, 8, 1, (2, 2), (5, 3), (1, 1), (1, 0), (0, 1), (0, 0)),
    "volume": ConvTransposeSpec(
        16, 4, 1, (3, 3, 2), (2, 2, 2), (1,) * 3, (1, 0, 0), (1,) * 3, (1, 0, 1)
    ),
}
SIZES = {1: (7,), 2: (5, 6), 3: (3, 4, 5)}
N = Formula.size("n")


@dataclass(frozen=True)
class Library:
    """A built library."""

    path: Path

    def options(self, *, cpu_kernel: bool = True, store: Path | None = None):
        options = ort.SessionOptions()
        if cpu_kernel:
            options.add_session_config_entry(CPU_KERNEL, "1")
        if store is not None:
            options.add_session_config_entry(STORE, str(store))
        options.register_custom_ops_library(str(self.path))
        return options

    def run(self, proto: onnx.ModelProto, feeds, **options):
        session = ort.InferenceSession(
            proto.SerializeToString(), self.options(**options), providers=["CPUExecutionProvider"]
        )
        return session.run(None, feeds)


def make_record(spec, dtype="float32", *, bias=True, residual=False, activation=NONE):
    schedule = ahead.base_schedule(KernelSpec(spec, dtype, (None,) * (1 + spec.ndim)))
    return PluginRecord(spec, dtype, bias, residual, activation, schedule)


def kernel_text(record, kernel=None, ptx=".target sm_90a\n", capability=90):
    """A kernel file as Triton would have made it, but for the code."""
    kernel = kernel or record.kernel(tf32=True)
    arguments = (Argument("x"), Argument("w"), Argument("rows", N * 3), Argument("y"))
    artifact = Artifact("k", ptx, arguments, N + 1, (N, N, N), 128, 0, record.schedule, capability)
    return kernel_file.text(record, kernel, artifact)


def write_store(folder, *texts):
    """A folder of kernel files, as the user's own is."""
    store.private_folder(folder)
    for text in texts:
        key = next(line[4:] for line in text.splitlines() if line.startswith("key "))
        name = f"{kernel_file.fnv1a(key):016x}-90{kernel_file.SUFFIX}"
        (folder / name).write_text(text)


@dataclass(frozen=True)
class Node:
    """One node with operands, and what it must compute.

    bfloat16 graph inputs and outputs cannot be NumPy arrays: Casts stand around the node.
    """

    record: PluginRecord
    sizes: tuple[int, ...]
    batch: int = 2

    def operands(self):
        spec = self.record.spec
        shapes = {
            "X": (self.batch, spec.in_channels, *self.sizes),
            "W": spec.weight_shape,
            "B": (spec.out_channels,),
            "S": (spec.out_channels,),
            "R": (self.batch, spec.out_channels, *spec.output_sizes(self.sizes)),
        }
        kind = NUMPY[self.record.dtype]
        # Each has a seed of its own: the weight does not depend on the sizes.
        draws = {n: np.random.default_rng([7, ord(n)]) for n in self.record.inputs}
        return {n: rng.standard_normal(shapes[n]).astype(kind) for n, rng in draws.items()}

    def model(self, *, shape=None) -> onnx.ModelProto:
        dtype, operands = ONNX[self.record.dtype], self.operands()
        node = helper.make_node(
            FIXED_NAME, self.record.inputs, ["Y"], domain=DOMAIN, **self.record.attributes()
        )
        fed = [n for n in ("X", "R") if n in operands]
        nodes = [*(helper.make_node("Cast", [f"{n}_in"], [n], to=dtype) for n in fed), node]
        nodes.append(helper.make_node("Cast", ["Y"], ["Y_out"], to=TensorProto.FLOAT))
        open_shape = ["N", operands["X"].shape[1], *(f"L{i}" for i in range(len(self.sizes)))]
        shapes = {"X": open_shape if shape is None else shape, "R": None}
        inputs = [
            helper.make_tensor_value_info(f"{n}_in", TensorProto.FLOAT, shapes[n]) for n in fed
        ]
        output = helper.make_tensor_value_info("Y_out", TensorProto.FLOAT, None)
        constants = {n: v for n, v in operands.items() if n not in fed}
        if self.record.packing is not None:
            constants["W"] = pack(constants["W"], self.record.packing)
        initializers = [numpy_helper.from_array(v, n) for n, v in constants.items()]
        graph = helper.make_graph(nodes, "g", inputs, [output], initializers)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def feeds(self):
        operands = self.operands()
        return {f"{n}_in": operands[n].astype(np.float32) for n in ("X", "R") if n in operands}

    def wanted(self):
        """Computed in float64 from the operands as they are after rounding."""
        values = {n: v.astype(np.float64) for n, v in self.operands().items()}
        y = conv_transpose(values["X"], values["W"], values.get("B"), self.record.spec)
        if "R" in values:
            y = y + values["R"]
        slope = torch.from_numpy(values["S"]) if "S" in values else None
        return apply_reference(torch.from_numpy(y), self.record.activation, slope).numpy()


def assert_close(got, wanted, dtype):
    assert got.shape == wanted.shape
    assert np.abs(wanted).max() > 0.1, "proves little"
    worst = np.abs(got - wanted).max() / np.abs(wanted).max()
    assert worst <= TOLERANCE[dtype], worst
