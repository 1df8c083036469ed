"""Crops behind a ConvTranspose become its pads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import onnx_ir as ir

from convt_onnx.forms.native import expressible
from convt_onnx.graph.bounds_sizes import Sizes
from convt_onnx.graph.bounds_vectors import Vectors, trace_pads
from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.emitter import NamePool
from convt_onnx.graph.node import ConvTransposeNode, find_nodes, read_node
from convt_onnx.passes.base import Pass
from convt_onnx.passes.crops_chain import Chain
from convt_onnx.passes.crops_folding import Folding
from convt_onnx.passes.crops_reading import is_crop
from convt_onnx.passes.crops_symmetric import symmetric_part
from convt_onnx.passes.crops_writing import emitter_at
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec


class FoldCrops(Pass):
    """Moves crops into the pads, where they drop the same rows for every input size.

    Rules, with y = ConvTranspose <pads=[p, q]> (x, w)::

        1. Slice(y, b, -e), Slice(y, b, size(y) - e), b and e any expression of sizes that is the
           same number for all of them                -> ConvTranspose <pads=[p + b, q + e]>
        2. Pad <pads=[-b, -e]> (y), any mode          -> the same
        3. Crop <border=[left, top, right, bottom]>   -> the same
        4. Slice(y, -k, ...), Slice(y, b, c), with a static size of y
                                                      -> rule 1 with b = size - k, e = size - c
        5. crop(crop(y))                              -> both
        6. crop(f(y)), f elementwise, or with parameters that are the same along the cropped axes
           (Relu, Clip, Cast, Mul by [C, 1, 1], BatchNormalization, QuantizeLinear, ...)
                                                      -> f(ConvTranspose <pads=[p + b, q + e]>)
        7. crop(f(y)), f one of Transpose, Squeeze, Unsqueeze, or a Reshape that does what these
           two do and does not state the cropped size
                                                      -> f(ConvTranspose <...>)
        8. a Slice that also cuts other axes          -> it keeps those
        9. a crop of nothing                          -> gone; so is what computed the bounds
        10. Split(y) of which one part is read        -> rule 1 with what lies before and behind it

    The last value that is cropped keeps its name, whatever makes it then; values before it that
    have fewer rows now get new names. Not where the uncropped output is read elsewhere or is an
    output, the step is not 1, the rows are not the same for every size, some size that the node
    takes would leave no row, or the target takes no asymmetric pads and they would become so.
    """

    name = "fold-crops"
    summary = "Slice, Split, Pad with negative pads and Crop behind the node become pads"
    makes_values = True

    def run(self, model: ir.Model) -> Iterator[str]:
        """Fold, one line a node."""
        names = NamePool(model)
        tracers: dict[bool, Sizes] = {}
        released: dict[ir.Value, None] = {}
        for found in list(find_nodes(model)):
            if found.path in self.context.unfolded:
                continue
            shapes = found.visible(self.context.shapes)
            read = read_node(found.node, found.path, model.ir_version, shapes)
            if not isinstance(read, ConvTransposeNode) or not self._has_pads(read):
                continue
            sizes = tracers.setdefault(found.in_function, Sizes(model.ir_version, shapes))
            trace_pads(model.ir_version, sizes)
            chain = Chain(read, sizes, Vectors(model.ir_version, sizes), found.opset)
            for refusal in chain.misses:
                self.miss(read.path, refusal.id, refusal.detail)
            end = self._longest(chain)
            if end:
                line = f"{read.path}: {_described(chain, end)}"
                spec = _cropped(chain, end)
                folding = Folding(chain, end, partial(emitter_at, model, found, names), names)
                folding.write(spec)
                released.update(dict.fromkeys(folding.released))
                sizes.forget(chain.values(end), replace(read, spec=spec))
                yield line
        # Once: a constant that a thousand crops share has a thousand readers to count.
        remove_unused(released)

    def _has_pads(self, read: ConvTransposeNode) -> bool:
        """Where output_shape meets an open size the pads are not known."""
        if read.late is not None and any(is_crop(u.node) for u in read.node.outputs[0].uses()):
            self.miss(read.path, "CT413", f"output_shape = {list(read.late.output)}")
        return read.late is None

    def _longest(self, chain: Chain) -> int:
        """How many of the steps can be folded, at most; 0 where none."""
        for end in range(len(chain.steps), 0, -1):
            if not chain.steps[end - 1].effective:
                continue
            refusal = self._refusal(chain, end)
            if refusal is None:
                return end
            self.miss(chain.read.path, refusal.id, refusal.detail)
        return 0

    def _refusal(self, chain: Chain, end: int) -> Refusal | None:
        spec = _cropped(chain, end)
        if not chain.readers_go(end):
            return Refusal("CT412", f"{chain.read.output_name!r}")
        if not self.context.target.asymmetric_pads and not symmetric_part(spec).complete:
            return Refusal("CT409", f"pads {list(spec.pads_begin)} and {list(spec.pads_end)}")
        return expressible(spec)


def _cropped(chain: Chain, end: int) -> ConvTransposeSpec:
    spec = chain.read.spec
    total = chain.total(0, end)
    pads = [
        (b + total[axis][0], e + total[axis][1])
        for axis, (b, e) in enumerate(zip(spec.pads_begin, spec.pads_end, strict=True), 2)
    ]
    return spec.with_pads(pads, spec.output_padding).canonical()


def _described(chain: Chain, end: int) -> str:
    total = chain.total(0, end)
    spatial = [total[axis] for axis in range(2, chain.read.spec.ndim + 2)]
    begins, ends = [b for b, _ in spatial], [e for _, e in spatial]
    kinds = [s.node.op_type for s in chain.steps[:end] if s.crop and s.effective]
    return f"{' and '.join(kinds)} folded, {begins} rows at the begin and {ends} at the end"
