"""Write a model, and its external data beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from convt_onnx.model_io.externalise import externalised, movable_slots
from convt_onnx.model_io.records import LoadedModel, SavedModel
from convt_onnx.model_io.serde import serialise
from convt_onnx.model_io.slots import Slot, tensor_slots
from convt_onnx.model_io.staging import Staging, staging
from convt_onnx.model_io.targets import check_folder, check_targets, data_path, write_error

INLINE_LIMIT_BYTES = 1_900_000_000


def save(loaded: LoadedModel, model: ir.Model, out: Path, *, force: bool) -> SavedModel:
    """Write `model`, which was made from `loaded`, to `out`.

    Weights stay inside the file if the input had them there and they fit; otherwise they go
    to one file `<out>.data`. Nothing is left behind when writing fails.

    Args:
        loaded: The input, which is never written over.
        model: The model to write; it is unchanged afterwards.
        out: The file to write, in a folder that exists.
        force: Replace `out` and its data file if they exist.

    Raises:
        UsageError: `out` may not or cannot be written.
        ModelError: The model cannot be serialised.
    """
    too_large = _inline_bytes(model) > INLINE_LIMIT_BYTES
    slots: list[Slot] = []
    if loaded.external_files or too_large:
        slots = movable_slots(model, move_inline=too_large)
    data = data_path(out) if slots else None
    check_folder(out)
    check_targets(loaded, (out, data) if data else (out,), force=force)
    try:
        with staging() as stage:
            content, external_bytes = _write_data(stage, loaded, model, out, slots)
            with stage.open(out) as file:
                file.write(content)
    except OSError as error:
        raise write_error(out, error) from error
    return SavedModel(out, len(content), data, external_bytes)


def _inline_bytes(model: ir.Model) -> int:
    tensors = (slot.get() for slot in tensor_slots(model))
    return sum(
        tensor.nbytes
        for tensor in tensors
        if tensor is not None and not isinstance(tensor, ir.ExternalTensor)
    )


def _write_data(
    stage: Staging, loaded: LoadedModel, model: ir.Model, out: Path, slots: Sequence[Slot]
) -> tuple[bytes, int]:
    """Write the data file, and return the model file's content and the data file's size."""
    if not slots:
        return serialise(model, loaded.proto, out), 0
    data = data_path(out)
    with stage.open(data) as file, externalised(slots, file, data.name):
        return serialise(model, loaded.proto, out), file.tell()
