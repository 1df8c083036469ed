"""Random ConvTranspose models in TensorRT-RTX, as they are and after `optimize`.

    python benchmarks/tensorrt_sweep.py --count 2000 --json sweep.json

Every model that ONNX Runtime runs is parsed, built into an engine, and its network is computed in
NumPy and compared with ONNX Runtime. Nothing needs a GPU. Exits 1 where an optimised model is not
built or means something else, or `inspect` predicts another outcome for the original.
"""

from __future__ import annotations

import collections
import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import onnx
from environment import environment
from tensorrt_geometries import Geometry, geometries

from convt_onnx import OptimizeOptions, VerifyOptions, inspect, optimize
from convt_onnx.engine.backend import Backend, load_backend
from convt_onnx.engine.config import Settings, configure
from convt_onnx.engine.network import Network, parse
from convt_onnx.engine.profiles import Profile, Range, complete, network_inputs
from convt_onnx.engine.proof import prove
from convt_onnx.errors import ConvtError, ModelError
from convt_onnx.verify import Source
from convt_onnx.verify.session import RunError
from convt_onnx.verify.twin import float32_twin
from convt_onnx.verify.verification import run_on_some

OUTCOMES = ("refused", "not built", "wrong", "right")


@dataclass(frozen=True)
class Line:
    """One model: the outcome as it is, what `inspect` predicts, and that after `optimize`."""

    number: int
    kind: str
    dtype: str
    ndim: int
    before: str
    predicted: str
    after: str
    form: str
    detail: str


def judge(
    backend: Backend, path: Path, source: Path, geometry: Geometry, folder: Path
) -> tuple[str, str]:
    """Outcome of a file whose meaning is that of `source`, and what TensorRT says to it."""
    try:
        network = parse(backend, path)
    except ModelError as error:
        return "refused", error.where
    if (content := _built(network, geometry)) is None:
        return "not built", " ".join(network.log.errors[0].split())[:300]
    if not content:
        raise AssertionError("an empty engine")
    for grow in (0, 2) if "sizes" in geometry.open else (0,):
        shapes = {"x": geometry.input_shape(grow)}
        proof = prove(network, source, path, VerifyOptions(input_shapes=shapes), folder)
        if proof.ok is None and not grow:
            raise AssertionError(f"geometry {geometry.seed} is not compared: {proof.why}")
        for c in proof.outputs:
            if not c.ok:
                return "wrong", c.note or f"{c.max_rel:.2g} of scale"
    return "right", ""


def _built(network: Network, geometry: Geometry) -> bytes | None:
    shape, largest = geometry.input_shape(), geometry.input_shape(grow=3)
    profile: Profile = {"x": Range(shape, shape, largest)}
    fixed = all(n >= 0 for n in network.inputs[0].shape)
    profiles = complete(network_inputs(network), () if fixed else (profile,))
    config = configure(network, Settings(), profiles)
    content = network.builder.build_serialized_network(network.definition, config)
    return None if content is None else bytes(content)


def valid(path: Path, geometry: Geometry) -> bool:
    """Whether ONNX Runtime runs the model, in float32 where it has no kernel for its type."""
    twin = float32_twin(Source(onnx.load(path), path.parent))
    try:
        run_on_some(twin, VerifyOptions(input_shapes={"x": geometry.input_shape()}))
    except RunError:
        return False
    return True


def predicted(path: Path, backend: Backend) -> str:
    """What `inspect` says of a model: refused, wrong or right."""
    effects = {gap.effect for gap in inspect(path, [backend.target]).gaps}
    return next((e for e in ("refused", "wrong") if e in effects), "right")


def as_predicted(line: Line) -> bool:
    """Whether the original came out so."""
    return line.predicted == line.before.replace("not built", "refused")


def sweep(backend: Backend, drawn: Iterator[Geometry], folder: Path) -> Iterator[Line]:
    """One line for each valid model."""
    source, optimised = folder / "source.onnx", folder / "optimised.onnx"
    for geometry in drawn:
        onnx.save(geometry.model(), source)
        if not valid(source, geometry):
            continue
        before, detail = judge(backend, source, source, geometry, folder)
        checks = VerifyOptions(input_shapes={"x": geometry.input_shape()})
        options = OptimizeOptions(target=backend.target, force=True, checks=checks)
        form = ""
        try:
            result = optimize(source, optimised, options)
            form = result.decisions[0].form or "unchanged"
            after, why = judge(backend, optimised, source, geometry, folder)
        except ConvtError as error:
            after, why = "refused", f"optimize: {error.what} {error.where}"
        yield Line(
            number=geometry.seed,
            kind=geometry.kind,
            dtype=geometry.dtype,
            ndim=geometry.ndim,
            before=before,
            predicted=predicted(source, backend),
            after=after,
            form=form,
            detail=why or detail,
        )


def table(lines: Sequence[Line]) -> Iterator[str]:
    """Markdown: a row for each kind of model, before and after."""
    yield "| what | models | refused | not built | wrong | right | right after `optimize` |"
    yield "|---|---|---|---|---|---|---|"
    kinds = collections.Counter(x.kind for x in lines)
    for kind, _ in [*kinds.most_common(), ("all", 0)]:
        mine = [x for x in lines if kind in ("all", x.kind)]
        before = collections.Counter(x.before for x in mine)
        after = sum(x.after == "right" for x in mine)
        cells = [kind, len(mine), *(before[o] for o in OUTCOMES), after]
        yield "| " + " | ".join(map(str, cells)) + " |"


@click.command()
@click.option("--count", default=2000, show_default=True, help="Models to draw.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(count: int, seed: int, json_path: Path | None) -> None:
    """Print the table, and every optimised model that is not right."""
    logging.disable(logging.WARNING)
    backend = load_backend("tensorrt-rtx")
    click.echo(f"{backend.title}; {environment()}")
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        for x in sweep(backend, geometries(count, seed), Path(temporary)):
            lines.append(x)
            if x.after != "right" or not as_predicted(x):
                click.echo(f"{x.number}: {x.kind}: {x.before}, predicted {x.predicted}")
                click.echo(f"    optimised as {x.form}: {x.after}: {x.detail}")
    click.echo(f"{count} drawn, {len(lines)} valid in ONNX Runtime")
    for row in table(lines):
        click.echo(row)
    forms = collections.Counter(x.form for x in lines)
    click.echo(f"inspect predicted {sum(map(as_predicted, lines))} of {len(lines)}")
    click.echo(f"forms: {dict(forms.most_common())}")
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(x) for x in lines], indent=2))
    if not all(x.after == "right" and as_predicted(x) for x in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
