"""The FSRCNN super-resolution network."""

from __future__ import annotations

from torch import Tensor, nn

from convt_onnx.models.base import Axes, Module, example

OUTPUTS = ("upscaled",)
AXES: Axes = {
    "luma": {0: "batch", 2: "height", 3: "width"},
    "upscaled": {0: "batch", 2: "upscaled_height", 3: "upscaled_width"},
}


class Fsrcnn(Module):
    """FSRCNN of "Accelerating the Super-Resolution Convolutional Neural Network" (2016).

    A k5 convolution, k1 to fewer channels, k3 mapping layers, k1 back, PReLU after each; at last a
    k9 transposed convolution with the scale as its stride, padding 4 and output_padding scale - 1.

        luma [N, 1, H, W] -> upscaled [N, 1, scale * H, scale * W]

    Published as FSRCNN(56, 12, 4) for scales 2, 3 and 4.

    Args:
        features: Channels of the first layer and before the last.
        shrunk: Channels of the mapping layers.
        mappings: Number of mapping layers.
        scale: Upscaling factor.
    """

    def __init__(self, features: int, shrunk: int, mappings: int, scale: int) -> None:
        super().__init__()
        layers = [*_layer(1, features, 5), *_layer(features, shrunk, 1)]
        for _ in range(mappings):
            layers += _layer(shrunk, shrunk, 3)
        layers += _layer(shrunk, features, 1)
        up = nn.ConvTranspose2d(features, 1, 9, scale, padding=4, output_padding=scale - 1)
        self.layers = nn.Sequential(*layers, up)

    def forward(self, luma: Tensor) -> Tensor:
        """Upscales one brightness channel."""
        return self.layers(luma)


def _layer(before: int, after: int, kernel: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(before, after, kernel, padding=kernel // 2), nn.PReLU(after)


def build(*, features: int, shrunk: int, mappings: int, scale: int, **_: int) -> Fsrcnn:
    """The network of the given size, its weights not yet drawn."""
    return Fsrcnn(features, shrunk, mappings, scale)


def inputs(*, height: int, width: int, batch: int, **_: int) -> dict[str, Tensor]:
    """Example brightness [batch, 1, height, width], standard normal."""
    return {"luma": example((batch, 1, height, width))}
