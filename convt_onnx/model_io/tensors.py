"""Check that the data of every tensor fits its type and its dimensions."""

from __future__ import annotations

import onnx_ir as ir
from onnx import TensorProto

from convt_onnx.errors import ModelError
from convt_onnx.model_io.advice import DAMAGED

MAX_RANK = 64
_MAX_ELEMENTS = 2**58
_REPEATED_FIELDS = (
    "float_data",
    "double_data",
    "int32_data",
    "int64_data",
    "uint64_data",
    "string_data",
)
_WIDE_FIELDS = {
    ir.DataType.FLOAT: ("float_data", 1),
    ir.DataType.COMPLEX64: ("float_data", 2),
    ir.DataType.DOUBLE: ("double_data", 1),
    ir.DataType.COMPLEX128: ("double_data", 2),
    ir.DataType.INT64: ("int64_data", 1),
    ir.DataType.UINT32: ("uint64_data", 1),
    ir.DataType.UINT64: ("uint64_data", 1),
    ir.DataType.STRING: ("string_data", 1),
}


def element_count(tensor: TensorProto, where: str) -> int:
    """Number of elements that the dimensions of `tensor` ask for.

    Raises:
        ModelError: A dimension is negative, or there are too many of them or of elements.
    """
    dims = tensor.dims
    if len(dims) > MAX_RANK:
        raise ModelError(
            f"a tensor has {len(dims)} dimensions",
            where=where,
            help=f"NumPy takes {MAX_RANK} at most; export the model with fewer",
        )
    count = 1
    for dim in dims:
        if dim < 0:
            raise ModelError(
                f"a tensor has the negative dimension {dim}", where=where, help=DAMAGED
            )
        count *= max(dim, 1)
    if count > _MAX_ELEMENTS:
        raise ModelError(
            "a tensor has more elements than any file can hold", where=where, help=DAMAGED
        )
    return 0 if 0 in dims else count


def data_type(tensor: TensorProto, where: str) -> ir.DataType:
    """The element type of `tensor`.

    Raises:
        ModelError: The type is missing or unknown.
    """
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError:
        dtype = ir.DataType.UNDEFINED
    if dtype == ir.DataType.UNDEFINED:
        raise ModelError(
            f"a tensor has the unknown data type {tensor.data_type}",
            where=where,
            help="a newer onnx-ir may know it",
        )
    return dtype


def byte_count(elements: int, dtype: ir.DataType) -> int:
    """Bytes of `elements` elements in raw form; types narrower than a byte are packed."""
    return -(-elements * dtype.bitwidth // 8)


def check_inline(tensor: TensorProto, where: str) -> None:
    """Check a tensor whose data is in the model file itself.

    Raises:
        ModelError: The data does not fit the type and the dimensions.
    """
    elements = element_count(tensor, where)
    dtype = data_type(tensor, where)
    filled = [name for name in _REPEATED_FIELDS if len(getattr(tensor, name))]
    if tensor.HasField("raw_data") and (tensor.raw_data or not filled):
        filled.append("raw_data")
    if len(filled) > 1:
        raise ModelError(
            f"a tensor holds its data twice, as {' and '.join(filled)}",
            where=where,
            help="make the tensor with onnx.numpy_helper.from_array, which fills one field",
        )
    if not filled:
        _require(0, elements, "elements", where)
        return
    if filled == ["raw_data"] and dtype != ir.DataType.STRING:
        _require(len(tensor.raw_data), byte_count(elements, dtype), "bytes", where)
        return
    field, needed = _typed_storage(elements, dtype)
    if filled != [field]:
        raise ModelError(
            f"a tensor of type {dtype} holds its data as {filled[0]}",
            where=where,
            help=f"it belongs into {field}; onnx.numpy_helper.from_array puts it there",
        )
    _require(len(getattr(tensor, field)), needed, f"entries of {field}", where)


def _typed_storage(elements: int, dtype: ir.DataType) -> tuple[str, int]:
    """The field that holds elements of `dtype`, and how many entries it needs."""
    if dtype in _WIDE_FIELDS:
        field, factor = _WIDE_FIELDS[dtype]
        return field, elements * factor
    if dtype.bitwidth in (2, 4):
        return "int32_data", byte_count(elements, dtype)
    return "int32_data", elements


def _require(found: int, needed: int, unit: str, where: str) -> None:
    if found != needed:
        raise ModelError(
            f"a tensor holds {found} {unit} where its dimensions need {needed}",
            where=where,
            help=DAMAGED,
        )
