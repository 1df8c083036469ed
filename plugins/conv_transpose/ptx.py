"""PTX as it comes from Triton, made fit for hosts that pass declared arguments and nothing else."""

from __future__ import annotations

import re
from typing import Any

from convt_onnx.errors import UsageError

SHARED_LIMIT = 49152
_REPORT = "please report this with the version of triton"
# PTX versions that the drivers of each generation's first toolkit read.
PTX_VERSIONS = {75: 80, 80: 80, 86: 80, 89: 80, 90: 80, 100: 87, 103: 88, 120: 87}


def require_capability(capability: int) -> None:
    """Refuse a compute capability that no PTX is made for.

    Raises:
        UsageError: It is not a key of PTX_VERSIONS.
    """
    if capability not in PTX_VERSIONS:
        raise UsageError(
            f"no PTX is made for compute capability {capability}",
            help="choose one of " + ", ".join(map(str, PTX_VERSIONS)),
        )


def without_scratch(ptx: str, count: int) -> str:
    """The entry with its first `count` parameters.

    Triton declares two pointers to scratch memory behind them, which no host passes.

    Raises:
        UsageError: There is no entry, or it uses what would be cut off.
    """
    match = re.search(r"(\.entry\s+(\w+)\()(.*?)(\n?\))", ptx, re.DOTALL)
    if match is None:
        raise UsageError("the compiled kernel has no entry", help=_REPORT)
    parameters = [p.strip() for p in match.group(3).split(",") if p.strip()]
    for extra in parameters[count:]:
        name = extra.split()[-1].split("[")[0]
        if ptx.count(name) > 1:
            raise UsageError(
                "the compiled kernel uses hidden scratch memory", where=name, help=_REPORT
            )
    kept = ",\n\t".join(parameters[:count])
    return ptx[: match.start()] + f"{match.group(1)}\n\t{kept}\n)" + ptx[match.end() :]


def require_plain(metadata: Any, ptx: str) -> None:
    """Refuse what cannot be launched with pointers and int32 numbers alone.

    Raises:
        UsageError: More than SHARED_LIMIT bytes shared, scratch memory, a cluster, two entries.
    """
    scratch = getattr(metadata, "global_scratch_size", 0) or 0
    scratch += getattr(metadata, "profile_scratch_size", 0) or 0
    clusters = getattr(metadata, "num_ctas", 1)
    if metadata.shared > SHARED_LIMIT or scratch or clusters != 1 or ptx.count(".entry") != 1:
        raise UsageError(
            "the compiled kernel does not keep to the limits of ahead-of-time plugins",
            where=f"shared {metadata.shared}, scratch {scratch}, clusters {clusters}",
            help=f"give a schedule with smaller tiles (at most {SHARED_LIMIT} bytes shared)",
        )
