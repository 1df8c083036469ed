"""The decoder of a 3-D U-Net."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from convt_onnx.models.base import Axes, Module, example


def _axes(factor: str) -> dict[int, str]:
    return {0: "batch", 2: f"{factor}depth", 3: f"{factor}height", 4: f"{factor}width"}


OUTPUTS = ("logits",)
AXES: Axes = {
    "bottleneck": _axes(""),
    "skip3": _axes("2*"),
    "skip2": _axes("4*"),
    "skip1": _axes("8*"),
    "logits": _axes("8*"),
}


class UNet3dDecoder(Module):
    """Decoder of "3D U-Net: Learning Dense Volumetric Segmentation" (2016), padded.

    Three levels of: transposed convolution that keeps the channels, concatenation with the
    encoder's map, two k3 convolutions with BatchNorm and ReLU. The paper upsamples by k2 s2; k3 s2
    p1 with output_padding 1 is what MONAI's UNet has. The convolutions keep the size (the paper's
    shrink it).

        bottleneck [N, 8C, D, H, W], skip3 [N, 4C, 2D, 2H, 2W], skip2 [N, 2C, 4D, 4H, 4W],
        skip1 [N, C, 8D, 8H, 8W] -> logits [N, classes, 8D, 8H, 8W]

    Published: C = 64, 3 classes.

    Args:
        channels: C, the channels of the map with the full resolution.
        classes: Channels of the logits.
        kernels: Kernel size of the upsampling in each of the three levels, 2 or 3.
    """

    def __init__(self, channels: int, classes: int, kernels: Sequence[int]) -> None:
        super().__init__()
        widths = (8 * channels, 4 * channels, 2 * channels, channels)
        levels = zip(widths, widths[1:], kernels, strict=False)
        self.levels = nn.ModuleList(_Level(*sizes) for sizes in levels)
        self.last = nn.Conv3d(channels, classes, 1)

    def forward(self, bottleneck: Tensor, skip3: Tensor, skip2: Tensor, skip1: Tensor) -> Tensor:
        """Gives each voxel a logit per class."""
        x = bottleneck
        for level, skip in zip(self.levels, (skip3, skip2, skip1), strict=True):
            x = level(x, skip)
        return self.last(x)


class _Level(Module):
    """[N, before, D, H, W] and a skip [N, after, 2D, 2H, 2W] -> [N, after, 2D, 2H, 2W]."""

    def __init__(self, before: int, after: int, kernel: int) -> None:
        super().__init__()
        excess = kernel - 2
        self.up = nn.ConvTranspose3d(
            before, before, kernel, 2, padding=excess, output_padding=excess
        )
        self.merge = nn.Sequential(*_layer(before + after, after), *_layer(after, after))

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        return self.merge(torch.cat([skip, self.up(x)], 1))


def _layer(before: int, after: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv3d(before, after, 3, padding=1, bias=False)
    return convolution, nn.BatchNorm3d(after), nn.ReLU()


def build(*, channels: int, classes: int, kernels: Sequence[int], **_: int) -> UNet3dDecoder:
    """The decoder of the given size, its weights not yet drawn."""
    return UNet3dDecoder(channels, classes, kernels)


def inputs(
    *, channels: int, depth: int, height: int, width: int, batch: int, **_: object
) -> dict[str, Tensor]:
    """Example bottleneck [batch, 8 * channels, depth, height, width] and its three skips."""
    maps = {}
    for seed, name in enumerate(("bottleneck", "skip3", "skip2", "skip1")):
        factor = 2**seed
        voxels = (factor * depth, factor * height, factor * width)
        maps[name] = example((batch, 8 * channels // factor, *voxels), seed)
    return maps
