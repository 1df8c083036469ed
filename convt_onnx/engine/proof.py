"""The parsed network, computed in NumPy, against the model in ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from convt_onnx import model_io
from convt_onnx.engine.network import Network, reparse
from convt_onnx.engine.simulate import simulate, unknown_kinds
from convt_onnx.engine.simulate_gap import SimulationGapError
from convt_onnx.engine.simulate_plugins import plugin_rules
from convt_onnx.verify import Source, VerifyOptions
from convt_onnx.verify.compare import Comparison, compare
from convt_onnx.verify.session import Arrays, RunError
from convt_onnx.verify.twin import coarsest_step, float32_twin, other_floats
from convt_onnx.verify.verification import quantises, run_on_some, tolerance_for

# What NumPy does in some seconds.
MAX_MACS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Proof:
    """`ok` is None where nothing was compared; `why` says the reason."""

    ok: bool | None
    outputs: tuple[Comparison, ...]
    why: str = ""

    @property
    def worst(self) -> float | None:
        """Largest difference, as a share of the output's scale."""
        return max((c.max_rel for c in self.outputs), default=None)


def prove(
    network: Network, source: Path, parsed: Path, options: VerifyOptions, folder: Path
) -> Proof:
    """Run the model in ONNX Runtime and the network in NumPy on the same inputs.

    A model in bfloat16 or float16 is compared by its float32 twin, whose network has the same
    layers: the CPU computes neither type.

    Args:
        network: What was parsed.
        source: The user's model.
        parsed: The file that was parsed, which may be the rewritten one.
        options: Inputs and tolerances.
        folder: For temporary files.
    """
    original, rewritten = _source(source), _source(parsed)
    quantised = quantises(original.proto)
    tolerance = tolerance_for(options, quantised, step=coarsest_step(original.proto))
    if other_floats(original.proto):
        original, rewritten = float32_twin(original), float32_twin(rewritten)
        twin = folder / "twin.onnx"
        onnx.save(rewritten.proto, twin)
        network = reparse(network, twin)
    elif quantised:
        original = replace(original, as_written=True)
    rules = plugin_rules(rewritten.proto)
    if gaps := unknown_kinds(network, rules):
        return Proof(None, (), f"no rule for {', '.join(sorted(gaps))}")
    try:
        feeds, wanted = _reference(original, rewritten, options)
        got = simulate(network, feeds, max_macs=MAX_MACS, plugins=rules)
    except (SimulationGapError, RunError) as error:
        return Proof(None, (), f"{error.what}: {error.where}")
    outputs = tuple(compare(n, got.get(n), wanted[n], tolerance) for n in wanted)
    return Proof(all(c.ok for c in outputs), outputs)


def _source(path: Path) -> Source:
    return Source(model_io.load(path).proto, path.parent)


def _reference(
    original: Source, rewritten: Source, options: VerifyOptions
) -> tuple[Arrays, Arrays]:
    """Inputs and outputs; of the rewritten model where ONNX Runtime refuses the original."""
    try:
        inputs, wanted = run_on_some(original, options)
    except RunError:
        inputs, wanted = run_on_some(rewritten, options)
    return inputs.arrays, wanted
