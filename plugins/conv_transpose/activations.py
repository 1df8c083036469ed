"""Activations that the kernels fuse, by name, with their parameters and torch references."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convt_onnx.errors import UsageError
from convt_onnx.suggest import did_you_mean

if TYPE_CHECKING:
    import torch

# Name -> defaults of (alpha, beta).
ACTIVATIONS: dict[str, tuple[float, float]] = {
    "none": (0.0, 0.0),
    "relu": (0.0, 0.0),
    "leaky_relu": (0.01, 0.0),
    "prelu": (0.0, 0.0),
    "elu": (1.0, 0.0),
    "sigmoid": (0.0, 0.0),
    "tanh": (0.0, 0.0),
    "silu": (0.0, 0.0),
    "gelu": (0.0, 0.0),
    "gelu_tanh": (0.0, 0.0),
    "clip": (-math.inf, math.inf),
}


@dataclass(frozen=True, slots=True)
class Activation:
    """One activation. alpha: slope (leaky_relu), scale (elu), lower end (clip); beta: upper end.

    "prelu" takes its slopes, one an output channel, as a tensor beside it.
    """

    kind: str = "none"
    alpha: float = 0.0
    beta: float = 0.0


NONE = Activation()


def make_activation(
    kind: str | None, alpha: float | None = None, beta: float | None = None
) -> Activation:
    """Activation by name, with defaults for parameters left out.

    Raises:
        UsageError: The name is not known.
    """
    name = kind or "none"
    if name not in ACTIVATIONS:
        raise UsageError(
            "this activation cannot be fused",
            where=f"activation = {name!r}",
            help=did_you_mean(name, ACTIVATIONS),
        )
    default_alpha, default_beta = ACTIVATIONS[name]
    return Activation(
        name,
        default_alpha if alpha is None else float(alpha),
        default_beta if beta is None else float(beta),
    )


def apply_reference(
    y: torch.Tensor, activation: Activation, slope: torch.Tensor | None
) -> torch.Tensor:
    """The activation in torch; y is [N, C, ...], slope [C] or [1]."""
    import torch
    import torch.nn.functional as F

    match activation.kind:
        case "relu":
            return F.relu(y)
        case "leaky_relu":
            return F.leaky_relu(y, activation.alpha)
        case "prelu":
            assert slope is not None
            return F.prelu(y, slope.to(y.dtype))
        case "elu":
            return F.elu(y, activation.alpha)
        case "sigmoid":
            return torch.sigmoid(y)
        case "tanh":
            return torch.tanh(y)
        case "silu":
            return F.silu(y)
        case "gelu":
            return F.gelu(y)
        case "gelu_tanh":
            return F.gelu(y, approximate="tanh")
        case "clip":
            return torch.clamp(y, activation.alpha, activation.beta)
    return y
