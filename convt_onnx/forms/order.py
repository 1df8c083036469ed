"""In which order channels and phases lie before the interleave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# channel: [C, *phases]; phase: [*phases, C]; moves: [g, phase of the last axis, *other phases, M];
# pairs: [g, phases of the last two axes, *other phases, M].
Order = Literal["channel", "phase", "moves", "pairs"]
# Of how many last axes the phases are put in front.
_IN_FRONT: dict[Order, int] = {"channel": 0, "phase": 0, "moves": 1, "pairs": 2}


def in_front(order: Order) -> int:
    """How many axes, counted from the last, have their phases in front of the other axes'."""
    return _IN_FRONT[order]


@dataclass(frozen=True, slots=True)
class Interleave:
    """What is known: output channels, one stride an axis, sizes before (None where open).

    `group` is how many blocks of channels stay together, each with all its phases; 1 where phases
    lead over all channels. `joined`: for the order of moves or pairs, all groups in one matrix.
    """

    channels: int
    strides: tuple[int, ...]
    batch: int | None
    sizes: tuple[int | None, ...]
    order: Order
    group: int = 1
    joined: bool = False

    @property
    def phase_first(self) -> bool:
        """Whether the phases lead."""
        return self.order == "phase"

    @property
    def strided(self) -> tuple[int, ...]:
        """Axes that have more than one phase."""
        return tuple(i for i, s in enumerate(self.strides) if s > 1)

    @property
    def split(self) -> list[int]:
        """The packed channel axis, taken apart."""
        phases = [self.strides[i] for i in self.strided]
        return [*phases, self.channels] if self.phase_first else [self.channels, *phases]
