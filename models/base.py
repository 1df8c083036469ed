"""What the decoders share: weights drawn from a seed, at a scale that keeps outputs comparable."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

Axes = dict[str, dict[int, str]]
"""The name of each axis that may change at run time, by graph input or output and axis index."""

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_BATCH_NORMS = (nn.BatchNorm2d, nn.BatchNorm3d)


class Module(nn.Module):  # type: ignore[misc]
    """A `torch.nn.Module` that can draw its weights from a seed.

    torch's own initialisation often leaves outputs near 1e-6, where a comparison proves nothing.
    Here every layer keeps the scale of what it gets, and no weight is symmetric.

    Attributes:
        gain: What the weights are scaled by beyond 1 / sqrt(fan in); sqrt(2) offsets a ReLU.
    """

    gain: ClassVar[float] = 2.0**0.5

    def seeded(self, seed: int) -> Self:
        """Draws every weight anew from `seed` and returns the module in evaluation mode."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            # Children first, so that a parent's `draw` has the last word on them.
            for part in reversed(list(self.modules())):
                if isinstance(part, Module):
                    part.draw(generator)
                else:
                    _draw(part, self.gain, generator)
        self.eval()
        return self

    def draw(self, generator: torch.Generator) -> None:
        """Draws the weights that this module holds itself, outside of torch's layers."""


def example(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """A standard normal float32 tensor of `shape` that depends on nothing but `seed`."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _draw(part: Any, gain: float, generator: torch.Generator) -> None:
    if isinstance(part, (*_CONVOLUTIONS, *_TRANSPOSED, nn.Linear)):
        _draw_weight(part, gain, generator)
    elif isinstance(part, _BATCH_NORMS):
        part.weight.uniform_(0.7, 1.3, generator=generator)
        part.bias.normal_(std=0.1, generator=generator)
        part.running_mean.normal_(std=0.2, generator=generator)
        part.running_var.uniform_(0.6, 1.6, generator=generator)
    elif isinstance(part, nn.PReLU):
        part.weight.uniform_(0.05, 0.4, generator=generator)
    elif isinstance(part, nn.LSTM):
        for weight in part.parameters():
            weight.normal_(std=part.hidden_size**-0.5, generator=generator)


def _draw_weight(part: Any, gain: float, generator: torch.Generator) -> None:
    std = gain * _fan_in(part) ** -0.5
    weight = torch.empty(part.weight.shape).normal_(std=std, generator=generator)
    if parametrize.is_parametrized(part, "weight"):
        part.weight = weight
        # A trained weight_norm has a scale of its own, not the norm of its direction.
        scale = part.parametrizations.weight.original0
        scale.mul_(torch.empty(scale.shape).uniform_(0.7, 1.3, generator=generator))
    else:
        part.weight.copy_(weight)
    if part.bias is not None:
        part.bias.normal_(std=0.1, generator=generator)


def _fan_in(part: Any) -> float:
    """How many products sum up to one output value, on average over the output."""
    if not isinstance(part, _TRANSPOSED):
        return float(part.weight[0].numel())
    taps = prod(max(1.0, k / s) for k, s in zip(part.kernel_size, part.stride, strict=True))
    return float(part.in_channels // part.groups * taps)
