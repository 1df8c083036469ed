"""`build_engine`: optimise, parse, check, build, report."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convt_onnx import model_io
from convt_onnx.engine.backend import Backend, load_backend
from convt_onnx.engine.check import LayerCheck, check_layers, read_nodes
from convt_onnx.engine.config import configure, save_timing_cache
from convt_onnx.engine.inspector import inspect_engine
from convt_onnx.engine.layers import Layer, layers
from convt_onnx.engine.log import cause
from convt_onnx.engine.network import Network, parse
from convt_onnx.engine.options import BuildOptions, BuildResult
from convt_onnx.engine.plugins import choose_mode, problem, register
from convt_onnx.engine.profiles import (
    Input,
    Profile,
    check_profiles,
    complete,
    model_inputs,
    network_inputs,
)
from convt_onnx.engine.proof import Proof, prove
from convt_onnx.errors import (
    ConvtError,
    ExitCode,
    MissingPartError,
    VerificationError,
)
from convt_onnx.graph.node import find_nodes
from convt_onnx.model_io.staging import staging
from convt_onnx.optimization import OptimizeOptions, OptimizeResult, optimize
from convt_onnx.verify import VerifyOptions

Progress = Callable[[str], None]
Monitor = Callable[[Backend], AbstractContextManager[Any]]


class BuildError(ConvtError):
    """TensorRT read the model and did not build an engine."""

    exit_code = ExitCode.CHECK_FAILED


def no_monitor(backend: Backend) -> AbstractContextManager[Any]:
    """Nobody watches the build."""
    return nullcontext()


def build_engine(
    model: str | Path,
    output: str | Path | None = None,
    options: BuildOptions | None = None,
    *,
    progress: Progress = lambda step: None,
    monitor: Monitor = no_monitor,
) -> BuildResult:
    """Build an engine from an ONNX file.

    Args:
        model: The file.
        output: Where to write; `<stem>.engine` beside the model by default.
        options: See BuildOptions.
        progress: Called with the name of each step.
        monitor: Makes an IProgressMonitor for the length of the build.

    Raises:
        MissingPartError: The backend is not installed or cannot build here.
        ModelError, GeometryError, UsageError: The model or an option is wrong.
        VerificationError: The rewritten model or the parsed network computes something else.
        BuildError: TensorRT does not build it.
    """
    start = time.perf_counter()
    options = options or BuildOptions()
    source = Path(model)
    engine = source.parent / f"{source.stem}.engine" if output is None else Path(output)
    cache = options.settings.timing_cache
    others = (source,) if cache is None else (source, cache)
    model_io.check_new_file(engine, *others, force=options.force)
    backend = load_backend(options.backend)
    with tempfile.TemporaryDirectory(prefix="convt-onnx-") as folder:
        inputs = model_inputs(model_io.load(source).proto)
        check_profiles(inputs, options.profiles)
        job = _Job(source, engine, backend, options, Path(folder), progress, inputs, start)
        return job.result(monitor)


def _failure(backend: Backend, why: str) -> ConvtError:
    if "Unable to load library" in why:
        return MissingPartError(
            f"{backend.title} needs a library that is not installed here",
            where=why,
            help="without --version-compatible the lean runtime is not needed",
        )
    return BuildError(
        f"{backend.title} does not build an engine",
        where=why,
        help="-v shows its log; convt-onnx inspect --target " + backend.target,
    )


def _without_empty_inputs(source: Path, out: Path) -> Path:
    """A model whose ConvTranspose nodes have no empty input at their end; `source` where it is one.

    TensorRT makes no plugin layer of a node with an empty bias.
    """
    loaded = model_io.load(source)
    nodes = [f.node for f in find_nodes(loaded.model) if f.node.inputs[-1:] == (None,)]
    if not nodes:
        return source
    for node in nodes:
        node.resize_inputs(1 + max(i for i, x in enumerate(node.inputs) if x is not None))
    return model_io.save(loaded, loaded.model, out, force=True).path


@dataclass(frozen=True, slots=True)
class _Job:
    """One call of `build_engine`, which began at `start` of the clock."""

    source: Path
    engine: Path
    backend: Backend
    options: BuildOptions
    folder: Path
    progress: Progress
    inputs: Mapping[str, Input]
    start: float

    def result(self, monitor: Monitor) -> BuildResult:
        """Every step in turn."""
        mode = choose_mode(self.backend, self.options.plugin, override=self.options.override)
        parsed, optimized = self.model_to_parse(plugin=mode != "off")
        network, parse_seconds = self.network(parsed, mode)
        profiles = complete(network_inputs(network), self.options.profiles)
        found, checks, proof = self.checked(network, parsed)
        content, build_seconds = self.built(network, profiles, monitor)
        return BuildResult(
            source=self.source,
            engine=self.engine,
            backend=self.backend.title,
            target=self.backend.target,
            plugin=mode,
            decisions=optimized.decisions if optimized else (),
            verification=optimized.verification if optimized else None,
            layers=found,
            kinds=dict(Counter(layer.kind for layer in found).most_common()),
            checks=checks,
            proof=proof,
            profiles=profiles,
            engine_layers=inspect_engine(self.backend, content),
            warnings=tuple(network.log.warnings),
            bytes=len(content),
            parse_seconds=parse_seconds,
            build_seconds=build_seconds,
            seconds=time.perf_counter() - self.start,
        )

    def model_to_parse(self, *, plugin: bool) -> tuple[Path, OptimizeResult | None]:
        """The model to parse, in the temporary folder where it is another one than the source."""
        if self.options.override:
            return _without_empty_inputs(self.source, self.folder / "model.onnx"), None
        if not self.options.optimize:
            return self.source, None
        options = OptimizeOptions(
            target=self.backend.target,
            verify=self.options.verify,
            checks=self._checks(),
            plugin=plugin,
        )
        out = self.folder / "model.onnx"
        result = optimize(self.source, out, options, progress=self.progress)
        return out, result

    def _checks(self) -> VerifyOptions:
        usual = self.options.profiles[0] if self.options.profiles else {}
        shapes = {name: r.opt for name, r in usual.items() if not self.inputs[name].values}
        return VerifyOptions(self.options.inputs, {} if self.options.inputs else shapes)

    def network(self, parsed: Path, mode: str) -> tuple[Network, float]:
        """The parsed model, with the plugins that it needs, and the seconds it took."""
        self.progress("parsing")
        began = time.perf_counter()
        override = self.options.override
        capability = self.options.settings.plugin_capability
        keep = register(self.backend, mode, parsed, override=override, capability=capability)
        network = parse(
            self.backend,
            parsed,
            override=override,
            aot=mode == "aot",
            keep=keep,
            echo=self.options.echo,
        )
        return network, time.perf_counter() - began

    def checked(
        self, network: Network, parsed: Path
    ) -> tuple[tuple[Layer, ...], tuple[LayerCheck, ...], Proof]:
        """The layers, each deconvolution against its node, and the network against the model."""
        self.progress("checking the network")
        found = layers(network)
        checks = check_layers(found, read_nodes(parsed))
        if not self.options.verify:
            return found, checks, Proof(None, (), "not asked for")
        bad = [c for c in checks if not c.ok]
        if bad:
            raise VerificationError(
                f"{self.backend.title} reads a ConvTranspose as something else",
                where=f"node {bad[0].node!r}: {bad[0].problems[0]}",
                help="leave out --no-optimize; --no-verify builds it all the same",
            )
        proof = prove(network, self.source, parsed, self._checks(), self.folder)
        if proof.ok is False:
            worst = next(c for c in proof.outputs if not c.ok)
            raise VerificationError(
                "the parsed network does not compute what the model computes",
                where=f"output {worst.name!r}: "
                + (worst.note or f"{worst.max_abs:.3g} at {list(worst.index)}"),
                help="please report this with the model; --no-verify builds it all the same",
            )
        return found, checks, proof

    def built(
        self, network: Network, profiles: Sequence[Profile], monitor: Monitor
    ) -> tuple[bytes, float]:
        """The engine, which is written too, and the seconds it took."""
        self.progress("building")
        began = time.perf_counter()
        config = configure(network, self.options.settings, profiles)
        with monitor(self.backend) as watcher:
            if watcher is not None and hasattr(config, "progress_monitor"):
                config.progress_monitor = watcher
            content = network.builder.build_serialized_network(network.definition, config)
        if (refusal := problem(network.keep)) is not None:
            raise refusal
        if content is None:
            raise _failure(self.backend, cause(network.log))
        seconds = time.perf_counter() - began
        cache = save_timing_cache(config, self.options.settings.timing_cache)
        self._write(bytes(content), cache)
        return bytes(content), seconds

    def _write(self, content: bytes, cache: bytes | None) -> None:
        """Engine and timing cache, aside first."""
        with staging() as stage:
            with stage.open(self.engine) as file:
                file.write(content)
            if cache is not None and self.options.settings.timing_cache is not None:
                with stage.open(self.options.settings.timing_cache) as file:
                    file.write(cache)
