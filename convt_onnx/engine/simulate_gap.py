"""What the simulation has no rule for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from convt_onnx.errors import ConvtError, ExitCode

T = TypeVar("T")


class SimulationGapError(ConvtError):
    """The network holds a layer or a type that the simulation has no rule for."""

    exit_code = ExitCode.MISSING_PART


def no_rule(what: str) -> SimulationGapError:
    """The error for a network that holds `what`."""
    return SimulationGapError(
        "the network cannot be simulated",
        where=f"no rule for {what}",
        help="run the engine on its device and compare: convt-onnx verify MODEL ENGINE",
    )


def rule(rules: Mapping[str, T], name: str, raw: Any) -> T:
    """The rule of that name for a layer.

    Raises:
        SimulationGapError: There is none.
    """
    if name not in rules:
        raise no_rule(f"{name} of layer {raw.name!r}")
    return rules[name]
