"""Read the bytes of a model file and parse them."""

from __future__ import annotations

import stat
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from convt_onnx.errors import ModelError
from convt_onnx.model_io.file_kind import describe

MAX_PROTO_BYTES = 2**31 - 1
_EXTERNAL_HELP = "export it again with its weights as external data"


def read_proto(path: Path) -> tuple[onnx.ModelProto, int]:
    """Read `path` and parse it; external data stays where it is.

    Returns:
        The parsed model and the size of the file in bytes.

    Raises:
        ModelError: The file cannot be read, or is not an ONNX model.
    """
    data = _read(path)
    if not data:
        raise ModelError(f"cannot read {path}: the file is empty", help="export the model again")
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise _not_a_model(path, data, str(error)) from None
    missing = _missing_part(proto)
    if missing:
        raise _not_a_model(path, data, missing)
    return proto, len(data)


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ModelError(
                f"cannot read {path}: it is a folder", help="name the .onnx file in it"
            )
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(
                f"cannot read {path}: it is not a regular file",
                help="copy what it holds into a file first",
            )
        if status.st_size > MAX_PROTO_BYTES:
            raise ModelError(
                f"cannot read {path}: {status.st_size} bytes are more than the 2 GiB "
                "that an ONNX file can hold",
                help=_EXTERNAL_HELP,
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"cannot read {path}: no such file", help="check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(
            f"cannot read {path}: {reason}", help="check the path, and that you may read the file"
        ) from error


def _missing_part(proto: onnx.ModelProto) -> str:
    if not proto.HasField("graph"):
        return "it holds no graph"
    if proto.ir_version < 1:
        return "it states no IR version"
    if not proto.opset_import:
        return "it imports no operator set"
    return ""


def _not_a_model(path: Path, data: bytes, reason: str) -> ModelError:
    kind, help_line = describe(path, data)
    if kind:
        return ModelError(f"cannot read {path}: it is {kind}, not an ONNX model", help=help_line)
    if "MaxDepth" in reason:
        return ModelError(
            f"cannot read {path}: its subgraphs are nested deeper than protobuf reads",
            help="flatten the If, Loop and Scan nodes before exporting",
        )
    if "corrupt" in reason:
        reason = "damaged, cut short, or of another kind"
    return ModelError(
        f"cannot read {path}: not a usable ONNX model",
        where=reason,
        help="export or download the file again; only the binary .onnx format is read",
    )
