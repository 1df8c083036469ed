"""The upsampling block of StyleGAN2's synthesis network."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from convt_onnx.models.base import Axes, Module, example

OUTPUTS = ("new_features", "new_image")
AXES: Axes = {}


class UpBlock(Module):
    """One resolution of "Analyzing and Improving the Image Quality of StyleGAN" (2019).

    Two k3 convolutions and the k1 convolution to RGB, each with a weight scaled by its style and,
    but for the last, normalised per output channel (demodulated). The first doubles the size: a k3
    s2 transposed convolution over all samples at once, groups = batch, then a 4 x 4 blur. The
    image so far is doubled by the same blur as a depthwise k4 s2 transposed convolution. Noise is
    constant, as it is for rendering.

        features [N, in_channels, R, R], image [N, 3, R, R], styles [N, 3, style]
        -> new_features [N, out_channels, 2R, 2R], new_image [N, 3, 2R, 2R]

    The group count of a graph is fixed, so N is fixed too. Published (config F, 64 to 128
    pixels): 512 to 256 channels, styles of length 512.

    Args:
        in_channels: Channels before.
        out_channels: Channels after.
        style: Length of a style vector.
        resolution: R, pixels per side before.
    """

    gain = 1.0

    def __init__(self, in_channels: int, out_channels: int, style: int, resolution: int) -> None:
        super().__init__()
        self.up = _StyledLayer(in_channels, out_channels, style, 2 * resolution, up=True)
        self.plain = _StyledLayer(out_channels, out_channels, style, 2 * resolution, up=False)
        self.to_rgb = _ModulatedConvolution(out_channels, 3, 1, style, demodulate=False)
        self.rgb_bias = nn.Parameter(torch.zeros(3, 1, 1))
        self.register_buffer("fir", _fir())

    def draw(self, generator: torch.Generator) -> None:
        """Draws the bias of the RGB layer."""
        self.rgb_bias.normal_(std=0.1, generator=generator)

    def forward(self, features: Tensor, image: Tensor, styles: Tensor) -> tuple[Tensor, Tensor]:
        """Doubles the features and the image, and adds this resolution's detail to the image."""
        x = self.up(features, styles[:, 0])
        x = self.plain(x, styles[:, 1])
        fir = self.fir.repeat(3, 1, 1, 1)
        doubled = functional.conv_transpose2d(image, fir, stride=2, padding=1, groups=3)
        return x, doubled + self.to_rgb(x, styles[:, 2]) + self.rgb_bias


class _StyledLayer(Module):
    """Modulated k3 convolution, blur where it doubles the size, noise, bias, leaky ReLU."""

    def __init__(self, before: int, after: int, style: int, pixels: int, up: bool) -> None:
        super().__init__()
        self.convolution = _ModulatedConvolution(before, after, 3, style, demodulate=True)
        self.double = up
        self.bias = nn.Parameter(torch.zeros(after, 1, 1))
        self.noise_strength = nn.Parameter(torch.zeros(()))
        self.register_buffer("noise", torch.zeros(pixels, pixels))
        self.register_buffer("fir", _fir())

    def draw(self, generator: torch.Generator) -> None:
        self.bias.normal_(std=0.1, generator=generator)
        self.noise_strength.fill_(0.1)
        self.noise.normal_(generator=generator)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        x = self.convolution(x, style, up=self.double)
        if self.double:
            channels = x.shape[1]
            fir = self.fir.repeat(channels, 1, 1, 1)
            x = functional.conv2d(x, fir, padding=1, groups=channels)
        x = x + self.noise_strength * self.noise + self.bias
        return functional.leaky_relu(x, 0.2) * math.sqrt(2)


class _ModulatedConvolution(Module):
    """A convolution whose weight is made per sample: [N, before, H, W] -> [N, after, H', W']."""

    def __init__(
        self, before: int, after: int, kernel: int, style: int, *, demodulate: bool
    ) -> None:
        super().__init__()
        self.affine = nn.Linear(style, before)
        self.weight = nn.Parameter(torch.empty(after, before, kernel, kernel))
        self.demodulate = demodulate

    def draw(self, generator: torch.Generator) -> None:
        self.weight.normal_(std=self.weight[0].numel() ** -0.5, generator=generator)
        self.affine.bias.add_(1)

    def forward(self, x: Tensor, style: Tensor, up: bool = False) -> Tensor:
        batch, before, height, width = x.shape
        weight = self.weight * self.affine(style)[:, None, :, None, None]
        if self.demodulate:
            energy = weight.square().sum((2, 3, 4), keepdim=True)
            weight = weight * torch.rsqrt(energy + 1e-8)
        folded = x.reshape(1, batch * before, height, width)
        if up:
            y = functional.conv_transpose2d(
                folded, weight.transpose(1, 2).flatten(0, 1), stride=2, groups=batch
            )
        else:
            padding = weight.shape[-1] // 2
            y = functional.conv2d(folded, weight.flatten(0, 1), padding=padding, groups=batch)
        return y.reshape(batch, -1, *y.shape[2:])


def _fir() -> Tensor:
    """The binomial filter 1 3 3 1 in two dimensions [1, 1, 4, 4], with gain 4 for the zeros."""
    line = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
    return 4 * (line[:, None] * line)[None, None]


def build(*, in_channels: int, out_channels: int, style: int, resolution: int, **_: int) -> UpBlock:
    """The block of the given size, its weights not yet drawn."""
    return UpBlock(in_channels, out_channels, style, resolution)


def inputs(
    *, in_channels: int, style: int, resolution: int, batch: int, **_: int
) -> dict[str, Tensor]:
    """Example features, image (values near -1 to 1) and styles, normal."""
    return {
        "features": example((batch, in_channels, resolution, resolution)),
        "image": 0.5 * example((batch, 3, resolution, resolution), seed=1),
        "styles": example((batch, 3, style), seed=2),
    }
