"""DCGAN's generator."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from convt_onnx.models.base import Axes, Module, example

OUTPUTS = ("image",)
AXES: Axes = {"noise": {0: "batch"}, "image": {0: "batch"}}


class Dcgan(Module):
    """Generator of "Unsupervised Representation Learning with Deep Convolutional GANs" (2015).

    A k4 s1 transposed convolution makes 4 x 4 pixels, each k4 s2 p1 doubles them and halves the
    channels. BatchNorm and ReLU follow each but the last, which tanh follows. No biases.

        noise [N, latent, 1, 1] -> image [N, colours, 4 * 2**doublings, 4 * 2**doublings]

    The image's values lie in -1 to 1. Published: latent 100, width 64, 3 colours, 64 x 64 pixels.

    Args:
        latent: Length of the noise vector.
        width: Channels before the last layer.
        colours: Channels of the image.
        doublings: Number of stride 2 layers.
    """

    def __init__(self, latent: int, width: int, colours: int, doublings: int) -> None:
        super().__init__()
        channels = [width << level for level in reversed(range(doublings))]
        layers: list[nn.Module] = [*_up(latent, channels[0], stride=1, padding=0)]
        for before, after in pairwise(channels):
            layers += _up(before, after, stride=2, padding=1)
        layers.append(nn.ConvTranspose2d(width, colours, 4, 2, 1, bias=False))
        self.layers = nn.Sequential(*layers, nn.Tanh())

    def forward(self, noise: Tensor) -> Tensor:
        """Makes one image of each noise vector."""
        return self.layers(noise)


def _up(before: int, after: int, stride: int, padding: int) -> tuple[nn.Module, ...]:
    up = nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False)
    return up, nn.BatchNorm2d(after), nn.ReLU()


def build(*, latent: int, width: int, colours: int, doublings: int, **_: int) -> Dcgan:
    """The generator of the given size, its weights not yet drawn."""
    return Dcgan(latent, width, colours, doublings)


def inputs(*, latent: int, batch: int, **_: int) -> dict[str, Tensor]:
    """Example noise [batch, latent, 1, 1], standard normal."""
    return {"noise": example((batch, latent, 1, 1))}
