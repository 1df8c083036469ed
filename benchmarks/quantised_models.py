"""The quantised models that benchmarks/quantised.py measures: files, and exports quantised here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

EXPORTS = ("dcgan", "fcn8s", "hifigan", "unet")
CASES = ("008", "012", "013", "015", "017")

Feeds = dict[str, npt.NDArray[np.generic]]


def shared_models(shared: Path) -> Iterator[Path]:
    """Quantised files of the shared folder, as far as it is there."""
    for number in CASES:
        yield from sorted((shared / "cases").glob(f"{number}_*/model.onnx"))
    melgan = shared / "corpus/architectures/melgan_int8_qdq.onnx"
    if melgan.is_file():
        yield melgan


def random_feeds(model: onnx.ModelProto, seed: int) -> Feeds:
    """Seeded normal values; open sizes become 16."""
    rng = np.random.default_rng(seed)
    known = {t.name for t in model.graph.initializer}
    feeds: Feeds = {}
    for value in model.graph.input:
        if value.name not in known:
            shape = [d.dim_value or 16 for d in value.type.tensor_type.shape.dim]
            feeds[value.name] = rng.standard_normal(shape).astype(np.float32)
    return feeds


class _Calibration:
    """What quantize_static reads its ranges from."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._left = iter([random_feeds(model, seed) for seed in range(4)])

    def get_next(self) -> Feeds | None:
        """The next input, None at the end."""
        return next(self._left, None)

    def set_range(self, start_index: int, end_index: int) -> None:
        """Unused; quantize_static asks for it."""


def quantised_export(name: str, folder: Path, *, per_channel: bool) -> Path:
    """A tiny export of convt_onnx.models, quantised by onnxruntime's quantize_static.

    Per channel it fails on a grouped node with a bias and several outputs a group: it takes
    the bias for one value a weight channel. Such a weight is left in float there.
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    from convt_onnx import models

    plain = folder / f"{name}.onnx"
    if not plain.is_file():
        models.export(name, plain, size="tiny")
    model = onnx.load(plain)
    path = folder / f"{name}_{'channel' if per_channel else 'tensor'}.onnx"
    quantize_static(
        plain,
        path,
        _Calibration(model),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=_unquantisable(model) if per_channel else [],
    )
    return path


def _unquantisable(model: onnx.ModelProto) -> list[str]:
    shapes = {t.name: t.dims for t in model.graph.initializer}
    names = []
    for node in model.graph.node:
        if node.op_type == "ConvTranspose" and len(node.input) > 2 and node.input[1] in shapes:
            group = next((a.i for a in node.attribute if a.name == "group"), 1)
            if group > 1 and shapes[node.input[1]][1] > 1:
                names.append(node.name)
    return names


def integer_bytes(model: onnx.ModelProto) -> int:
    """Bytes of 8-bit and narrower initializers."""
    narrow = {
        onnx.TensorProto.INT8: 1.0,
        onnx.TensorProto.UINT8: 1.0,
        onnx.TensorProto.INT4: 0.5,
        onnx.TensorProto.UINT4: 0.5,
    }
    return int(sum(narrow.get(t.data_type, 0.0) * np.prod(t.dims) for t in model.graph.initializer))


def float_weights(model: onnx.ModelProto) -> int:
    """Bytes of float initializers of rank 3 and more, but for columns such as a bias."""
    floats = (t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT)
    weights = (t for t in floats if len(t.dims) >= 3 and np.prod(t.dims[1:]) > 1)
    return sum(numpy_helper.to_array(t).nbytes for t in weights)
