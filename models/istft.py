"""The inverse short-time Fourier transform as a transposed convolution."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from convt_onnx.models.base import Axes, Module, example

OUTPUTS = ("audio",)
AXES: Axes = {
    "real": {0: "batch", 2: "frames"},
    "imaginary": {0: "batch", 2: "frames"},
    "audio": {0: "batch", 1: "samples"},
}


class InverseStft(Module):
    """Inverse STFT with a Hann window, equal to `torch.istft(center=True)`.

    One transposed convolution of kernel fft and stride hop overlap-adds the windowed Fourier
    basis; another, over ones, overlap-adds the squared window, by which the first is divided;
    fft / 2 samples go at both ends. Vocos' head has fft 1024 and hop 256 at 24 kHz.

        real, imaginary [N, fft / 2 + 1, frames] -> audio [N, hop * (frames - 1)]

    Args:
        fft: Samples of a window, even.
        hop: Samples between windows, at most fft / 2.
    """

    def __init__(self, fft: int, hop: int) -> None:
        super().__init__()
        self.hop = hop
        self.crop = fft // 2
        window = torch.hann_window(fft, dtype=torch.float64)
        basis = window * _inverse_basis(fft)
        self.register_buffer("basis", basis[:, None].float())
        self.register_buffer("window_square", window.square()[None, None].float())

    def forward(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """Turns a complex spectrogram into samples."""
        spectrum = torch.cat([real, imaginary], 1)
        audio = functional.conv_transpose1d(spectrum, self.basis, stride=self.hop)
        ones = torch.ones_like(real[:1, :1])
        envelope = functional.conv_transpose1d(ones, self.window_square, stride=self.hop)
        kept = slice(self.crop, -self.crop)
        # The envelope is zero at its very ends, so crop before the division.
        return (audio[..., kept] / envelope[..., kept]).squeeze(1)


def _inverse_basis(fft: int) -> Tensor:
    """Rows [fft + 2, fft]: what a unit real, then a unit imaginary part of each bin adds."""
    bins = torch.arange(fft // 2 + 1, dtype=torch.float64)
    samples = torch.arange(fft, dtype=torch.float64)
    angle = 2 * math.pi / fft * bins[:, None] * samples
    # All bins but the first and the last stand for their mirror image as well.
    share = torch.full_like(bins, 2 / fft)
    share[[0, -1]] = 1 / fft
    return torch.cat([share[:, None] * angle.cos(), -share[:, None] * angle.sin()])


def build(*, fft: int, hop: int, **_: int) -> InverseStft:
    """The transform of the given size; it has no weights to draw."""
    return InverseStft(fft, hop)


def inputs(*, fft: int, frames: int, batch: int, **_: int) -> dict[str, Tensor]:
    """Example real and imaginary parts [batch, fft / 2 + 1, frames], scaled as white noise's."""
    shape = (batch, fft // 2 + 1, frames)
    scale = math.sqrt(fft) / 2
    return {"real": scale * example(shape), "imaginary": scale * example(shape, seed=1)}
