"""The model after each pass, kept for whoever wants to look at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from convt_onnx import model_io
from convt_onnx.model_io import LoadedModel, SavedModel


@dataclass(frozen=True, slots=True)
class Dumps:
    """Files of one rewrite in a folder that may hold others; without a folder, none."""

    folder: Path | None
    _saved: list[SavedModel] = field(default_factory=list)

    def save(self, loaded: LoadedModel, step: str) -> None:
        """Write `<step>.onnx`, in place of an older one.

        Raises:
            UsageError: The file cannot be written.
        """
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{step}.onnx"
        self._saved.append(model_io.save(loaded, loaded.model, path, force=True))

    def discard(self) -> None:
        """Remove what was saved: that rewrite is not taken."""
        for saved in self._saved:
            saved.path.unlink(missing_ok=True)
            if saved.external_path is not None:
                saved.external_path.unlink(missing_ok=True)
        self._saved.clear()


NO_DUMPS = Dumps(None)
