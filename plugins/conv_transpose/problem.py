"""What the choice of a schedule depends on: pure data, no tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from convt_onnx.spec import ConvTransposeSpec

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Problem:
    """One call. `sizes` are the spatial input sizes, `dtype` a key of DTYPE_BYTES.

    `channels_last_in` / `_out`: the channel axis has stride 1 in x / in y. `tf32`: float32
    products may be rounded to TF32.
    """

    spec: ConvTransposeSpec
    batch: int
    sizes: tuple[int, ...]
    dtype: str
    channels_last_in: bool = False
    channels_last_out: bool = False
    tf32: bool = False

    def merged(self, count: int) -> Problem:
        """The call with so many groups computed as one."""
        if count == 1:
            return self
        return replace(self, spec=replace(self.spec, group=self.spec.group // count))

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of x, the weight and y."""
        return DTYPE_BYTES[self.dtype]

    @property
    def in_sizes(self) -> tuple[int, int, int]:
        """Spatial input sizes lifted to three axes."""
        return _lift(self.sizes)

    @property
    def out_sizes(self) -> tuple[int, int, int]:
        """Spatial output sizes lifted to three axes."""
        return _lift(self.spec.output_sizes(self.sizes))

    @property
    def out_elements(self) -> int:
        """Elements of y."""
        return self.batch * self.spec.out_channels * prod(self.out_sizes)

    @property
    def in_elements(self) -> int:
        """Elements of x."""
        return self.batch * self.spec.in_channels * prod(self.in_sizes)

    @property
    def floor_bytes(self) -> int:
        """Fewest bytes to move: x, the weight and y once."""
        weight = prod(self.spec.weight_shape)
        return (self.in_elements + self.out_elements + weight) * self.element_bytes


@dataclass(frozen=True, slots=True)
class Device:
    """The device as far as tiles depend on it."""

    name: str = "NVIDIA H200"
    capability: int = 90
    processors: int = 132
    shared_bytes: int = 232448


def _lift(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    depth, height, width = (1,) * (3 - len(sizes)) + sizes
    return depth, height, width
