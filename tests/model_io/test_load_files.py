from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from convt_onnx.model_io import infer_shapes, load, save


def test_reads_a_model(proto, write):
    loaded = load(write(proto))
    assert loaded.has_conv_transpose
    assert loaded.proto_bytes == loaded.path.stat().st_size
    assert loaded.external_files == ()
    assert loaded.external_bytes == 0
    assert loaded.unknown_fields == ()
    assert [node.op_type for node in loaded.model.graph] == ["ConvTranspose", "Relu"]


def test_missing_file(tmp_path, check_refused):
    check_refused(tmp_path / "no.onnx", "no such file")


def test_folder(tmp_path, check_refused):
    check_refused(tmp_path, "folder")


def test_name_with_a_null_byte(check_refused):
    check_refused(Path("a\0b.onnx"), "cannot read")


def test_fifo_is_not_waited_for(tmp_path, check_refused):
    os.mkfifo(tmp_path / "pipe.onnx")
    check_refused(tmp_path / "pipe.onnx", "regular file")


def test_unreadable_file(proto, write, check_refused):
    path = write(proto)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    check_refused(path, "Permission denied")


def test_too_large_a_file_is_not_read(tmp_path, check_refused):
    path = tmp_path / "sparse.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    check_refused(path, "2 GiB", "external data")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", ["LFS", "git lfs pull"]),
        (b"import torch\nmodel = torch.nn.Linear(2, 3)\n", ["text file"]),
        ("Grüße\n".encode() * 900, ["text file"]),
        (b"\x24\0\0\0ORTM" + b"\0" * 40, ["ONNX Runtime .ort"]),
        (b"\x1c\0\0\0TFL3" + b"\0" * 40, ["TensorFlow Lite"]),
        (b"PK\x03\x04" + b"\0" * 40, ["zip archive"]),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * 40, ["HDF5"]),
        (b"\x80\x02}q\0." + b"\0" * 40, ["pickle"]),
        (b"\xff\xfe\xfd" * 50, ["not a usable ONNX model"]),
    ],
)
def test_other_content(content, words, write, check_refused):
    check_refused(write(content), *words)


@pytest.mark.parametrize(
    ("name", "words"),
    [("m.json", "format='json'"), ("m.onnxtxt", "format='onnxtxt'"), ("m.pbtxt", "'textproto'")],
)
def test_text_formats_say_how_to_convert(name, words, write, check_refused):
    check_refused(write(b'{"irVersion": "9"}', name), "text file", words)


def test_truncated_file(proto, write, check_refused):
    content = proto.SerializeToString()
    check_refused(write(content[: len(content) // 2]), "cut short")


def test_tensor_proto(write, check_refused):
    tensor = onnx.numpy_helper.from_array(np.ones((2, 3), np.float32))
    check_refused(write(tensor.SerializeToString()), "not a usable ONNX model")


def test_saved_model_like_proto(write, check_refused):
    # TensorFlow's SavedModel: a version in field 1 and graphs in field 2.
    check_refused(write(b"\x08\x01\x12\x05\x0a\x03abc"), "no graph")


@pytest.mark.parametrize(
    ("field", "words"), [("graph", "graph"), ("ir_version", "IR"), ("opset_import", "operator set")]
)
def test_missing_parts(proto, write, check_refused, field, words):
    proto.ClearField(field)
    check_refused(write(proto), words)


def message(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    size = len(payload)
    digits = bytearray()
    while size > 127:
        digits.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *digits, size]) + payload


def nested_model(depth: int) -> bytes:
    """A model whose graph holds a node that holds a graph, and so on."""
    graph = b""
    for _ in range(depth):
        attribute = message(1, b"body") + message(6, graph) + bytes([0xA0, 1, 5])
        graph = message(1, message(4, b"Nest") + message(7, b"own") + message(5, attribute))
    opset = message(8, bytes([0x10, 17]))
    return bytes([0x08, 9]) + message(7, graph) + opset


def test_nested_too_deep(write, check_refused):
    check_refused(write(nested_model(40)), "nested deeper")


def test_nested_as_deep_as_protobuf_reads(write, tmp_path):
    loaded = load(write(nested_model(32)))
    assert not loaded.has_conv_transpose
    assert save(loaded, loaded.model, tmp_path / "out.onnx", force=False).bytes
    assert infer_shapes(loaded) == {}


def test_newer_ir_version_is_read(proto, write):
    proto.ir_version = 999
    assert load(write(proto)).model.ir_version == 999


def test_unknown_fields_are_reported(proto, write):
    content = proto.SerializeToString() + b"\xf8\x07\x05"
    loaded = load(write(content))
    assert loaded.unknown_fields == ("Model: field 127",)


def test_domain_alias_is_the_default_domain(proto, write):
    proto.opset_import[0].domain = "ai.onnx"
    proto.graph.node[0].domain = "ai.onnx"
    loaded = load(write(proto))
    assert loaded.model.opset_imports == {"": 17}
    assert loaded.has_conv_transpose


def test_conv_transpose_is_found_at_any_depth(write):
    inner = "{ t = ConvTranspose(x, w) }"
    text = f"""g (float[1,2,5] x, float[2,3,3] w, bool c) => (y)
    {{ y = If (c) <then_branch = th () => (t) {inner}, else_branch = el () => (e)
      {{ e = Identity(x) }}> }}"""
    assert load(write(text)).has_conv_transpose


def test_conv_transpose_is_found_in_functions(write):
    text = """g (float[1,2,5] x, float[2,3,3] w) => (y) { y = f.up(x, w) }
    <domain: "f", opset_import: ["" : 17]> up (a, b) => (c) { c = ConvTranspose(a, b) }"""
    path = write(text.replace("g (", "g (", 1))
    assert load(path).has_conv_transpose


def test_the_node_of_another_domain_does_not_count(proto, write):
    proto.graph.node[0].domain = "convt_onnx"
    assert not load(write(proto)).has_conv_transpose
