"""Packed weights in torch, kept as long as the weight they were made from."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from convt_onnx.plugins.conv_transpose.packing import Packing, gather_index

if TYPE_CHECKING:
    import torch
    from torch.utils.weak import WeakIdKeyDictionary

Key = tuple[int, int, bool, Packing]


def packed_weight(weight: torch.Tensor, packing: Packing, round_to_tf32: bool) -> torch.Tensor:
    """`pack`, remembered per weight tensor until it is changed in place or dies.

    A change through `.data` is not seen; call `forget_packed_weights` after one.
    """
    import torch

    capturing = weight.is_cuda and torch.cuda.is_current_stream_capturing()
    if weight.is_inference():  # no version to tell whether it has changed
        return pack(weight, packing, round_to_tf32)
    kept = _kept().setdefault(weight, {})
    key: Key = (weight._version, weight.data_ptr(), round_to_tf32, packing)
    if key in kept:
        return kept[key]
    packed = pack(weight, packing, round_to_tf32)
    if not capturing:
        if weight.is_cuda:
            torch.cuda.current_stream(weight.device).synchronize()  # other streams may read it
        for old in [k for k in kept if k[:2] != key[:2]]:
            del kept[old]
        kept[key] = packed
    return packed


def pack(weight: torch.Tensor, packing: Packing, round_to_tf32: bool = False) -> torch.Tensor:
    """Weight [C_in, C_out/group, *kernel] as `packing.shape`.

    `round_to_tf32` rounds to nearest, where the matrix instruction would cut off.
    """
    import torch

    flat = torch.cat([weight.detach().reshape(-1), weight.new_zeros(1)])
    packed = flat[_device_index(packing, weight.device)]
    if round_to_tf32:
        bits = packed.view(torch.int32)
        rounded = (bits + 0x1000) & ~0x1FFF
        finite = (bits & 0x7F800000) != 0x7F800000
        packed = torch.where(finite, rounded, bits).view(torch.float32)
    return packed


def forget_packed_weights() -> None:
    """Drop every packed weight."""
    _kept().clear()


@lru_cache(maxsize=1)
def _kept() -> WeakIdKeyDictionary:
    from torch.utils.weak import WeakIdKeyDictionary

    return WeakIdKeyDictionary()


@lru_cache(maxsize=64)
def _device_index(packing: Packing, device: torch.device) -> torch.Tensor:
    import torch

    index = gather_index(packing)
    zero = packing.group * packing.in_per_group * packing.out_per_group // packing.merge
    for axis in packing.axes:
        zero *= axis.kernel
    return torch.from_numpy(index).masked_fill(torch.from_numpy(index < 0), zero).to(device)
