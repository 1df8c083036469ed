from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, parser

from convt_onnx.errors import ExitCode, ModelError
from convt_onnx.model_io import load

HEADER = '<ir_version: 9, opset_import: ["" : 17]>\n'
UPSAMPLER = """
up (float[1,2,5] x) => (float[1,3,11] y)
<float[2,3,3] w = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17}>
{ a = ConvTranspose <strides=[2]> (x, w)  y = Relu(a) }
"""

Write = Callable[..., Path]


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def proto() -> ModelProto:
    return parser.parse_model(HEADER + UPSAMPLER)


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "new.onnx"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a proto, text or bytes to a file of `tmp_path`."""

    def write_file(content: ModelProto | str | bytes, name: str = "model.onnx") -> Path:
        if isinstance(content, str):
            content = parser.parse_model(HEADER + content)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
        return path

    return write_file


@pytest.fixture
def check_refused() -> Callable[..., ModelError]:
    """Load a file that must be refused, and return the error."""

    def refuse(path: Path, *words: str) -> ModelError:
        with pytest.raises(ModelError) as caught:
            load(path)
        error = caught.value
        assert error.exit_code == ExitCode.USAGE
        assert "\n" not in error.what + error.where + error.help
        for word in words:
            assert word in str(error)
        return error

    return refuse


def external_tensor(name: str, dims: list[int], **entries: object) -> TensorProto:
    tensor = TensorProto(
        name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL
    )
    for key, entry in entries.items():
        tensor.external_data.add(key=key, value=str(entry))
    return tensor


@pytest.fixture
def external() -> Callable[..., TensorProto]:
    return external_tensor


def put_tensor(proto: ModelProto, tensor: TensorProto, place: str) -> None:
    """Put a tensor into a node, a branch or a function of a model, or a function's default."""
    constant = helper.make_node("Constant", [], ["k"], value=tensor)
    if place == "constant":
        proto.graph.node.append(constant)
    elif place == "subgraph":
        inner = helper.make_graph([], "g", [], [], [tensor])
        proto.graph.node.append(helper.make_node("If", ["x"], ["k"], then_branch=inner))
    elif place == "function":
        proto.functions.add(name="f", output=["k"], node=[constant])
    else:
        proto.functions.add(name="f", attribute_proto=[helper.make_attribute("a", tensor)])


@pytest.fixture
def external_model(write: Write) -> Path:
    """The upsampler with its weight, and a 40 KB unused matrix, in external data."""
    proto = parser.parse_model(HEADER + UPSAMPLER)
    weight = onnx.numpy_helper.to_array(proto.graph.initializer[0])
    matrix = np.arange(10_000, dtype=np.float32)
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(
        [
            external_tensor("w", [2, 3, 3], location="w.bin", offset=8, length=72),
            external_tensor("m", [100, 100], location="sub/m.bin"),
        ]
    )
    path = write(proto)
    path.with_name("w.bin").write_bytes(b"\1" * 8 + weight.tobytes() + b"\2" * 8)
    (path.parent / "sub").mkdir()
    (path.parent / "sub" / "m.bin").write_bytes(matrix.tobytes())
    return path
