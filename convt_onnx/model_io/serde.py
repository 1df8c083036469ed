"""Turn protos into onnx-ir models and back, with errors that a user can read."""

from __future__ import annotations

import warnings
from pathlib import Path

import onnx_ir as ir
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from convt_onnx.collector import collector_paused
from convt_onnx.errors import ModelError
from convt_onnx.model_io.advice import EXPORT_AGAIN
from convt_onnx.model_io.restoring import restore


def deserialise(proto: ModelProto, path: Path) -> ir.Model:
    """The onnx-ir model of a checked proto that was read from `path`.

    Raises:
        ModelError: onnx-ir does not accept it.
    """
    try:
        with collector_paused(), warnings.catch_warnings():
            # onnx warns of keys of external data that it does not know; nothing reads them.
            warnings.simplefilter("ignore")
            return ir.serde.deserialize_model(proto)
    except (ir.serde.SerdeError, ValueError, TypeError, RecursionError) as error:
        raise ModelError(
            f"cannot read {path}: onnx-ir does not accept the model",
            where=_root_cause(error),
            help=EXPORT_AGAIN,
        ) from error


def serialise(model: ir.Model, original: ModelProto, out: Path) -> bytes:
    """The content of the file `out` for `model`, which was made from `original`.

    Raises:
        ModelError: The model does not serialise.
    """
    try:
        proto = ir.serde.serialize_model(model)
        restore(proto, original)
        content: bytes = proto.SerializeToString()
    except (ir.serde.SerdeError, EncodeError, ValueError, TypeError) as error:
        raise ModelError(
            f"cannot write {out}: the model does not serialise",
            where=_root_cause(error),
            help="please report this with the model",
        ) from error
    return content


def _root_cause(error: BaseException) -> str:
    while isinstance(error, ir.serde.SerdeError) and error.__cause__ is not None:
        error = error.__cause__
    return str(error).partition("\n")[0][:300]
