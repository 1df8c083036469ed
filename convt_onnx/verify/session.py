"""ONNX Runtime, CPU provider: the first judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from convt_onnx.errors import ConvtError, ExitCode, MissingPartError, install

Arrays = Mapping[str, npt.NDArray[Any]]


CHECK_HELP = "a newer onnxruntime may load it; onnx.checker.check_model tells whether it is valid"
SIZES_HELP = "give sizes with --input-shapes NAME:1,3,64,64 or data with --inputs FILE.npz"


class RunError(ConvtError):
    """ONNX Runtime does not load or run a model."""

    exit_code = ExitCode.CHECK_FAILED


@dataclass(frozen=True, slots=True)
class Source:
    """A model to run: its message and the folder that its external data is in.

    `as_written` turns ONNX Runtime's graph optimiser off: where a model quantises, it swaps in
    integer kernels that saturate, and results move by far more than a rounding step.
    """

    proto: onnx.ModelProto
    folder: Path
    as_written: bool = False


def onnxruntime() -> Any:
    """The onnxruntime module, quiet.

    Raises:
        MissingPartError: It is not installed.
    """
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise MissingPartError(
            "onnxruntime is not installed, so nothing can be verified",
            help=f"{install('cpu')}; optimize also takes --no-verify",
        ) from error
    ort.set_default_logger_severity(4)
    return ort


class Runner:
    """One session. `extra` names values of the main graph to be returned besides the outputs."""

    def __init__(self, source: Source, extra: Sequence[str] = ()) -> None:
        ort = onnxruntime()
        options = ort.SessionOptions()
        if source.as_written:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(source.folder.resolve())
        )
        data = _serialise(source.proto, extra)
        try:
            self._session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions share no base of their own
            raise RunError(
                "ONNX Runtime does not load the model", where=one_line(error), help=CHECK_HELP
            ) from error

    @property
    def inputs(self) -> list[tuple[str, str, list[int | str | None]]]:
        """(name, onnxruntime type, shape) of each input that must be fed."""
        return [(i.name, i.type, list(i.shape)) for i in self._session.get_inputs()]

    def run(self, feeds: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Every output by name; the elements of a sequence as `name[0]`, `name[1]`, ..."""
        names = [o.name for o in self._session.get_outputs()]
        try:
            values = self._session.run(names, dict(feeds))
        except Exception as error:
            raise RunError(
                "ONNX Runtime does not run the model", where=one_line(error), help=SIZES_HELP
            ) from error
        pairs = zip(names, values, strict=True)
        return {name: array for pair in pairs for name, array in _tensors(*pair)}


def _tensors(name: str, value: object) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, list):
        for i, element in enumerate(value):
            yield from _tensors(f"{name}[{i}]", element)


def _serialise(proto: onnx.ModelProto, extra: Sequence[str]) -> bytes:
    present = len(proto.graph.output)
    known = {o.name for o in proto.graph.output}
    proto.graph.output.extend(
        onnx.ValueInfoProto(name=n) for n in dict.fromkeys(extra) if n not in known
    )
    try:
        data: bytes = proto.SerializeToString()
        return data
    finally:
        del proto.graph.output[present:]


def one_line(error: Exception) -> str:
    """The message of an exception on one line, cut where it is long."""
    text = " ".join(str(error).split())
    return text if len(text) < 400 else text[:400] + " …"
