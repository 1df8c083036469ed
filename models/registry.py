"""The table of decoders, without importing torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from convt_onnx.errors import UsageError
from convt_onnx.models.sizes import SIZES, Size
from convt_onnx.suggest import did_you_mean

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One decoder of the table.

    Attributes:
        name: What `get`, `build` and `export` call it.
        summary: One line on its structure.
        module: The file of this package that holds it, without `.py`.
        sizes: By size name, the keyword arguments of that file's `build` and `inputs`. "tiny"
            exports well under 1 MB and runs in milliseconds, "full" is the published size.
        dynamic: Whether it exports with sizes known only at run time.
    """

    name: str
    summary: str
    module: str
    sizes: Mapping[str, Size]
    dynamic: bool = True

    def size(self, name: str) -> Size:
        """The arguments of the size called `name`.

        Raises:
            UsageError: No size has that name.
        """
        return _find(name, self.sizes, f"size of {self.name}")


def names() -> tuple[str, ...]:
    """Every name that `get`, `build` and `export` know, in alphabetical order."""
    return tuple(sorted(_TABLE))


def get(name: str) -> ModelInfo:
    """The table's row for `name`.

    Raises:
        UsageError: No decoder has that name.
    """
    return _find(name, _TABLE, "decoder")


def _find(name: str, table: Mapping[str, _Row], kind: str) -> _Row:
    if name in table:
        return table[name]
    raise UsageError(
        f"no {kind} is named {name!r}",
        where=f"known: {', '.join(sorted(table))}",
        help=did_you_mean(name, sorted(table)),
    )


_SUMMARIES: Mapping[str, str] = {
    "codec": "causal codec decoder: 1-D k2s s with the right end trimmed, depthwise k4 s2 first",
    "dcgan": "DCGAN generator: 2-D k4 s1 and k4 s2 p1, BatchNorm and ReLU after each",
    "fcn8s": "FCN-8s: grouped bilinear k4 s2, k4 s2 and k16 s8 (FCN-32s: k64 s32), cropped",
    "fsrcnn": "FSRCNN: 2-D k9 with stride 2, 3 or 4 and output_padding, one output channel",
    "hifigan": "HiFi-GAN generator: weight-normed 1-D k16 s8 and k4 s2, residual blocks between",
    "istft": "inverse STFT: 1-D k = fft, s = hop, one output channel, divided by its envelope",
    "mask_decoder": "SAM mask head: 2-D k2 s2 twice, LayerNorm and GELU, times hypernetworks",
    "stylegan2": "StyleGAN2 up block: 2-D k3 s2 with weights made per sample, groups = batch, blur",
    "unet": "U-Net: 2-D k2 s2, each map padded to its skip's size, which is taken at run time",
    "unet3d": "3-D U-Net decoder: k2 s2, or k3 s2 p1 with output_padding 1",
}
_STATIC_ONLY = frozenset({"stylegan2"})
_TABLE: Mapping[str, ModelInfo] = {
    name: ModelInfo(name, summary, name, SIZES[name], name not in _STATIC_ONLY)
    for name, summary in _SUMMARIES.items()
}
