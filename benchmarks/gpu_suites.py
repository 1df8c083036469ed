"""The shapes that the GPU benchmarks run: the FlagGems nine and a suite from deployed models."""

from __future__ import annotations

from dataclasses import dataclass

from convt_onnx.spec import ConvTransposeSpec


@dataclass(frozen=True, slots=True)
class Shape:
    """One row of a benchmark."""

    name: str
    spec: ConvTransposeSpec
    batch: int
    sizes: tuple[int, ...]


def shape(
    name: str,
    batch: int,
    channels: tuple[int, int],
    sizes: tuple[int, ...],
    kernel: int,
    stride: int,
    pad: int = 0,
    output_padding: int = 0,
    group: int = 1,
    dilation: int = 1,
) -> Shape:
    """A row with the same numbers on every axis."""
    n = len(sizes)
    each = [(v,) * n for v in (kernel, stride, dilation, pad, pad, output_padding)]
    return Shape(name, ConvTransposeSpec(*channels, group, *each), batch, sizes)


FLAGGEMS = (
    shape("1 s1_g2", 16, (32, 24), (24, 24), 3, 1, 1, 0, 2),
    shape("2 s2_g2", 16, (32, 24), (24, 24), 3, 2, 1, 1, 2),
    shape("3 s2_64", 32, (64, 32), (64, 64), 3, 2, 1, 1),
    shape("4 s2_k5_128", 32, (64, 32), (128, 128), 5, 2, 2, 1),
    shape("5 s3_k5_128", 4, (32, 32), (128, 128), 5, 3, 2, 0),
    shape("6 s3_g2", 16, (32, 24), (24, 24), 3, 3, 1, 0, 2),
    shape("7 s4_g2", 16, (32, 24), (24, 24), 3, 4, 1, 0, 2),
    shape("8 s4_32", 8, (32, 32), (32, 32), 3, 4, 1, 0),
    shape("9 s8_32", 4, (32, 32), (32, 32), 3, 8, 1, 0),
)

DEPLOYED = (
    shape("vocoder k16 s8 512-256", 1, (512, 256), (128,), 16, 8, 4),
    shape("vocoder k16 s8 256-128", 1, (256, 128), (1024,), 16, 8, 4),
    shape("vocoder k4 s2 128-64", 1, (128, 64), (8192,), 4, 2, 1),
    shape("vocoder k4 s2 64-32", 1, (64, 32), (16384,), 4, 2, 1),
    shape("vocoder k4 s2 64-32 b32", 32, (64, 32), (16384,), 4, 2, 1),
    shape("depthwise 1-D k4 s2", 8, (512, 512), (4096,), 4, 2, 1, 0, 512),
    shape("depthwise 1-D k6 s3", 8, (256, 256), (4096,), 6, 3, 2, 1, 256),
    shape("istft k4096 s1024", 1, (1026, 1), (431,), 4096, 1024),
    shape("dcgan 100-512 k4 s1", 32, (100, 512), (1, 1), 4, 1),
    shape("dcgan 512-256 k4 s2", 32, (512, 256), (4, 4), 4, 2, 1),
    shape("dcgan 256-128 k4 s2", 32, (256, 128), (8, 8), 4, 2, 1),
    shape("dcgan 128-64 k4 s2", 32, (128, 64), (16, 16), 4, 2, 1),
    shape("dcgan 64-3 k4 s2", 32, (64, 3), (32, 32), 4, 2, 1),
    shape("unet 256-128 k2 s2", 8, (256, 128), (64, 64), 2, 2),
    shape("unet 128-64 k2 s2", 8, (128, 64), (128, 128), 2, 2),
    shape("mask decoder 256-64", 1, (256, 64), (64, 64), 2, 2),
    shape("fsrcnn 56-1 k9 s3", 1, (56, 1), (180, 320), 9, 3, 4, 2),
    shape("fcn g21 k4 s2", 1, (21, 21), (32, 32), 4, 2, 1, 0, 21),
    shape("fcn g21 k16 s8", 1, (21, 21), (64, 64), 16, 8, 4, 0, 21),
    shape("fcn g21 k64 s32", 1, (21, 21), (16, 16), 64, 32, 16, 0, 21),
    shape("unet3d 128-64 k2 s2", 1, (128, 64), (32, 32, 32), 2, 2),
    shape("unet3d 64-32 k3 s2", 1, (64, 32), (32, 32, 32), 3, 2, 1, 1),
    shape("stride 1 64-64 k3", 8, (64, 64), (64, 64), 3, 1, 1),
    shape("1x1 128-64", 8, (128, 64), (64, 64), 1, 1),
    shape("dilation 2 s1 64-64", 8, (64, 64), (64, 64), 3, 1, 2, 0, 1, 2),
    shape("dilation 3 s2 64-64", 8, (64, 64), (64, 64), 3, 2, 3, 0, 1, 3),
    shape("dilation 2 s2 64-64", 8, (64, 64), (64, 64), 3, 2, 2, 0, 1, 2),
    shape("wide 512-256 64x64", 4, (512, 256), (64, 64), 3, 2, 1, 1),
    shape("wide 512-256 128x128", 1, (512, 256), (128, 128), 3, 2, 1, 1),
    shape("grouped g8 64-64 k4 s2", 8, (64, 64), (64, 64), 4, 2, 1, 0, 8),
    shape("depthwise 2-D 256 k4 s2", 8, (256, 256), (64, 64), 4, 2, 1, 0, 256),
)

SUITES = {"flaggems": FLAGGEMS, "deployed": DEPLOYED}

# Microseconds of the kernel of FlagGems PR #3405 as merged, on an H200 (torch 2.11, Triton 3.6,
# CUDA-graph medians, warm L2), for float16 and for exact float32: its one float32 mode.
FLAGGEMS_US = {
    "1 s1_g2": {"float16": 5.6, "exact": 12.3},
    "2 s2_g2": {"float16": 5.7, "exact": 7.9},
    "3 s2_64": {"float16": 108.1, "exact": 401.5},
    "4 s2_k5_128": {"float16": 714.0, "exact": 5385.3},
    "5 s3_k5_128": {"float16": 98.1, "exact": 356.1},
    "6 s3_g2": {"float16": 9.6, "exact": 15.5},
    "7 s4_g2": {"float16": 11.4, "exact": 17.4},
    "8 s4_32": {"float16": 14.3, "exact": 21.7},
    "9 s8_32": {"float16": 15.9, "exact": 24.0},
}
