"""`phases-rows`, `phases-rows-joined`: depthwise, over one axis, phases as rows of an image.

ONNX Runtime's CPU provider computes a depthwise convolution in blocks of channels with one input
and one output channel each, so phases cannot be its channels. They can be its rows: the input is
an image of one row, and a kernel of J rows with J - 1 rows of padding on both sides gives J rows of
output, of which each reads one row of the kernel alone; rows of padding are skipped. `b` neighbours
are computed at once, at a stride of `b`, so that the J = b * s rows are four or more, from where on
a matrix transposition is vectorised there:

    x [N, C, 1, L] -> [N, C, J, Q / b] -> [N, C, Q / b, J] -> [N, C, Q * s],  crop

Neighbour p reads the window from row p on, so the window is b - 1 positions wider.
`phases-rows-joined` first brings the rows in front of the channels, for one large transposition
instead of one a channel: with several threads each of these is divided among them on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.fused import packable
from convt_onnx.forms.moves import move_phases
from convt_onnx.forms.order import Interleave
from convt_onnx.forms.shapes import Shapes
from convt_onnx.forms.weights import Packing, Table, pack_bias, pack_weight
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand
from convt_onnx.phases import ConvAxis, plan_aligned
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

# Channels of the widest block, and rows from which on a matrix transposition is vectorised.
BLOCK, FEWEST_ROWS = 16, 4
# A processor without a blocked layout computes all rows of the kernel for each row of output.
MAX_ROWS = 32


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of `positions` neighbours: `conv` is what one position reads, of `length` in all.

    `length` is None where the axis is open. A block is one position then, since what the last one
    lacks has to be known.
    """

    conv: ConvAxis
    positions: int
    length: int | None

    @property
    def rows(self) -> int:
        """J: phases of all positions of a block."""
        return self.positions * len(self.conv.table)

    @property
    def dilation(self) -> int:
        """Of the window; that of several positions holds what lies between."""
        return self.conv.dilation if self.positions == 1 else 1

    @property
    def width(self) -> int:
        """Window positions that a block reads."""
        spread = (self.conv.taps - 1) * self.conv.dilation // self.dilation
        return self.positions + spread

    @property
    def count(self) -> int | None:
        """Blocks, of which the last may be filled up."""
        return None if self.length is None else -(-self.length // self.positions)

    @property
    def surplus(self) -> int:
        """Positions that fill up the last block."""
        return 0 if self.length is None else -self.length % self.positions

    def table(self) -> Table:
        """[J, width]: the tap that each row reads at each window position, -1 for a zero."""
        table = np.full((self.positions, len(self.conv.table), self.width), -1, dtype=np.int64)
        step = self.conv.dilation // self.dilation
        for p in range(self.positions):
            table[p, :, p : p + (self.conv.taps - 1) * step + 1 : step] = self.conv.table
        return table.reshape(self.rows, self.width)


def blocks_of(spec: ConvTransposeSpec, size: int | None) -> Blocks:
    """As few positions as give enough rows, or one more where only they leave none over."""
    axis = plan_aligned(next(spec.axes()))
    conv = axis.fused()
    if size is None:
        return Blocks(conv, 1, None)
    length = size + axis.rows
    fewest = -(-FEWEST_ROWS // axis.stride)
    fits = fewest > 1 and length % fewest and length % (fewest + 1) == 0
    return Blocks(conv, fewest + 1 if fits else fewest, length)


def check_rows(name: str, node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    """Why phases cannot be rows; `name` is the form's."""
    spec = node.spec
    if not setting.mlas:
        return Refusal("CT313", name)
    if not isinstance(node.weight, ConstantOperand):
        return Refusal("CT314", f"weight {node.weight.value.name}")
    if all(s == 1 for s in spec.strides):
        return Refusal("CT302", f"strides = {list(spec.strides)}")
    depthwise = spec.group == spec.in_channels == spec.out_channels
    if spec.ndim > 1 or not depthwise or spec.group % BLOCK:
        channels = f"{spec.in_channels} to {spec.out_channels} channels"
        return Refusal("CT316", f"{spec.ndim} axes, {channels} in {spec.group} groups")
    if node.dtype != ir.DataType.FLOAT or spec.strides[0] > MAX_ROWS:
        return Refusal("CT316", f"{node.dtype}, strides = {list(spec.strides)}")
    return packable(node, setting)


def _emit(joined: bool, em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec = node.spec
    axis = plan_aligned(next(spec.axes()))
    blocks = blocks_of(spec, node.sizes[0])
    y = rows_of(em, node, blocks)
    channels, shape = spec.out_channels, ((blocks.rows,), node.batch, (blocks.count,))
    plan = Interleave(channels, *shape, "moves", channels, joined)
    if joined:
        y = move_phases(em, y, plan, setting)
    else:  # as `move_phases`, but the groups are already an axis
        shapes = Shapes(em, y, plan, setting)
        y = em.transpose(y, [0, 1, 3, 2])
        y = shapes.reshape(y, [(channels, ()), (blocks.rows, (0,))])
    surplus = blocks.surplus * axis.stride
    return em.crop(y, [2], [axis.crop_begin], [axis.crop_end + surplus])


def rows_of(em: Emitter, node: ConvTransposeNode, blocks: Blocks) -> ir.Value:
    """[N, C, J, Q / b]. The last row of the kernel is the first row's."""
    conv, last = blocks.conv, blocks.rows - 1
    packing = Packing(
        node.spec, blocks.table()[::-1].reshape(1, -1), (blocks.rows, blocks.width), "channel"
    )
    return em.conv(
        em.unsqueeze(node.x, [2]),
        pack_weight(em, node.weight, packing),
        pack_bias(em, node.bias, packing),
        kernel=packing.taps,
        strides=[1, blocks.positions],
        dilations=[1, blocks.dilation],
        low=[last, conv.low],
        high=[last, conv.high + blocks.positions - 1],
        group=node.spec.group,
    )


def _work(joined: bool, spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    axis = plan_aligned(next(spec.axes()))
    blocks = blocks_of(spec, sizes[0])
    moved = spec.out_channels * (blocks.count or 0) * blocks.rows
    elements = spec.in_channels * sizes[0] + (5 if joined else 3) * moved
    if axis.crop_begin or axis.crop_end or blocks.surplus:
        elements += 2 * spec.out_channels * spec.output_sizes(sizes)[0]
    packed = spec.out_channels * blocks.rows * blocks.width
    return Work(batch * moved * blocks.width, batch * elements + packed)


def _form(name: str, summary: str, *, joined: bool) -> Form:
    def check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
        return check_rows(name, node, setting)

    def emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
        return _emit(joined, em, node, setting)

    def work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
        return _work(joined, spec, batch, sizes)

    return Form(name, summary, check, emit, work)


PHASES_ROWS = _form(
    "phases-rows", "depthwise over one axis: phases as rows of one convolution", joined=False
)
PHASES_ROWS_JOINED = _form(
    "phases-rows-joined", "`phases-rows`, interleaved in one go for all channels", joined=True
)
