"""Geometries and operands for tensorrt_plugin_gpu.py."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from convt_onnx.plugin_node import PluginRecord
from convt_onnx.plugins.conv_transpose import ahead, op
from convt_onnx.plugins.conv_transpose.activations import NONE, Activation
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.weights import pack
from convt_onnx.spec import ConvTransposeSpec

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A geometry with its epilogue and [N, *sizes] to run it at."""

    name: str
    spec: ConvTransposeSpec
    sizes: tuple[Sizes, ...]
    activation: Activation = NONE
    bias: bool = True
    residual: bool = False


def _spec(c: tuple[int, int, int], *lists: tuple[int, ...]) -> ConvTransposeSpec:
    return ConvTransposeSpec(*c, *lists).canonical()


CASES = (
    Case("2-D k4 s2", _spec((64, 24, 1), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0)),
         ((2, 31, 45), (1, 64, 64), (3, 5, 7)), Activation("relu"), residual=True),
    Case("3-D k3 s2", _spec((16, 8, 1), (3, 2, 3), (2, 1, 2), (1, 1, 1), (1, 0, 0),
                            (0, 1, 1), (1, 0, 0)),
         ((2, 5, 9, 11), (1, 8, 16, 16)), Activation("prelu")),
    Case("1-D k16 s8", _spec((32, 24, 1), (16,), (8,), (1,), (4,), (3,), (0,)),
         ((2, 77), (1, 200), (4, 3)), Activation("leaky_relu", 0.1), residual=True),
    Case("depthwise", _spec((16, 16, 16), (4, 3), (2, 2), (1, 1), (1, 0), (1, 1), (0, 1)),
         ((2, 19, 33), (1, 40, 40)), Activation("silu"), bias=False),
    Case("stride and dilation, groups",
         _spec((32, 48, 2), (3, 2), (2, 3), (3, 2), (0, 2), (1, 0), (1, 0)),
         ((2, 13, 21), (1, 32, 24)), Activation("gelu")),
    Case("kernel below stride", _spec((8, 24, 1), (2, 1), (3, 2), (1, 1), (0, 0), (0, 0), (0, 1)),
         ((2, 17, 9), (1, 16, 16)), Activation("clip", -0.5, 0.75), bias=False),
)  # fmt: skip
# More than 2^31 elements of y.
LARGE = Case("wide offsets", CASES[3].spec, ((9, 2048, 2048),), bias=False)


def record_of(case: Case, dtype: str) -> PluginRecord:
    """As the form `plugin` writes it."""
    schedule = ahead.base_schedule(KernelSpec(case.spec, dtype, (None,) * (1 + case.spec.ndim)))
    return PluginRecord(case.spec, dtype, case.bias, case.residual, case.activation, schedule)


@dataclass
class Operands:
    """Tensors of one call, and what it should give."""

    tensors: dict[str, torch.Tensor]
    y: torch.Tensor
    wanted: torch.Tensor

    def error(self) -> float:
        """Largest error of y over the largest wanted value; NaN where y was not written."""
        part = self.y[-1:] if self.wanted.shape != self.y.shape else self.y
        scale = self.wanted.abs().max().clamp(min=1e-9)
        return float(((part.double() - self.wanted).abs().max() / scale).item())


def laid(shape: Sizes, dtype: torch.dtype, last: bool, seed: int) -> torch.Tensor:
    """A random tensor, channels innermost where `last`."""
    generator = torch.Generator("cuda").manual_seed(seed)
    stored = (shape[0], *shape[2:], shape[1]) if last else shape
    x = torch.randn(stored, generator=generator, device="cuda", dtype=torch.float32).to(dtype)
    return x.movedim(-1, 1) if last else x


def operands(record: PluginRecord, sizes: Sizes, last_in: bool, last_out: bool) -> Operands:
    """Random tensors in the layouts, y poisoned."""
    spec, dtype = record.spec, DTYPES[record.dtype]
    shape = (sizes[0], spec.in_channels, *sizes[1:])
    out = (sizes[0], spec.out_channels, *spec.output_sizes(sizes[1:]))
    x = laid(shape, dtype, last_in, 1)
    w = (laid(spec.weight_shape, torch.float32, False, 2) / spec.in_per_group**0.5).to(dtype)
    tensors = {"x": x, "w": w if record.packing is None else pack(w, record.packing)}
    channels = (spec.out_channels,)
    if record.has_bias:
        tensors["bias"] = laid(channels, dtype, False, 3)
    if record.activation.kind == "prelu":
        tensors["slope"] = laid(channels, dtype, False, 4)
    if record.has_residual:
        tensors["residual"] = laid(out, dtype, last_out, 5)
    y = laid(out, dtype, last_out, 6).fill_(float("nan"))
    last = slice(-1, None) if y.numel() >= 1 << 31 else slice(None)
    doubled = {n: (t if n in ("bias", "slope") else t[last]).double() for n, t in tensors.items()}
    wanted = op.reference(
        doubled["x"], w.double(), doubled.get("bias"), spec, activation=record.activation,
        slope=doubled.get("slope"), residual=doubled.get("residual"),
    )  # fmt: skip
    return Operands(tensors, y, wanted)
