"""How wide ONNX Runtime's CPU kernels are on a kind of processor.

MLAS chooses its kernels by the vectors that the processor has, and with them the channels of a
block and the tiles of a GEMM. Each kind has coefficients of its own in the table of costs.
"""

from __future__ import annotations

from dataclasses import dataclass

from convt_onnx.machine import has_avx512


@dataclass(frozen=True, slots=True)
class Vectors:
    """One kind of processor.

    Attributes:
        name: Its key in the table.
        block: Channels of a block.
        gemm_rows: Rows that a GEMM takes at a time.
        cached_elements: Of four bytes, what a core's second-level cache holds.
    """

    name: str
    block: int
    gemm_rows: int
    cached_elements: int


AVX2 = Vectors("avx2", 8, 6, 1 << 17)
AVX512 = Vectors("avx512", 16, 12, 1 << 18)
KINDS = {v.name: v for v in (AVX2, AVX512)}


def vectors_here() -> Vectors:
    """Of this machine; of a processor that is neither, the narrower ones."""
    return AVX512 if has_avx512() else AVX2
