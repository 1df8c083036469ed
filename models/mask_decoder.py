"""The mask head of Segment Anything."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convt_onnx.models.base import Axes, Module, example

OUTPUTS = ("masks",)
AXES: Axes = {
    "embedding": {0: "batch", 2: "height", 3: "width"},
    "tokens": {0: "batch"},
    "masks": {0: "batch", 2: "mask_height", 3: "mask_width"},
}


class MaskDecoder(Module):
    """Upscaling and hypernetworks of the mask decoder in "Segment Anything" (2023).

    Two k2 s2 transposed convolutions, LayerNorm over the channels and GELU between, GELU after;
    each mask is the product of the upscaled map with a vector that a three-layer perceptron makes
    of the mask's token. The two-way transformer, whose outputs are the inputs here, is left out.

        embedding [N, channels, H, W], tokens [N, masks, channels] -> masks [N, masks, 4H, 4W]

    Masks are logits. Published: 256 channels, 4 masks, H = W = 64.

    Args:
        channels: Channels of the embedding and length of a token.
        masks: Number of masks.
    """

    gain = 1.0

    def __init__(self, channels: int, masks: int) -> None:
        super().__init__()
        self.upscaling = nn.Sequential(
            nn.ConvTranspose2d(channels, channels // 4, 2, 2),
            _LayerNorm2d(channels // 4),
            nn.GELU(),
            nn.ConvTranspose2d(channels // 4, channels // 8, 2, 2),
            nn.GELU(),
        )
        self.hypernetworks = nn.ModuleList(_perceptron(channels) for _ in range(masks))

    def forward(self, embedding: Tensor, tokens: Tensor) -> Tensor:
        """Draws one mask per token."""
        upscaled = self.upscaling(embedding)
        vectors = [net(tokens[:, index]) for index, net in enumerate(self.hypernetworks)]
        batch, channels, height, width = upscaled.shape
        products = torch.stack(vectors, 1) @ upscaled.view(batch, channels, height * width)
        return products.view(batch, len(vectors), height, width)


class _LayerNorm2d(Module):
    """Normalises over the channels of [N, channels, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def draw(self, generator: torch.Generator) -> None:
        self.weight.uniform_(0.7, 1.3, generator=generator)
        self.bias.normal_(std=0.1, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        variance = centred.square().mean(1, keepdim=True)
        normalised = centred / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * normalised + self.bias[:, None, None]


def _perceptron(channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(channels, channels),
        nn.ReLU(),
        nn.Linear(channels, channels),
        nn.ReLU(),
        nn.Linear(channels, channels // 8),
    )


def build(*, channels: int, masks: int, **_: int) -> MaskDecoder:
    """The head of the given size, its weights not yet drawn."""
    return MaskDecoder(channels, masks)


def inputs(
    *, channels: int, masks: int, height: int, width: int, batch: int, **_: int
) -> dict[str, Tensor]:
    """Example embedding [batch, channels, height, width] and tokens [batch, masks, channels]."""
    return {
        "embedding": example((batch, channels, height, width)),
        "tokens": example((batch, masks, channels), seed=1),
    }
