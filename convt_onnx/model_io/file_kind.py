"""Say what a file is when it is not an ONNX model."""

from __future__ import annotations

from pathlib import Path

LFS_MARK = b"version https://git-lfs.github.com/spec/"
LFS_HELP = "fetch the file itself with `git lfs pull`"

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (4, b"ORTM", "an ONNX Runtime .ort model"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (0, b"PK\x03\x04", "a zip archive, such as a PyTorch checkpoint or a Keras model"),
    (0, b"\x89HDF", "an HDF5 file, such as a Keras model"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"\x80\x02", "a Python pickle, such as a PyTorch checkpoint"),
    (0, b"\x80\x04", "a Python pickle, such as a PyTorch checkpoint"),
    (0, b"ftrt", "a TensorRT engine"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (8, b'{"', "a safetensors file"),
)
_TEXT_FORMATS = {
    ".onnxtxt": "onnxtxt",
    ".onnxtext": "onnxtxt",
    ".json": "json",
    ".onnxjson": "json",
    ".textproto": "textproto",
    ".prototxt": "textproto",
    ".pbtxt": "textproto",
    ".txtpb": "textproto",
}
_EXPORT_HELP = "export it to ONNX first; convt-onnx reads the binary .onnx format only"
_SAMPLE_BYTES = 4096


def describe(path: Path, data: bytes) -> tuple[str, str]:
    """What `data` seems to be, as a noun phrase, and what to do; both may be empty."""
    if data.startswith(LFS_MARK):
        return "a Git LFS pointer", LFS_HELP
    for offset, mark, name in _MAGIC:
        if data.startswith(mark, offset):
            return name, _EXPORT_HELP
    if _is_text(data):
        return "a text file", _text_help(path)
    return "", ""


def _is_text(data: bytes) -> bool:
    sample = data[:_SAMPLE_BYTES]
    try:
        text = sample.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 3:
            return False
        text = sample[: error.start].decode("utf-8")
    return all(char.isprintable() or char in "\t\r\n\f" for char in text)


def _text_help(path: Path) -> str:
    text_format = _TEXT_FORMATS.get(path.suffix.lower())
    if text_format is None:
        return _EXPORT_HELP
    return (
        f"turn it into a binary model with onnx.save(onnx.load({path.name!r}, "
        f"format={text_format!r}), {path.with_suffix('.onnx').name!r})"
    )
