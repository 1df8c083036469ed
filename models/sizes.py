"""The sizes in which each decoder comes: arguments of its file's `build` and `inputs`.

"tiny" exports well under 1 MB and runs in milliseconds; "full" is the published size. The
docstrings of the decoders say what each number means. Importing this file needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Size: TypeAlias = Mapping[str, int | tuple[int, ...]]

_MIMI: Size = {
    "latent": 512,
    "width": 64,
    "ratios": (8, 6, 5, 4),
    "prologue": 2,
    "lstm_layers": 0,
    "last_kernel": 3,
    "encodec": 0,
    "frames": 25,
    "batch": 1,
}
_ENCODEC: Size = {
    "latent": 128,
    "width": 32,
    "ratios": (8, 5, 4, 2),
    "prologue": 0,
    "lstm_layers": 2,
    "last_kernel": 7,
    "encodec": 1,
    "frames": 75,
    "batch": 1,
}
_DCGAN: Size = {"latent": 100, "width": 64, "colours": 3, "doublings": 4, "batch": 1}
_FCN: Size = {
    "classes": 21,
    "head": 8,
    "stages": (64, 128, 256, 512, 512),
    "convolutions": (2, 2, 3, 3, 3),
    "hidden": 4096,
    "height": 500,
    "width": 500,
    "batch": 1,
}
_FCN_TINY: Size = {
    **_FCN,
    "stages": (3, 6, 12, 24, 24),
    "convolutions": (1, 1, 1, 1, 1),
    "hidden": 8,
    "height": 64,
    "width": 80,
}
_FSRCNN: Size = {
    "features": 56,
    "shrunk": 12,
    "mappings": 4,
    "scale": 3,
    "height": 180,
    "width": 320,
    "batch": 1,
}
_FSRCNN_TINY: Size = {
    **_FSRCNN,
    "features": 16,
    "shrunk": 5,
    "mappings": 1,
    "height": 9,
    "width": 11,
}
_HIFIGAN: Size = {
    "mels": 80,
    "channels": 512,
    "rates": (8, 8, 2, 2),
    "kernels": (16, 16, 4, 4),
    "block_kernels": (3, 7, 11),
    "dilations": (1, 3, 5),
    "frames": 200,
    "batch": 1,
}
_HIFIGAN_TINY: Size = {
    **_HIFIGAN,
    "mels": 16,
    "channels": 16,
    "rates": (8, 2),
    "kernels": (16, 4),
    "frames": 12,
}
_ISTFT: Size = {"fft": 1024, "hop": 256, "frames": 376, "batch": 1}
_MASK_DECODER: Size = {"channels": 256, "masks": 4, "height": 64, "width": 64, "batch": 1}
_STYLEGAN2: Size = {
    "in_channels": 512,
    "out_channels": 256,
    "style": 512,
    "resolution": 64,
    "batch": 2,
}
_UNET: Size = {
    "colours": 3,
    "classes": 2,
    "channels": 64,
    "depth": 4,
    "height": 572,
    "width": 572,
    "batch": 1,
}
_UNET3D: Size = {
    "channels": 64,
    "classes": 3,
    "kernels": (2, 2, 2),
    "depth": 8,
    "height": 8,
    "width": 8,
    "batch": 1,
}

SIZES: Mapping[str, Mapping[str, Size]] = {
    "codec": {
        "tiny": {**_MIMI, "latent": 16, "width": 4, "ratios": (4, 3), "frames": 6},
        "tiny-encodec": {**_ENCODEC, "latent": 8, "width": 4, "ratios": (4, 3), "frames": 7},
        "full": _MIMI,
        "full-encodec": _ENCODEC,
    },
    "dcgan": {"tiny": {**_DCGAN, "latent": 16, "width": 4}, "full": _DCGAN},
    "fcn8s": {
        "tiny": _FCN_TINY,
        "tiny-32s": {**_FCN_TINY, "head": 32},
        "full": _FCN,
        "full-32s": {**_FCN, "head": 32},
    },
    "fsrcnn": {
        "tiny": _FSRCNN_TINY,
        "tiny-x2": {**_FSRCNN_TINY, "scale": 2},
        "tiny-x4": {**_FSRCNN_TINY, "scale": 4},
        "full": _FSRCNN,
        "full-x2": {**_FSRCNN, "scale": 2},
        "full-x4": {**_FSRCNN, "scale": 4},
    },
    "hifigan": {
        "tiny": _HIFIGAN_TINY,
        "full": _HIFIGAN,
        "full-v2": {**_HIFIGAN, "channels": 128},
    },
    "istft": {
        "tiny": {**_ISTFT, "fft": 64, "hop": 16, "frames": 12},
        "full": _ISTFT,
        "full-4096": {**_ISTFT, "fft": 4096, "hop": 1024, "frames": 94},
    },
    "mask_decoder": {
        "tiny": {**_MASK_DECODER, "channels": 32, "height": 6, "width": 7},
        "full": _MASK_DECODER,
    },
    "stylegan2": {
        "tiny": {"in_channels": 12, "out_channels": 8, "style": 10, "resolution": 5, "batch": 2},
        "full": _STYLEGAN2,
    },
    "unet": {
        "tiny": {**_UNET, "channels": 4, "depth": 3, "height": 37, "width": 45},
        "full": _UNET,
    },
    "unet3d": {
        "tiny": {
            **_UNET3D,
            "channels": 4,
            "kernels": (2, 3, 2),
            "depth": 2,
            "height": 3,
            "width": 2,
        },
        "full": _UNET3D,
        "full-k3": {**_UNET3D, "kernels": (3, 3, 3)},
    },
}
