"""Read, check, write and copy ONNX files, and infer the shapes of their values."""

from convt_onnx.model_io.copying import copy_unchanged
from convt_onnx.model_io.loading import load
from convt_onnx.model_io.records import LoadedModel, SavedModel
from convt_onnx.model_io.saving import save
from convt_onnx.model_io.shapes import ConvTransposeShape, infer_shapes
from convt_onnx.model_io.staging import staging
from convt_onnx.model_io.targets import check_destination, check_new_file, write_error

__all__ = [
    "ConvTransposeShape",
    "LoadedModel",
    "SavedModel",
    "check_destination",
    "check_new_file",
    "copy_unchanged",
    "infer_shapes",
    "load",
    "save",
    "staging",
    "write_error",
]
