"""What measuring needs of a runtime: to load a model with its inputs, and to time its runs."""

from __future__ import annotations

from typing import Protocol

from convt_onnx.verify.session import Arrays, Source


class Timed(Protocol):
    """A loaded model with its inputs in place."""

    def seconds(self, runs: int) -> float:
        """Mean wall seconds of `runs` runs, one after the other, each finished."""
        ...


class Runtime(Protocol):
    """Where a target's models run."""

    @property
    def name(self) -> str:
        """Runtime with its version and provider."""
        ...

    @property
    def device(self) -> str:
        """Processor or GPU."""
        ...

    @property
    def threads(self) -> int:
        """Threads that a model may use; 0 leaves that to the runtime."""
        ...

    def prepare(self, source: Source) -> None:
        """Do what is done once for all loads of a model: it is not measuring, and may take long.

        Raises:
            RunError: It cannot be done; `load` then says the same.
        """
        ...

    def load(self, source: Source, feeds: Arrays) -> Timed:
        """Load a model.

        Raises:
            RunError: The runtime does not load or run it.
        """
        ...
