"""The 2-D U-Net."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from convt_onnx.models.base import Axes, Module, example

OUTPUTS = ("logits",)
AXES: Axes = {
    "image": {0: "batch", 2: "height", 3: "width"},
    "logits": {0: "batch", 2: "height", 3: "width"},
}


class UNet(Module):
    """U-Net (Convolutional Networks for Biomedical Image Segmentation, 2015), padded.

    Per level two k3 convolutions with BatchNorm and ReLU, and a halving by max pooling; back up a
    k2 s2 transposed convolution per level, padded to the size of the level's own map, which is an
    odd pixel larger where the halving rounded down. As in the common PyTorch implementation, the
    convolutions keep the size (the paper's shrink it).

        image [N, colours, H, W] -> logits [N, classes, H, W], of any H and W >= 2**depth

    Published: 64 channels, depth 4, 3 colours or 1, 2 classes.

    Args:
        colours: Channels of the image.
        classes: Channels of the logits.
        channels: Channels of the first level; each level down doubles them.
        depth: Number of halvings.
    """

    def __init__(self, colours: int, classes: int, channels: int, depth: int) -> None:
        super().__init__()
        widths = [channels << level for level in range(depth + 1)]
        self.first = _double(colours, channels)
        pairs = list(pairwise(widths))
        self.downs = nn.ModuleList(_double(upper, lower) for upper, lower in pairs)
        self.ups = nn.ModuleList(
            nn.ConvTranspose2d(lower, upper, 2, 2) for upper, lower in reversed(pairs)
        )
        self.merges = nn.ModuleList(_double(lower, upper) for upper, lower in reversed(pairs))
        self.last = nn.Conv2d(channels, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Gives each pixel a logit per class."""
        x = self.first(image)
        skips = []
        for down in self.downs:
            skips.append(x)
            x = down(functional.max_pool2d(x, 2))
        for up, merge in zip(self.ups, self.merges, strict=True):
            skip = skips.pop()
            x = merge(torch.cat([skip, _pad_to(up(x), skip)], 1))
        return self.last(x)


def _pad_to(x: Tensor, skip: Tensor) -> Tensor:
    rows = skip.shape[2] - x.shape[2]
    columns = skip.shape[3] - x.shape[3]
    sides = [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2]
    return functional.pad(x, sides)


def _double(before: int, after: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    )


def build(*, colours: int, classes: int, channels: int, depth: int, **_: int) -> UNet:
    """The network of the given size, its weights not yet drawn."""
    return UNet(colours, classes, channels, depth)


def inputs(*, colours: int, height: int, width: int, batch: int, **_: int) -> dict[str, Tensor]:
    """Example image [batch, colours, height, width], standard normal."""
    return {"image": example((batch, colours, height, width))}
