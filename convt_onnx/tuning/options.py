"""What a user may say about measuring."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path

from convt_onnx.errors import UsageError
from convt_onnx.verify.inputs import InputShapes


@dataclass(frozen=True, slots=True)
class SizeSet:
    """Shapes of the model's inputs that matter to the user.

    Attributes:
        shapes: By input name; others are chosen.
        weight: How often they occur, on any scale; None where no set has one.
    """

    shapes: InputShapes
    weight: float | None = None

    def __post_init__(self) -> None:
        if self.weight is not None and not 0 < self.weight < inf:
            raise UsageError(
                "a weight must be a positive number",
                where=f"weight {self.weight}",
                help="NAME:1,3,64,64@2",
            )


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How forms are timed.

    Attributes:
        enabled: True: time, or fail where nothing can be timed; False: the cost model decides;
            None: time where the target's runtime is here.
        seconds: For the whole model.
        threads: Threads that the runtime may use; 0 is its default.
        cache: A folder for times of earlier runs; the user's cache folder by default.
        sizes: What inputs of open size are to be timed with; several allowed. By default the
            inputs that the result is verified with, where the user gave any.
    """

    enabled: bool | None = None
    seconds: float = 60.0
    threads: int = 0
    cache: Path | None = None
    sizes: tuple[SizeSet, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.seconds < inf:
            raise UsageError(
                "the time for tuning must be a positive number of seconds",
                where=f"--tune-seconds {self.seconds}",
                help="--no-tune does not time anything",
            )
        if self.threads < 0:
            raise UsageError(
                "the number of threads must not be negative",
                where=f"--threads {self.threads}",
                help="0 leaves it to the runtime",
            )
        given = [s.weight is not None for s in self.sizes]
        if any(given) and not all(given):
            raise UsageError(
                "some sizes have a weight and some have none",
                where="--input-shapes",
                help="give each set a weight, NAME:1,3,64,64@2, or none",
            )
