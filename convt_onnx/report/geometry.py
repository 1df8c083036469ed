"""A node's geometry and what follows it, in words."""

from __future__ import annotations

from collections.abc import Sequence

from convt_onnx.graph.epilogue import Epilogue
from convt_onnx.reasons import REASONS, Refusal
from convt_onnx.spec import ConvTransposeSpec


def geometry_text(spec: ConvTransposeSpec | None) -> str:
    """Channels, kernel, stride, and what is not at its default."""
    if spec is None:
        return "?"
    parts = [f"{spec.in_channels}->{spec.out_channels}", "k" + _joined(spec.kernel)]
    parts.append("s" + _joined(spec.strides))
    if any(spec.pads_begin) or any(spec.pads_end):
        begin, end = _joined(spec.pads_begin), _joined(spec.pads_end)
        parts.append(f"p{begin}" if begin == end else f"p{begin}|{end}")
    if any(spec.output_padding):
        parts.append("op" + _joined(spec.output_padding))
    if any(d > 1 for d in spec.dilations):
        parts.append("d" + _joined(spec.dilations))
    if spec.group > 1:
        parts.append(f"g{spec.group}")
    return " ".join(parts)


def _joined(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "×".join(map(str, values))


def epilogue_text(epilogue: Epilogue | Refusal) -> str:
    """Activation and residual in their order, or why there is none."""
    if isinstance(epilogue, Refusal):
        return f"no: {epilogue.id} {REASONS[epilogue.id].title} ({epilogue.detail})"
    numbers = ", ".join(f"{v:.6g}" for v in epilogue.parameters[:4])
    more = ", ..." if len(epilogue.parameters) > 4 else ""
    activation = f"{epilogue.activation}({numbers}{more})" if numbers else epilogue.activation
    parts = {"activation": activation, "residual": f"Add of {epilogue.residual}"}
    return f"{', then '.join(str(parts[o]) for o in epilogue.order)} -> {epilogue.output}"
