"""What loading and saving hand back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A checked model and the files that it came from; sizes are in bytes.

    `proto` is the model as the file holds it; its tensors are shared with `model`.
    `unknown_fields` says where the file holds fields that the installed onnx does not know,
    which a rewritten model lacks.
    """

    path: Path
    model: ir.Model
    proto: onnx.ModelProto = field(repr=False)
    proto_bytes: int
    external_files: tuple[Path, ...]
    external_bytes: int
    has_conv_transpose: bool
    unknown_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SavedModel:
    """The files that were written; sizes are in bytes."""

    path: Path
    bytes: int
    external_path: Path | None
    external_bytes: int
