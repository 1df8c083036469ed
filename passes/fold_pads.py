"""Zeros written around the input or the output of a ConvTranspose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import onnx_ir as ir

from convt_onnx.capabilities import NATIVE
from convt_onnx.decide import setting_for
from convt_onnx.forms import FORMS
from convt_onnx.forms.native import expressible, write_attributes
from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.evaluate import Evaluator
from convt_onnx.graph.node import ConvTransposeNode, FoundNode, find_nodes, read_node
from convt_onnx.graph.operands import ConstantOperand
from convt_onnx.passes.base import Pass
from convt_onnx.passes.neighbours_absorb import Tail, absorb, read_elsewhere, readers
from convt_onnx.passes.neighbours_pads import ZeroPad, read_pad
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.standard import is_standard


class FoldPads(Pass):
    """Folds a Pad with zeros before or behind a ConvTranspose into its pads.

    Rules, per spatial axis with stride s, begin crop p and net end crop e (the end pad less
    output_padding), for a Pad of b rows at the begin and a rows at the end::

        1. ConvTranspose(Pad(x))  ->  ConvTranspose(x) with p - b*s, e - a*s
           zeros add nothing, and row i of x is row i + b of the padded x
        2. Pad(ConvTranspose(x))  ->  ConvTranspose(x) with p - b, e - a
           where p <= 0 if b > 0, e <= 0 if a > 0, and the bias is absent or zero: rows outside
           of the full length hold the bias

    A Pad before the node stays for its other readers. Not where the Pad reflects, writes another
    value, touches batch or channels, drops rows, or has pads that are known at run time only;
    where something else reads the node's unpadded output; and where the target keeps the
    operator but no valid pads and output_padding say the result.
    """

    name = "fold-pads"
    summary = "zeros padded before or behind a node become its pads"

    def run(self, model: ir.Model) -> Iterator[str]:
        """Fold, one line a Pad."""
        for found in list(find_nodes(model)):
            if found.path in self.context.unfolded:
                continue
            shapes = found.visible(self.context.shapes)
            evaluator = Evaluator(model.ir_version, found.opset, shapes)
            while self._try_before(found, model.ir_version, evaluator):
                yield f"{found.path}: the Pad before it folded"
            while self._try_behind(found, model.ir_version, evaluator):
                yield f"{found.path}: the Pad behind it folded"

    def _try_before(self, found: FoundNode, ir_version: int, evaluator: Evaluator) -> bool:
        x = found.node.inputs[0] if found.node.inputs else None
        pad = None if x is None else x.producer()
        if x is None or pad is None or not is_standard(pad, "Pad") or pad.inputs[0] is None:
            return False
        read = self._read(found, ir_version)
        if read is None:
            return False
        zeros = read_pad(pad, found.opset, read.spec.ndim + 2, evaluator)
        if not isinstance(zeros, ZeroPad):
            return self._refuse(found, zeros)
        spec = _widened(read.spec, zeros.times(read.spec.strides))
        refusal = self._unsayable(found, read, spec)
        if refusal is not None:
            return self._refuse(found, refusal)
        found.node.replace_input_with(0, pad.inputs[0])
        _write(found.node, spec)
        remove_unused([x])
        return True

    def _try_behind(self, found: FoundNode, ir_version: int, evaluator: Evaluator) -> bool:
        tail = Tail(found.node.outputs[0])
        pads = [n for n in readers(tail) if is_standard(n, "Pad")]
        if not pads or pads[0].inputs[0] is not tail.value:
            return False
        read = self._read(found, ir_version)
        if read is None:
            return False
        zeros = read_pad(pads[0], found.opset, read.spec.ndim + 2, evaluator)
        if not isinstance(zeros, ZeroPad):
            return self._refuse(found, zeros)
        spec = _widened(read.spec, zeros)
        refusal = _other_than_zero(read, zeros) or self._unsayable(found, read, spec)
        if refusal is None and read_elsewhere(found, tail):
            refusal = Refusal("CT429", read.output_name)
        if refusal is not None:
            return self._refuse(found, refusal)
        absorb(found, tail, pads[0])
        _write(found.node, spec)
        return True

    def _refuse(self, found: FoundNode, refusal: Refusal | None) -> bool:
        if refusal is not None:
            self.miss(found.path, refusal.id, refusal.detail)
        return False

    def _read(self, found: FoundNode, ir_version: int) -> ConvTransposeNode | None:
        shapes = found.visible(self.context.shapes)
        read = read_node(found.node, found.path, ir_version, shapes)
        if not isinstance(read, ConvTransposeNode):
            return None
        if read.late is not None:
            self.miss(found.path, "CT430", f"output_shape = {list(read.late.output)}")
            return None
        return read

    def _unsayable(
        self, found: FoundNode, read: ConvTransposeNode, spec: ConvTransposeSpec
    ) -> Refusal | None:
        """Why the node cannot have these pads on its way to the target."""
        target = self.context.target
        refusal = Refusal(
            "CT426",
            f"pads_begin = {list(spec.pads_begin)}, output_padding = {list(spec.output_padding)}",
        )
        if target.conv_transpose or self.context.choice.form_for(found.path) in NATIVE:
            padding = zip(spec.output_padding, spec.strides, strict=True)
            beyond = target.output_padding_below_stride and any(op >= s for op, s in padding)
            return refusal if beyond or expressible(spec) is not None else None
        wanted = replace(read, spec=spec)
        setting = setting_for(found.opset, target, read.dtype)
        others = (form for name, form in FORMS.items() if name not in NATIVE)
        return None if any(f.check(wanted, setting) is None for f in others) else refusal


def _widened(spec: ConvTransposeSpec, rows: ZeroPad) -> ConvTransposeSpec:
    """The same convolution with that many rows more at each end."""
    begins = (p - b for p, b in zip(spec.pads_begin, rows.begin, strict=True))
    ends = (e - a for e, a in zip(spec.pads_end, rows.end, strict=True))
    pads = list(zip(begins, ends, strict=True))
    return spec.with_pads(pads, spec.output_padding).canonical()


def _other_than_zero(read: ConvTransposeNode, zeros: ZeroPad) -> Refusal | None:
    """Why the node itself would not write zeros where the Pad does."""
    for axis, b, a in zip(read.spec.axes(), zeros.begin, zeros.end, strict=True):
        if (b and axis.begin > 0) or (a and axis.end > 0):
            return Refusal("CT428", f"crops {axis.begin} and {axis.end}, pads {b} and {a}")
    if read.bias is None or not any(zeros.begin + zeros.end):
        return None
    if isinstance(read.bias, ConstantOperand) and not read.bias.array().any():
        return None
    return Refusal("CT427", f"bias {read.bias.value.name}")


def _write(node: ir.Node, spec: ConvTransposeSpec) -> None:
    """Set the geometry; output_padding that the attribute may not say becomes negative end pads."""
    write_attributes(node, spec)
    if expressible(spec) is not None:
        ends = [e - op for e, op in zip(spec.pads_end, spec.output_padding, strict=True)]
        node.attributes["pads"] = ir.AttrInt64s("pads", [*spec.pads_begin, *ends])
        node.attributes["output_padding"] = ir.AttrInt64s("output_padding", [0] * spec.ndim)
