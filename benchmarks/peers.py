"""Round trip with other optimizers: convt-onnx after them, and they after convt-onnx.

    python benchmarks/peers.py models ../shared/corpus/architectures --json peers.json

A peer is run alone first: where it changes a model's values by itself, that is its bug, and the
line says so. Then the model as the peer leaves it is optimised and verified for every target, and
what convt-onnx writes for every target is given to the peer, whose result must compute the same in
ONNX Runtime. What peers do that models here may meet:

* onnxslim 0.1.98 folds a Mul by a 1-D constant into the channels of the ConvTranspose before it
  where its length is C_out, though ONNX broadcasts it along the width.
* onnxsim 0.8.1 is not idempotent: a second run may change the graph again. Only values count here.
  It refuses files whose nodes are not sorted.
* ONNX Runtime's extended level swaps integer kernels in for QuantizeLinear and DequantizeLinear.
  They saturate, and on a CPU without VNNI results move by far more than a step.
"""

from __future__ import annotations

import collections
import importlib.util
import itertools
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import onnx
from corpus_table import inputs_beside
from environment import environment

from convt_onnx import OptimizeOptions, Verification, VerifyOptions, optimize, verify_files
from convt_onnx.errors import ConvtError
from convt_onnx.targets import TARGETS
from convt_onnx.tuning.options import TuneOptions

ALONE, BEFORE, AFTER = "peer alone", "peer first", "peer second"
Process = Callable[[Path, Path], None]


class PeerError(Exception):
    """The peer does not process the model."""


@dataclass(frozen=True, slots=True)
class Line:
    """One model, one peer, one direction.

    Attributes:
        worst: Largest difference over the outputs, relative to the output's largest magnitude;
            None where nothing was compared.
    """

    model: str
    peer: str
    direction: str
    target: str
    outcome: str
    worst: float | None = None

    @property
    def ok(self) -> bool:
        """Whether values are what they were, or the peer is to blame."""
        return self.outcome in ("same", "copied") or self.outcome.startswith("peer")


def onnxslim(source: Path, output: Path) -> None:
    """All that it does by default."""
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), output)


def onnxsim(source: Path, output: Path) -> None:
    """All that it does by default."""
    import onnxsim

    simplified, _ = onnxsim.simplify(onnx.load(source))
    onnx.save(simplified, output)


def onnxruntime(level: str) -> Process:
    """ONNX Runtime's own optimizer at a level, its result saved."""

    def process(source: Path, output: Path) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        options.optimized_model_filepath = str(output)
        ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])

    return process


# Name: the package it needs, and what it does.
PEERS: dict[str, tuple[str, Process]] = {
    "onnxslim": ("onnxslim", onnxslim),
    "onnxsim": ("onnxsim", onnxsim),
    "ort-basic": ("onnxruntime", onnxruntime("ORT_ENABLE_BASIC")),
    "ort-extended": ("onnxruntime", onnxruntime("ORT_ENABLE_EXTENDED")),
}


def available(peer: str) -> bool:
    """Whether its package is installed."""
    return importlib.util.find_spec(PEERS[peer][0]) is not None


def apply(peer: str, source: Path, output: Path) -> Path:
    """Process a file.

    Raises:
        PeerError: It does not.
    """
    try:
        PEERS[peer][1](source, output)
    except Exception as error:  # each peer raises what it likes
        lines = str(error).split("\n")
        raise PeerError(f"{type(error).__name__}: {lines[0]}"[:120]) from error
    return output


