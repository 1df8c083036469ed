"""Memory formats of TensorRT in which a tensor of the plugin may lie.

Only where no channel is padded: vector formats hold a multiple of their vector, and what stands in
a padded channel is nobody's.
"""

from __future__ import annotations

from typing import Any

# Name: tensor rank, multiple of the channels, element types where not all.
LINEAR = "LINEAR"
CHANNELS_LAST: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "HWC": (4, 1, ("float32",)),
    "HWC8": (4, 8, ("float16", "bfloat16")),
    "HWC16": (4, 16, ("float16",)),
    "DHWC": (5, 1, ("float32",)),
    "DHWC8": (5, 8, ("float16", "bfloat16")),
}


def takes(name: str, *, rank: int, channels: int, dtype: str) -> bool:
    """Whether a tensor [N, channels, *sizes] of that rank may be in a format."""
    if name == LINEAR:
        return True
    if name not in CHANNELS_LAST:
        return False
    wanted, multiple, dtypes = CHANNELS_LAST[name]
    return rank == wanted and channels % multiple == 0 and dtype in dtypes


def name_of(tensor_format: Any) -> str:
    """LINEAR, HWC8, ..., in all versions of the module."""
    return str(tensor_format.name)


def dtype_of(trt: Any, dtype: Any) -> str | None:
    """float32, float16 or bfloat16; None for others."""
    names = {"FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16"}
    for name, ours in names.items():
        if dtype == getattr(trt.DataType, name, None):
            return ours
    return None
