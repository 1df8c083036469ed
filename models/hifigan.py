"""HiFi-GAN's generator."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from convt_onnx.models.base import Axes, Module, example

OUTPUTS = ("audio",)
AXES: Axes = {"mel": {0: "batch", 2: "frames"}, "audio": {0: "batch", 2: "samples"}}
_SLOPE = 0.1


class HifiGan(Module):
    """Generator of "HiFi-GAN: Generative Adversarial Networks for Efficient Speech Synthesis".

    A k7 convolution, then per rate a transposed convolution that halves the channels and the mean
    of residual blocks with different kernels (multi-receptive field fusion), then k7 and tanh.
    Every convolution is weight-normed.

        mel [N, mels, frames] -> audio [N, 1, frames * product of rates]

    The mel spectrogram is in log magnitude, the audio's values lie in -1 to 1. Published as V1
    (22.05 kHz, 256 samples a frame): 512 channels, rates 8 8 2 2, kernels 16 16 4 4; V2 has 128.

    Args:
        mels: Mel bands.
        channels: Channels before the first upsampling.
        rates: Strides of the transposed convolutions.
        kernels: Their kernel sizes; each is cropped by (kernel - rate) / 2 at both ends.
        block_kernels: Kernel sizes of the residual blocks after each upsampling.
        dilations: Dilations of the three residual layers in each block.
    """

    gain = 1.0

    def __init__(
        self,
        mels: int,
        channels: int,
        rates: Sequence[int],
        kernels: Sequence[int],
        block_kernels: Sequence[int],
        dilations: Sequence[int],
    ) -> None:
        super().__init__()
        self.first = weight_norm(nn.Conv1d(mels, channels, 7, padding=3))
        self.ups = nn.ModuleList()
        self.fusions = nn.ModuleList()
        for rate, kernel in zip(rates, kernels, strict=True):
            halved = channels // 2
            crop = (kernel - rate) // 2
            up = nn.ConvTranspose1d(channels, halved, kernel, rate, padding=crop)
            self.ups.append(weight_norm(up))
            blocks = (_ResidualBlock(halved, size, dilations) for size in block_kernels)
            self.fusions.append(nn.ModuleList(blocks))
            channels = halved
        self.last = weight_norm(nn.Conv1d(channels, 1, 7, padding=3))

    def forward(self, mel: Tensor) -> Tensor:
        """Turns log-mel frames into samples."""
        x = self.first(mel)
        for up, blocks in zip(self.ups, self.fusions, strict=True):
            x = up(functional.leaky_relu(x, _SLOPE))
            x = sum(block(x) for block in blocks) / len(blocks)
        return torch.tanh(self.last(functional.leaky_relu(x)))


class _ResidualBlock(Module):
    """Dilated layers, each added to what it got: [N, channels, T] -> the same shape."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.dilated = nn.ModuleList(_same(channels, kernel, step) for step in dilations)
        self.plain = nn.ModuleList(_same(channels, kernel, 1) for _ in dilations)

    def forward(self, x: Tensor) -> Tensor:
        for dilated, plain in zip(self.dilated, self.plain, strict=True):
            branch = dilated(functional.leaky_relu(x, _SLOPE))
            x = x + plain(functional.leaky_relu(branch, _SLOPE))
        return x


def _same(channels: int, kernel: int, dilation: int) -> nn.Module:
    padding = dilation * (kernel - 1) // 2
    layer = nn.Conv1d(channels, channels, kernel, padding=padding, dilation=dilation)
    return weight_norm(layer)


def build(
    *,
    mels: int,
    channels: int,
    rates: Sequence[int],
    kernels: Sequence[int],
    block_kernels: Sequence[int],
    dilations: Sequence[int],
    **_: int,
) -> HifiGan:
    """The generator of the given size, its weights not yet drawn."""
    return HifiGan(mels, channels, rates, kernels, block_kernels, dilations)


def inputs(*, mels: int, frames: int, batch: int, **_: object) -> dict[str, Tensor]:
    """Example mel spectrogram [batch, mels, frames], standard normal."""
    return {"mel": example((batch, mels, frames))}
