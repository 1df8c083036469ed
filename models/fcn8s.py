"""FCN-8s and FCN-32s over VGG-16."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from convt_onnx.models.base import Axes, Module, example

OUTPUTS = ("scores",)
AXES: Axes = {
    "image": {0: "batch", 2: "height", 3: "width"},
    "scores": {0: "batch", 2: "height", 3: "width"},
}
_BORDER = 100


class Fcn(Module):
    """FCN-8s and FCN-32s of "Fully Convolutional Networks for Semantic Segmentation" (2015).

    VGG-16 with a border of 100 pixels, its dense layers turned into k7 and k1 convolutions, and a
    score per class. Head 32 upsamples the scores by k64 s32. Head 8 doubles them by k4 s2, adds
    the scores of pool 4, doubles again, adds those of pool 3, and upsamples by k16 s8. All of
    them are bilinear, one group per class, without bias; crops undo the border.

        image [N, 3, H, W] -> scores [N, classes, H, W]

    Published: 21 classes (PASCAL VOC), stages 64 128 256 512 512, 4096 hidden channels.

    Args:
        classes: Number of classes.
        head: 8 or 32, the stride of the last upsampling.
        stages: Channels of the five stages.
        convolutions: Number of k3 convolutions in each stage.
        hidden: Channels of the two layers that VGG has as dense ones.
    """

    gain = 1.2

    def __init__(
        self,
        classes: int,
        head: int,
        stages: Sequence[int],
        convolutions: Sequence[int],
        hidden: int,
    ) -> None:
        super().__init__()
        befores = (3, *stages)
        parts = [_stage(*sizes) for sizes in zip(befores, stages, convolutions, strict=False)]
        parts[0][0].padding = (_BORDER, _BORDER)
        self.pool3 = nn.Sequential(*parts[:3])
        self.pool4 = parts[3]
        self.fc7 = nn.Sequential(
            parts[4],
            nn.Conv2d(stages[4], hidden, 7),
            nn.ReLU(),
            nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(),
        )
        self.score = nn.Conv2d(hidden, classes, 1)
        self.head: Module
        if head == 32:
            self.head = _Head32(classes)
        else:
            self.head = _Head8(classes, pool3=stages[2], pool4=stages[3])

    def forward(self, image: Tensor) -> Tensor:
        """Scores every pixel for every class."""
        pool3 = self.pool3(image)
        pool4 = self.pool4(pool3)
        return self.head(self.score(self.fc7(pool4)), pool4, pool3, image)


class _Head8(Module):
    """Three upsamplings with the scores of pool 4 and pool 3 added between."""

    def __init__(self, classes: int, pool3: int, pool4: int) -> None:
        super().__init__()
        self.score3 = nn.Conv2d(pool3, classes, 1)
        self.score4 = nn.Conv2d(pool4, classes, 1)
        self.double4 = _Bilinear(classes, 4, 2)
        self.double3 = _Bilinear(classes, 4, 2)
        self.up = _Bilinear(classes, 16, 8)

    def forward(self, scores: Tensor, pool4: Tensor, pool3: Tensor, image: Tensor) -> Tensor:
        x = self.double4(scores)
        x = self.double3(x + _crop(self.score4(pool4), 5, x))
        x = self.up(x + _crop(self.score3(pool3), 9, x))
        return _crop(x, 31, image)


class _Head32(Module):
    """One upsampling by 32."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.up = _Bilinear(classes, 64, 32)

    def forward(self, scores: Tensor, _pool4: Tensor, _pool3: Tensor, image: Tensor) -> Tensor:
        return _crop(self.up(scores), 19, image)


class _Bilinear(Module):
    """A transposed convolution that interpolates: [N, C, H, W] -> [N, C, (H-1)*s+k, (W-1)*s+k]."""

    def __init__(self, channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        steps = torch.arange(kernel, dtype=torch.float32)
        line = 1 - (steps - (kernel - 1) / 2).abs() / (kernel / 2)
        square = line[:, None] * line[None, :]
        self.register_buffer("weight", square.repeat(channels, 1, 1, 1))
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        groups = self.weight.shape[0]
        return functional.conv_transpose2d(x, self.weight, stride=self.stride, groups=groups)


def _crop(x: Tensor, offset: int, like: Tensor) -> Tensor:
    return x.narrow(2, offset, like.shape[2]).narrow(3, offset, like.shape[3])


def _stage(before: int, after: int, convolutions: int) -> nn.Module:
    layers: list[nn.Module] = []
    for channels in (before, *[after] * (convolutions - 1)):
        layers += (nn.Conv2d(channels, after, 3, padding=1), nn.ReLU())
    return nn.Sequential(*layers, nn.MaxPool2d(2, 2, ceil_mode=True))


def build(
    *,
    classes: int,
    head: int,
    stages: Sequence[int],
    convolutions: Sequence[int],
    hidden: int,
    **_: int,
) -> Fcn:
    """The network of the given size, its weights not yet drawn."""
    return Fcn(classes, head, stages, convolutions, hidden)


def inputs(*, height: int, width: int, batch: int, **_: object) -> dict[str, Tensor]:
    """Example image [batch, 3, height, width], standard normal."""
    return {"image": example((batch, 3, height, width))}
