"""Check the external data that a model's tensors refer to, without reading it."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx_ir as ir
from onnx import TensorProto

from convt_onnx.errors import ModelError
from convt_onnx.model_io.file_kind import LFS_HELP, LFS_MARK
from convt_onnx.model_io.tensors import byte_count, data_type, element_count
from convt_onnx.model_io.walk import shown

_NUMBER = re.compile(r"[0-9]{1,18}")
_MISSING_HELP = "put the data file beside the model, where its exporter wrote it"
_SAVE_HELP = (
    "export the model again, or save it anew with onnx.save_model(..., save_as_external_data=True)"
)
_INSIDE_HELP = "copy the data into the model's folder (`cp -L` follows links)"


@dataclass(slots=True)
class ExternalChecker:
    """Checks external tensors of one model and remembers the files that they use.

    `sizes` maps each data file to its size in bytes.
    """

    folder: Path
    sizes: dict[Path, int] = field(default_factory=dict)

    def check(self, tensor: TensorProto, where: str) -> None:
        """Check one tensor whose data is in another file.

        Raises:
            ModelError: The entry is malformed, leads outside the folder, or does not fit.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        dtype = data_type(tensor, where)
        if dtype == ir.DataType.STRING:
            raise ModelError(
                "a tensor of strings has external data",
                where=where,
                help="save strings in the model file itself; onnx stores only numbers outside",
            )
        needed = byte_count(element_count(tensor, where), dtype)
        offset = _number(entries, "offset", 0, where)
        length = _number(entries, "length", needed, where)
        if length != needed:
            raise ModelError(
                f"external data has the length {length} where the dimensions need {needed} bytes",
                where=where,
                help=_SAVE_HELP,
            )
        path = self.folder / _location(entries, where)
        if path not in self.sizes:
            self.sizes[path] = _file_size(path, self.folder, where)
        if offset + needed > self.sizes[path]:
            raise _too_short(path, offset + needed, self.sizes[path], where)


def _number(entries: dict[str, str], key: str, default: int, where: str) -> int:
    text = entries.get(key)
    if text is None:
        return default
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        raise ModelError(
            f"external data has the {key} {shown(text)}, which is no size",
            where=where,
            help=_SAVE_HELP,
        )
    return int(text)


def _location(entries: dict[str, str], where: str) -> PurePosixPath:
    text = entries.get("location")
    if not isinstance(text, str) or not text or "\0" in text:
        raise ModelError(
            f"external data has the location {shown(text)}", where=where, help=_SAVE_HELP
        )
    location = PurePosixPath(text)
    outside = location.is_absolute() or PureWindowsPath(text).is_absolute()
    if outside or ".." in location.parts or ".." in PureWindowsPath(text).parts:
        raise ModelError(
            f"external data at {shown(text)} is outside the model's folder",
            where=where,
            help=_INSIDE_HELP,
        )
    return location


def _file_size(path: Path, folder: Path, where: str) -> int:
    try:
        real = path.resolve(strict=True)
        status = real.stat()
    except FileNotFoundError:
        raise ModelError(
            f"the data file {path} does not exist", where=where, help=_MISSING_HELP
        ) from None
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(
            f"cannot read the data file {path}: {reason}",
            where=where,
            help="check that you may read it and that no link to it loops",
        ) from error
    if not real.is_relative_to(folder.resolve()):
        raise ModelError(
            f"the data file {path} is a link to outside the model's folder",
            where=where,
            help=_INSIDE_HELP,
        )
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(
            f"the data file {path} is not a regular file",
            where=where,
            help="put a plain file with the data in its place",
        )
    if status.st_nlink > 1:
        raise ModelError(
            f"the data file {path} has several hard links, which onnx-ir refuses to read",
            where=where,
            help="make a plain copy of it in its place",
        )
    return status.st_size


def _too_short(path: Path, needed: int, size: int, where: str) -> ModelError:
    with path.open("rb") as file:
        is_pointer = file.read(len(LFS_MARK)) == LFS_MARK
    if is_pointer:
        return ModelError(f"the data file {path} is a Git LFS pointer", where=where, help=LFS_HELP)
    return ModelError(
        f"the data file {path} has {size} bytes where {needed} are needed",
        where=where,
        help="the file is cut short; copy or download it again",
    )
