"""A compiled kernel as a file that the library reads, and the name it is found by.

The head is one word and its value a line; the PTX follows the line `ptx`. `c/kernel.c` is the
reader. `key` says the same as `convt_key` in `c/node.c`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from convt_onnx.plugin_node import PluginRecord
from convt_onnx.plugins.conv_transpose.compile import Artifact
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.schedule_text import format_schedule

HEAD = "convt-kernel 1"
SUFFIX = ".kernel"
OPEN = "-"
# Instructions of one generation alone: sm_90a runs on 9.0 and nowhere else.
_EXACT_TARGET = re.compile(r"^\.target\s+sm_\d+[af]\b", re.MULTILINE)


def key(record: PluginRecord) -> str:
    """What kernels of a node are found by: its attributes in one line."""
    spec = record.spec
    ends = [e - op for e, op in zip(spec.pads_end, spec.output_padding, strict=True)]
    words = [
        record.dtype,
        _numbers("channels", (spec.in_channels, spec.out_channels, spec.group)),
        _numbers("kernel", spec.kernel),
        _numbers("stride", spec.strides),
        _numbers("dilation", spec.dilations),
        _numbers("begin", spec.pads_begin),
        _numbers("end", ends),
        _numbers("operands", (int(record.has_bias), int(record.has_residual))),
        record.activation.kind,
        _bits(record.activation.alpha),
        _bits(record.activation.beta),
        format_schedule(record.schedule),
    ]
    return " ".join(words)


def text(record: PluginRecord, kernel: KernelSpec, artifact: Artifact) -> str:
    """The file of a kernel that was compiled for a record."""
    lines = [
        HEAD,
        f"key {key(record)}",
        f"target {artifact.capability} "
        + ("exact" if _EXACT_TARGET.search(artifact.ptx) else "portable"),
        "sizes " + " ".join(OPEN if n < 0 else str(n) for n in lifted_sizes(kernel)),
        f"tf32 {int(kernel.tf32)}",
        f"wide {int(kernel.wide)}",
        f"entry {artifact.name}",
        f"launch {artifact.threads} {artifact.shared_bytes}",
        f"grid {artifact.grid.text}",
        *(
            f"pointer {a.name}" if a.value is None else f"number {a.value.text}"
            for a in artifact.arguments
        ),
        "ptx",
        artifact.ptx,
    ]
    return "\n".join(lines)


def lifted_sizes(kernel: KernelSpec) -> list[int]:
    """Batch, depth, height and width of x; -1 where they are open."""
    batch, *spatial = kernel.sizes
    lifted = (batch, *(1,) * (3 - len(spatial)), *spatial)
    return [-1 if n is None else n for n in lifted]


def file_name(record: PluginRecord, kernel: KernelSpec, capability: int) -> str:
    """Starts with the key's hash, which is all that the library looks at."""
    sizes = "x".join(OPEN if n is None else str(n) for n in kernel.sizes)
    variant = ("t" if kernel.tf32 else "") + ("w" if kernel.wide else "")
    return f"{fnv1a(key(record)):016x}-{capability}-{sizes}{variant}{SUFFIX}"


def fnv1a(text: str) -> int:
    """FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def _numbers(name: str, values: Sequence[int]) -> str:
    return f"{name}=" + ",".join(map(str, values))


def _bits(value: float) -> str:
    """The float32's bits, which no way of printing rounds."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return f"{bits:08x}"
