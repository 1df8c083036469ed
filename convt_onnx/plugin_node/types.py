"""Element types that the kernels compute in, as ONNX and as the kernels name them."""

from __future__ import annotations

import onnx_ir as ir

DTYPES: dict[ir.DataType, str] = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
}
BY_NAME = {name: kind for kind, name in DTYPES.items()}
