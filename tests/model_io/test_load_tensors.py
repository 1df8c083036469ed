from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, numpy_helper

from convt_onnx.model_io import load

from .conftest import put_tensor

RAW_TYPES = [
    dtype for dtype in ir.DataType if dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING)
]
TYPED = [
    ("float_data", TensorProto.FLOAT, 3, 1.5),
    ("float_data", TensorProto.COMPLEX64, 6, 1.5),
    ("double_data", TensorProto.DOUBLE, 3, 1.5),
    ("double_data", TensorProto.COMPLEX128, 6, 1.5),
    ("int64_data", TensorProto.INT64, 3, 1),
    ("uint64_data", TensorProto.UINT64, 3, 1),
    ("uint64_data", TensorProto.UINT32, 3, 1),
    ("int32_data", TensorProto.INT32, 3, 1),
    ("int32_data", TensorProto.BOOL, 3, 1),
    ("int32_data", TensorProto.FLOAT16, 3, 0x3C00),
    ("int32_data", TensorProto.BFLOAT16, 3, 0x3F80),
    ("int32_data", TensorProto.FLOAT8E4M3FN, 3, 8),
    ("int32_data", TensorProto.INT4, 2, 0x11),
    ("int32_data", TensorProto.UINT2, 1, 0x11),
    ("string_data", TensorProto.STRING, 3, b"a"),
]


def tensor(dtype: int, dims: list[int], **fields: object) -> TensorProto:
    return TensorProto(name="t", data_type=dtype, dims=dims, **fields)


def with_tensor(proto, added: TensorProto):
    proto.graph.initializer.append(added)
    return proto


@pytest.mark.parametrize("dtype", RAW_TYPES)
def test_raw_data(proto, write, check_refused, dtype):
    size = -(-5 * dtype.bitwidth // 8)
    good = with_tensor(proto, tensor(dtype, [5], raw_data=b"\1" * size))
    assert load(write(good)).model.graph.initializers["t"].const_value.shape == [5]
    good.graph.initializer[-1].raw_data += b"\1"
    check_refused(write(good), f"{size + 1} bytes", str(size), "initializer 't'")


@pytest.mark.parametrize(("field", "dtype", "count", "entry"), TYPED)
def test_typed_fields(proto, write, check_refused, field, dtype, count, entry):
    good = with_tensor(proto, tensor(dtype, [3], **{field: [entry] * count}))
    read = load(write(good)).model.graph.initializers["t"].const_value
    assert read.numpy().shape == (3,)
    getattr(good.graph.initializer[-1], field).append(entry)
    check_refused(write(good), f"{count + 1} entries", str(count))


@pytest.mark.parametrize("field", ["int32_data", "int64_data", "double_data", "string_data"])
def test_wrong_field(proto, write, check_refused, field):
    entry = b"a" if field == "string_data" else 1
    check_refused(
        write(with_tensor(proto, tensor(TensorProto.FLOAT, [1], **{field: [entry]}))), field
    )


@pytest.mark.parametrize(
    ("added", "words"),
    [
        (tensor(TensorProto.FLOAT, [2]), "0 elements"),
        (tensor(TensorProto.FLOAT, [-1], raw_data=b"1234"), "negative dimension -1"),
        (tensor(TensorProto.FLOAT, [-1]), "negative dimension"),
        (tensor(TensorProto.FLOAT, [2**62, 2**62], raw_data=b"1234"), "more elements"),
        (tensor(TensorProto.FLOAT, [0, 2**62, 2**62]), "more elements"),
        (tensor(TensorProto.FLOAT, [2**40]), "0 elements"),
        (tensor(TensorProto.FLOAT, [1] * 65, raw_data=b"1234"), "65 dimensions"),
        (tensor(0, [1], raw_data=b"1234"), "unknown data type 0"),
        (tensor(99, [1], raw_data=b"1234"), "unknown data type 99"),
        (tensor(TensorProto.FLOAT, [1], raw_data=b"1234", float_data=[1]), "twice"),
        (tensor(TensorProto.STRING, [1], raw_data=b"1234"), "raw_data"),
        (tensor(TensorProto.FLOAT, [2], raw_data=b""), "0 bytes"),
    ],
)
def test_refused_tensors(proto, write, check_refused, added, words):
    check_refused(write(with_tensor(proto, added)), words)


@pytest.mark.parametrize("fields", [{}, {"raw_data": b""}])
def test_empty_tensors(proto, write, fields):
    loaded = load(write(with_tensor(proto, tensor(TensorProto.FLOAT, [0, 3], **fields))))
    assert loaded.model.graph.initializers["t"].const_value.numpy().shape == (0, 3)


@pytest.mark.parametrize("place", ["constant", "subgraph", "function", "default"])
def test_tensors_everywhere(proto, write, check_refused, place):
    bad = tensor(TensorProto.FLOAT, [2], raw_data=b"1234")
    put_tensor(proto, bad, place)
    check_refused(write(proto), "4 bytes")


def test_values_survive(proto, write):
    array = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    added = numpy_helper.from_array(array, "t")
    loaded = load(write(with_tensor(proto, added)))
    np.testing.assert_array_equal(
        loaded.model.graph.initializers["t"].const_value.numpy().astype(np.float32),
        array.astype(np.float32),
    )
