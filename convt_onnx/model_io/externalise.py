"""Move tensors of a model into one external data file, for the time of writing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

import onnx_ir as ir

from convt_onnx.model_io.slots import Slot, tensor_slots

SMALL_BYTES = 1024
_PAGE_FROM_BYTES = 2**20
_PAGE = 4096
_CACHE_LINE = 64


def movable_slots(model: ir.Model, *, move_inline: bool) -> list[Slot]:
    """The slots whose tensors belong into the data file.

    Tensors that are external already do, and so do new ones of more than 1 KiB. Those of
    the input file's own proto stay in the model file, unless `move_inline` asks for these
    too when they are larger than 1 KiB.
    """
    return [slot for slot in tensor_slots(model) if _moves(slot.get(), move_inline)]


def _moves(tensor: ir.TensorProtocol | None, move_inline: bool) -> bool:
    if tensor is None or isinstance(tensor, ir.ExternalTensor):
        return tensor is not None
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes <= SMALL_BYTES:
        return False
    return move_inline or not isinstance(tensor, ir.serde.TensorProtoTensor)


@contextmanager
def externalised(slots: Iterable[Slot], file: BinaryIO, location: str) -> Iterator[None]:
    """Write the tensors of `slots` to `file`, and refer to them there until the block ends.

    Raises:
        OSError: The data cannot be read or written.
    """
    writer = _Writer(file, location)
    originals: list[tuple[Slot, ir.TensorProtocol]] = []
    try:
        for slot in slots:
            tensor = slot.get()
            assert tensor is not None
            moved = writer.write(tensor)
            originals.append((slot, tensor))
            slot.put(moved)
        yield
    finally:
        for slot, tensor in originals:
            slot.put(tensor)


@dataclass(slots=True)
class _Writer:
    """Appends tensors to a data file; one that several slots share is written once."""

    file: BinaryIO
    location: str
    _offsets: dict[tuple[object, ...], int] = field(default_factory=dict)

    def write(self, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        """Write the bytes of `tensor` and return the tensor that refers to them."""
        key = _identity(tensor)
        if key not in self._offsets:
            self._offsets[key] = self._append(tensor)
        return ir.ExternalTensor(
            self.location,
            self._offsets[key],
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props),
        )

    def _append(self, tensor: ir.TensorProtocol) -> int:
        step = _PAGE if tensor.nbytes >= _PAGE_FROM_BYTES else _CACHE_LINE
        offset = self.file.seek(-(-self.file.tell() // step) * step)
        if isinstance(tensor, (ir.ExternalTensor, ir.Tensor)):
            tensor.tofile(self.file)
        else:
            self.file.write(tensor.tobytes())
        return offset


def _identity(tensor: ir.TensorProtocol) -> tuple[object, ...]:
    if isinstance(tensor, ir.ExternalTensor):
        return (tensor.path, tensor.offset or 0, tensor.nbytes)
    return (id(tensor),)
