"""Progress of a build, from TensorRT's IProgressMonitor to the terminal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from convt_onnx.engine.backend import Backend


def make_monitor(backend: Backend, progress: Any) -> Any:
    """A monitor that shows each phase as one bar; None where this version has no monitor.

    Args:
        backend: Whose base class it needs.
        progress: A rich Progress that is running.
    """
    base: Any = getattr(backend.module, "IProgressMonitor", None)
    if base is None:
        return None

    class Monitor(base):  # type: ignore[misc]
        """Phases may nest and come from several threads. `stop` ends the build."""

        def __init__(self) -> None:
            base.__init__(self)
            self.stop = threading.Event()
            self._tasks: dict[str, Any] = {}
            self._depth: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            """A new bar, indented below its parent's."""
            depth = self._depth.get(parent_phase or "", -1) + 1
            self._depth[phase_name] = depth
            self._tasks[phase_name] = progress.add_task("  " * depth + phase_name, total=num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            """Move the bar; False asks TensorRT to stop."""
            if phase_name in self._tasks:
                progress.update(self._tasks[phase_name], completed=step + 1)
            return not self.stop.is_set()

        def phase_finish(self, phase_name: str) -> None:
            """Take the bar away."""
            self._depth.pop(phase_name, None)
            if phase_name in self._tasks:
                progress.remove_task(self._tasks.pop(phase_name))

    return Monitor()


@contextmanager
def watching(backend: Backend, progress: Any) -> Iterator[Any]:
    """A monitor for one build, which an interrupt from the keyboard ends at its next step.

    Python sees the interrupt only when the builder calls it, so the builder is asked to stop.

    Args:
        backend: The builder's.
        progress: A rich Progress that is running.

    Raises:
        KeyboardInterrupt: The build was ended.
    """
    monitor = make_monitor(backend, progress)
    if monitor is None or threading.current_thread() is not threading.main_thread():
        yield monitor
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: monitor.stop.set())
    try:
        yield monitor
    finally:
        signal.signal(signal.SIGINT, before)
        if monitor.stop.is_set():
            raise KeyboardInterrupt