def round_trip(path: Path, name: str, peer: str, targets: Sequence[str]) -> Iterator[Line]:
    """The peer alone, then both orders for each target."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        checks = VerifyOptions(inputs=inputs_beside(path))
        processed = folder / "processed.onnx"
        alone = Line(name, peer, ALONE, "", *_alone(peer, path, processed, checks))
        yield alone
        for target in targets:
            if processed.is_file():
                outcome, worst = _optimized(processed, folder / "a.onnx", target, checks)
                yield Line(name, peer, BEFORE, target, outcome, worst)
            outcome, worst = _peer_second(peer, path, folder, target, checks)
            if not alone.ok or alone.outcome != "same":
                outcome = outcome if outcome == "same" else f"peer, as on the original: {outcome}"
            yield Line(name, peer, AFTER, target, outcome, worst)


def _alone(
    peer: str, path: Path, processed: Path, checks: VerifyOptions
) -> tuple[str, float | None]:
    try:
        apply(peer, path, processed)
        return _compared(path, processed, checks, "peer changes the values")
    except PeerError as error:
        return f"peer fails: {error}", None


def _optimized(
    source: Path, output: Path, target: str, checks: VerifyOptions
) -> tuple[str, float | None]:
    options = OptimizeOptions(
        target=target, force=True, checks=checks, tune=TuneOptions(enabled=False)
    )
    try:
        result = optimize(source, output, options)
    except ConvtError as error:
        return f"exit {int(error.exit_code)}: {error.what} ({error.where})", None
    if not result.modified:
        return "copied", None
    if result.verification is None or not result.verification.ok:
        return "not verified", None
    return "same", _worst(result.verification)


def _peer_second(
    peer: str, path: Path, folder: Path, target: str, checks: VerifyOptions
) -> tuple[str, float | None]:
    ours = folder / "ours.onnx"
    outcome, worst = _optimized(path, ours, target, checks)
    if outcome not in ("same", "copied"):
        return f"before the peer: {outcome}", worst
    try:
        theirs = apply(peer, ours, folder / "theirs.onnx")
    except PeerError as error:
        return f"fails in the peer: {error}", None
    return _compared(ours, theirs, checks, "the values change")


def _compared(
    before: Path, after: Path, checks: VerifyOptions, otherwise: str
) -> tuple[str, float | None]:
    try:
        verification = verify_files(before, after, checks)
    except ConvtError as error:
        return f"{otherwise}: {error.what} ({error.where})", None
    return "same" if verification.ok else otherwise, _worst(verification)


def _worst(verification: Verification) -> float | None:
    return max((c.max_rel for c in verification.outputs), default=None)


def text(x: Line) -> str:
    """One row."""
    worst = "-" if x.worst is None else f"{x.worst:.2g}"
    return f"{x.model[:48]:48} {x.peer:12} {x.direction:11} {x.target:9} {worst:>8} {x.outcome}"


def totals(lines: Sequence[Line]) -> Iterator[str]:
    """One line a peer and direction."""
    for peer, direction in itertools.product(PEERS, (ALONE, BEFORE, AFTER)):
        mine = [x for x in lines if (x.peer, x.direction) == (peer, direction)]
        outcomes = dict(collections.Counter(x.outcome.split(":")[0] for x in mine))
        worst = max((x.worst for x in mine if x.worst is not None and x.ok), default=0.0)
        if mine:
            yield f"{peer}, {direction}: {len(mine)} runs, {outcomes}, worst {worst:.2g}"


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--peer", "peers", multiple=True, type=click.Choice(list(PEERS)))
@click.option("--only", default="", help="Part of a model's name.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(folders: Sequence[Path], peers: Sequence[str], only: str, json_path: Path | None) -> None:
    """Print the table and totals. Exits 1 where convt-onnx fails or a peer breaks its output."""
    logging.disable(logging.WARNING)
    click.echo(environment())
    lines: list[Line] = []
    for peer in peers or PEERS:
        if not available(peer):
            click.echo(f"{peer}: skipped, {PEERS[peer][0]} is not installed")
    paths = [(p, f) for f in folders for p in sorted(f.rglob("*.onnx")) if only in p.name]
    for (path, folder), peer in itertools.product(paths, peers or PEERS):
        if available(peer):
            for x in round_trip(path, str(path.relative_to(folder)), peer, tuple(TARGETS)):
                lines.append(x)
                click.echo(text(x))
    for total in totals(lines):
        click.echo(total)
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(x) for x in lines], indent=2))
    if not all(x.ok for x in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
