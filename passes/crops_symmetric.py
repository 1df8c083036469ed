"""The largest symmetric part of a crop."""

from __future__ import annotations

from dataclasses import dataclass

from convt_onnx.spec import Axis, ConvTransposeSpec


@dataclass(frozen=True, slots=True)
class SymmetricPart:
    """A node with equal pads at both ends, and what is left to crop behind it.

    Attributes:
        spec: pads_begin equals pads_end.
        begin, end: Rows still to drop, one entry a spatial axis.
    """

    spec: ConvTransposeSpec
    begin: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Nothing is left to crop."""
        return not any((*self.begin, *self.end))


def symmetric_part(spec: ConvTransposeSpec) -> SymmetricPart:
    """The symmetric node that computes the fewest rows; the begin crops are not negative.

    Per axis, with begin crop b and net end crop e (pads_end - output_padding)::

        b <= e -> pads (b, b),           e - b more rows dropped at the end
        b > e  -> pads (e + o, e + o),   output_padding o = min(b - e, stride - 1),
                  b - e - o more rows dropped at the begin
    """
    pads, padding = [], []
    for axis in spec.axes():
        extra = _output_padding(axis)
        padding.append(extra)
        pads.append(min(axis.begin, axis.end + extra))
    axes = list(spec.axes())
    return SymmetricPart(
        spec.with_pads([(p, p) for p in pads], tuple(padding)),
        tuple(a.begin - p for a, p in zip(axes, pads, strict=True)),
        tuple(a.end + o - p for a, p, o in zip(axes, pads, padding, strict=True)),
    )


def _output_padding(axis: Axis) -> int:
    """What the node has already may be more than the stride allows, below the dilation."""
    return max(0, min(axis.begin - axis.end, max(axis.stride - 1, -axis.end)))
