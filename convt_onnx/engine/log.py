"""What TensorRT says while it works."""

from __future__ import annotations

from typing import Any

from convt_onnx.engine.backend import Backend

MAX_KEPT = 200


def make_log(backend: Backend, echo: Any = None) -> Any:
    """A logger of the backend that keeps errors and warnings.

    Args:
        backend: Whose base class it needs.
        echo: Called with every message, where the user wants to see them.
    """
    base: Any = backend.module.ILogger

    class Log(base):  # type: ignore[misc]
        """`errors` and `warnings`, in order, the first of each kind where there are many."""

        def __init__(self) -> None:
            base.__init__(self)
            self.errors: list[str] = []
            self.warnings: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            """Called from any thread."""
            kept = {"ERROR": self.errors, "INTERNAL_ERROR": self.errors, "WARNING": self.warnings}
            lines = kept.get(severity.name)
            if lines is not None and len(lines) < MAX_KEPT and not _expected(message):
                lines.append(message)
            if echo is not None and severity.name != "VERBOSE":
                echo(f"[{severity.name.lower()}] {message}")

    return Log()


def _expected(message: str) -> bool:
    """Said on every machine without a GPU, whatever the model."""
    return "cudaError 35" in message or "cudaError 100" in message


def cause(log: Any) -> str:
    """The first error, on one line."""
    text = log.errors[0] if log.errors else ""
    line = " ".join(text.split())
    return line if len(line) < 400 else line[:400] + " …"
