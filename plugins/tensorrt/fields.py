"""Plugin fields of TensorRT, to and from plain values.

INT and INTS arrive as INT32, FLOAT as FLOAT32, STRING as CHAR with a zero at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Value = int | float | str | list[int]
# Attributes that are lists even where there is one axis.
LISTS = frozenset(
    "kernel_shape strides dilations pads output_padding output_shape sizes channels_last".split()
)


def read_fields(trt: Any, collection: Any) -> dict[str, Value]:
    """Values by name; fields of other types are left out."""
    kinds = trt.PluginFieldType
    values: dict[str, Value] = {}
    for field in collection:
        if field.type not in (kinds.INT32, kinds.FLOAT32, kinds.CHAR):
            continue
        array = np.array(field.data)
        if field.type == kinds.CHAR:
            values[field.name] = array.astype(np.uint8).tobytes().rstrip(b"\0").decode()
        elif field.name in LISTS:
            values[field.name] = [int(v) for v in array.reshape(-1)]
        else:
            (one,) = array.reshape(-1)
            values[field.name] = float(one) if field.type == kinds.FLOAT32 else int(one)
    return values


def make_fields(trt: Any, values: Mapping[str, Value]) -> tuple[Any, list[Any]]:
    """A collection, and the arrays that it points into, which must live as long."""
    kinds = trt.PluginFieldType
    arrays: list[Any] = []
    fields = []
    for name, value in values.items():
        array, kind = _array(value)
        arrays.append(array)
        fields.append(trt.PluginField(name, array, getattr(kinds, kind)))
    return trt.PluginFieldCollection(fields), arrays


def _array(value: Value) -> tuple[npt.NDArray[Any], str]:
    if isinstance(value, str):
        return np.frombuffer(value.encode() + b"\0", np.int8), "CHAR"
    if isinstance(value, float):
        return np.array([value], np.float32), "FLOAT32"
    return np.array(value, np.int32).reshape(-1), "INT32"


def named_fields(trt: Any, names: tuple[str, ...]) -> Any:
    """What a creator says that it reads."""
    empty = np.array([], np.int32)
    kind = trt.PluginFieldType.INT32
    return trt.PluginFieldCollection([trt.PluginField(name, empty, kind) for name in names])
