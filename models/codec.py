"""Decoder of a causal neural audio codec."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from convt_onnx.models.base import Axes, Module, example

OUTPUTS = ("audio",)
AXES: Axes = {"latents": {0: "batch", 2: "frames"}, "audio": {0: "batch", 2: "samples"}}


class CodecDecoder(Module):
    """Decoder of "High Fidelity Neural Audio Compression" (EnCodec) and of Mimi (Moshi, 2024).

    A k7 convolution, then per ratio a k2s transposed convolution that halves the channels and a
    residual block, then the last convolution. Causal: convolutions are padded at the start alone,
    and each transposed convolution of kernel k and stride s loses its last k - s values. Mimi
    begins with a depthwise transposed convolution; EnCodec has an LSTM after the first convolution.

        latents [N, latent, frames] -> audio [N, 1, samples],
        samples = frames * max(prologue, 1) * product of ratios

    Published: Mimi (24 kHz, 12.5 frames a second) latent 512, width 64, ratios 8 6 5 4; its
    transformer between the two upsamplers is not part of this file. EnCodec (24 kHz, 75 frames a
    second) latent 128, width 32, ratios 8 5 4 2.

    Args:
        latent: Channels of the dequantised latents.
        width: Channels before the last convolution.
        ratios: Strides of the transposed convolutions.
        prologue: Stride of the depthwise transposed convolution; 0 leaves it out.
        lstm_layers: Layers of the LSTM; 0 leaves it out.
        last_kernel: Kernel size of the last convolution.
        encodec: 1 does as EnCodec: weight_norm on every convolution, padding by reflection, a k1
            convolution on shortcuts; needs 7 frames at least. 0 does as Mimi: plain weights,
            zeros, plain shortcuts.
    """

    gain = 1.0

    def __init__(
        self,
        latent: int,
        width: int,
        ratios: Sequence[int],
        prologue: int,
        lstm_layers: int,
        last_kernel: int,
        encodec: int,
    ) -> None:
        super().__init__()
        channels = width << len(ratios)
        layers: list[nn.Module] = []
        if prologue:
            taps = 2 * prologue
            up = nn.ConvTranspose1d(latent, latent, taps, prologue, groups=latent, bias=False)
            layers.append(_TrimmedUpsampler(up))
        layers.append(_CausalConvolution(latent, channels, 7, encodec))
        if lstm_layers:
            layers.append(_ResidualLstm(channels, lstm_layers))
        for ratio in ratios:
            halved = channels // 2
            up = _normed(nn.ConvTranspose1d(channels, halved, 2 * ratio, ratio), encodec)
            layers += (nn.ELU(), _TrimmedUpsampler(up), _ResidualBlock(halved, encodec))
            channels = halved
        layers += (nn.ELU(), _CausalConvolution(channels, 1, last_kernel, encodec))
        self.layers = nn.Sequential(*layers)

    def forward(self, latents: Tensor) -> Tensor:
        """Turns dequantised latents into samples."""
        return self.layers(latents)


class _TrimmedUpsampler(Module):
    """A transposed convolution that sees no future: [N, C, T] -> [N, C', T * stride]."""

    def __init__(self, up: nn.Module) -> None:
        super().__init__()
        self.up = up
        self.trim = up.kernel_size[0] - up.stride[0]

    def forward(self, x: Tensor) -> Tensor:
        return self.up(x)[..., : -self.trim]


class _CausalConvolution(Module):
    """A convolution that sees no future: [N, C, T] -> [N, C', T]."""

    def __init__(self, before: int, after: int, kernel: int, encodec: int) -> None:
        super().__init__()
        self.convolution = _normed(nn.Conv1d(before, after, kernel), encodec)
        self.padding = (kernel - 1, 0)
        self.mode = "reflect" if encodec else "constant"

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(functional.pad(x, self.padding, mode=self.mode))


class _ResidualBlock(Module):
    """A k3 and a k1 convolution over half the channels: [N, channels, T] -> the same shape."""

    def __init__(self, channels: int, encodec: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.ELU(),
            _CausalConvolution(channels, channels // 2, 3, encodec),
            nn.ELU(),
            _normed(nn.Conv1d(channels // 2, channels, 1), encodec),
        )
        self.shortcut: nn.Module = nn.Identity()
        if encodec:
            self.shortcut = weight_norm(nn.Conv1d(channels, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.branch(x)


class _ResidualLstm(Module):
    """An LSTM over time, added to what it got: [N, channels, T] -> the same shape."""

    def __init__(self, channels: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(channels, channels, layers, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x.transpose(1, 2))[0].transpose(1, 2) + x


def _normed(layer: nn.Module, encodec: int) -> nn.Module:
    return weight_norm(layer) if encodec else layer


def build(
    *,
    latent: int,
    width: int,
    ratios: Sequence[int],
    prologue: int,
    lstm_layers: int,
    last_kernel: int,
    encodec: int,
    **_: int,
) -> CodecDecoder:
    """The decoder of the given size, its weights not yet drawn."""
    return CodecDecoder(latent, width, ratios, prologue, lstm_layers, last_kernel, encodec)


def inputs(*, latent: int, frames: int, batch: int, **_: object) -> dict[str, Tensor]:
    """Example latents [batch, latent, frames], standard normal."""
    return {"latents": example((batch, latent, frames))}
