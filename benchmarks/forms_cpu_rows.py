"""Single ConvTranspose nodes for forms_cpu.py, named after the models that have such nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx


@dataclass(frozen=True, slots=True)
class Row:
    """One node: channels, one value an axis for the rest, sizes of the input.

    `bilinear`: the kernel interpolates, as frozen upsampling has it; otherwise it is random.
    """

    name: str
    channels: tuple[int, int]
    group: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    sizes: tuple[int, ...]
    batch: int = 1
    dilation: int = 1
    bilinear: bool = False


def _row(
    name: str,
    c: tuple[int, int],
    g: int,
    ksp: tuple[int, int, int],
    sizes: tuple[int, ...],
    d: int = 1,
    *,
    bilinear: bool = False,
) -> Row:
    n = len(sizes)
    k, s, p = ksp
    return Row(name, c, g, (k,) * n, (s,) * n, (p,) * n, sizes, dilation=d, bilinear=bilinear)


ROWS = (
    _row("FCN-32s g21 k64 s32", (21, 21), 21, (64, 32, 16), (16, 16)),
    _row("FCN-8s g21 k16 s8", (21, 21), 21, (16, 8, 4), (32, 32)),
    _row("FCN-8s g21 k4 s2", (21, 21), 21, (4, 2, 1), (32, 32)),
    _row("FCN-32s bilinear k64 s32", (21, 21), 21, (64, 32, 16), (16, 16), bilinear=True),
    _row("FCN-8s bilinear k16 s8", (21, 21), 21, (16, 8, 4), (32, 32), bilinear=True),
    _row("FCN-8s bilinear k4 s2", (21, 21), 21, (4, 2, 1), (32, 32), bilinear=True),
    _row("DLA bilinear k16 s8", (16, 16), 16, (16, 8, 4), (4, 4), bilinear=True),
    _row("DLA bilinear k4 s2", (16, 16), 16, (4, 2, 1), (16, 16), bilinear=True),
    _row("iSTFT k4096 s1024", (2050, 1), 1, (4096, 1024, 0), (44,)),
    _row("iSTFT k1024 s256", (514, 1), 1, (1024, 256, 0), (100,)),
    _row("iSTFT k16 s4", (18, 1), 1, (16, 4, 0), (2000,)),
    _row("groups 8, 128 ch k4 s2", (128, 128), 8, (4, 2, 1), (32, 32)),
    _row("groups 4, 64 ch k3 s2", (64, 64), 4, (3, 2, 1), (32, 32)),
    _row("groups 2, 64 ch k4 s2", (64, 64), 2, (4, 2, 1), (32, 32)),
    _row("depthwise 64 k4 s2", (64, 64), 64, (4, 2, 1), (48, 48)),
    _row("depthwise 512 1-D k6 s3", (512, 512), 512, (6, 3, 0), (200,)),
    _row("depthwise 512 1-D k4 s2", (512, 512), 512, (4, 2, 1), (200,)),
    _row("stride 1 k3 64 ch", (64, 64), 1, (3, 1, 1), (56, 56)),
    _row("stride 1 k3 16 ch", (16, 16), 1, (3, 1, 1), (64, 64)),
    _row("stride 1 k1 64 ch", (64, 64), 1, (1, 1, 0), (56, 56)),
    _row("stride 1 k5 1-D 64 ch", (64, 64), 1, (5, 1, 2), (400,)),
    _row("stride 1 k3 d2 32 ch", (32, 32), 1, (3, 1, 2), (56, 56), 2),
    _row("stride 1 k3 depthwise 64", (64, 64), 64, (3, 1, 1), (56, 56)),
    _row("stride 1 k3 3-D 16 ch", (16, 16), 1, (3, 1, 1), (16, 16, 16)),
    _row("HiFi-GAN 512->256 k16 s8", (512, 256), 1, (16, 8, 4), (50,)),
    _row("HiFi-GAN 256->128 k16 s8", (256, 128), 1, (16, 8, 4), (400,)),
    _row("HiFi-GAN 128->64 k4 s2", (128, 64), 1, (4, 2, 1), (3200,)),
    _row("HiFi-GAN 64->32 k4 s2", (64, 32), 1, (4, 2, 1), (6400,)),
    _row("DCGAN 512->256 k4 s2", (512, 256), 1, (4, 2, 1), (8, 8)),
    _row("DCGAN 128->3 k4 s2", (128, 3), 1, (4, 2, 1), (32, 32)),
    _row("U-Net 128->64 k2 s2", (128, 64), 1, (2, 2, 0), (64, 64)),
    _row("U-Net 32->16 k2 s2", (32, 16), 1, (2, 2, 0), (128, 128)),
    _row("k3 s2 64->32", (64, 32), 1, (3, 2, 1), (64, 64)),
    _row("FSRCNN 56->1 k9 s3", (56, 1), 1, (9, 3, 4), (64, 64)),
    _row("FSRCNN 56->1 k9 s3 large", (56, 1), 1, (9, 3, 4), (128, 96)),
    _row("FSRCNN 56->1 k9 s2 large", (56, 1), 1, (9, 2, 4), (128, 96)),
    _row("SAM 256->64 k2 s2", (256, 64), 1, (2, 2, 0), (64, 64)),
    _row("3-D 64->32 k2 s2", (64, 32), 1, (2, 2, 0), (16, 16, 16)),
    _row("3-D 32->16 k3 s2", (32, 16), 1, (3, 2, 1), (16, 16, 16)),
    _row("3-D 96->16 k3 s2", (96, 16), 1, (3, 2, 1), (4, 4, 4)),
    _row("3-D 64->32 k4 s2", (64, 32), 1, (4, 2, 1), (8, 8, 8)),
    _row("3-D 4->4 k3 s2", (4, 4), 1, (3, 2, 1), (4, 4, 4)),
    _row("3-D 4->4 k3 s2 groups 2", (4, 4), 2, (3, 2, 1), (4, 4, 4)),
    _row("3-D depthwise 16 k4 s2", (16, 16), 16, (4, 2, 1), (16, 16, 16)),
    _row("k4 s4 d3 32->32", (32, 32), 1, (4, 4, 0), (48, 48), 3),
    _row("k3 s5 32->32", (32, 32), 1, (3, 5, 0), (48, 48)),
)

# How many times faster than the native node some form has to be, on 1 and on 2 threads.
REQUIRED = {
    "FCN-32s g21 k64 s32": 2.8,
    "FCN-8s g21 k16 s8": 1.2,
    "FCN-8s g21 k4 s2": 1.2,
    "iSTFT k4096 s1024": 1.5,
    "iSTFT k1024 s256": 1.2,
    "groups 8, 128 ch k4 s2": 1.5,
    "stride 1 k3 64 ch": 1.25,
    "depthwise 512 1-D k6 s3": 2.0,
}


def _interpolation(size: int) -> npt.NDArray[np.float32]:
    """Taps of linear interpolation for an even kernel of twice the stride."""
    return (1 - np.abs(np.arange(size) - (size - 1) / 2) / (size / 2)).astype(np.float32)


# What PyTorch's exporter writes unless told otherwise.
OPSET = 18


def model_of(row: Row, opset: int = OPSET, *, followed: bool = False) -> onnx.ModelProto:
    """A model of that node alone, static sizes, or with a LeakyRelu behind it."""
    helper = onnx.helper
    rng = np.random.default_rng(0)
    cin, cout = row.channels
    weight = rng.standard_normal((cin, cout // row.group, *row.kernel)).astype(np.float32)
    if row.bilinear:
        weight[:] = _interpolation(row.kernel[0])[:, None] * _interpolation(row.kernel[1])
    bias = rng.standard_normal(cout).astype(np.float32)
    node = helper.make_node(
        "ConvTranspose",
        ["x", "w", "b"],
        ["t" if followed else "y"],
        name="ct",
        group=row.group,
        strides=list(row.stride),
        pads=list(row.pad) * 2,
        dilations=[row.dilation] * len(row.sizes),
    )
    nodes = [node]
    if followed:
        nodes.append(helper.make_node("LeakyRelu", ["t"], ["y"], name="behind", alpha=0.1))
    kind = onnx.TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", kind, [row.batch, cin, *row.sizes])
    y = helper.make_tensor_value_info("y", kind, [None] * (2 + len(row.sizes)))
    tensors = [onnx.numpy_helper.from_array(a, n) for a, n in ((weight, "w"), (bias, "b"))]
    graph = helper.make_graph(nodes, "row", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
