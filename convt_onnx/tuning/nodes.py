"""Each node's forms timed against each other in the target's runtime, equal nodes once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx_ir as ir

from convt_onnx._version import __version__
from convt_onnx.decision import Decision
from convt_onnx.errors import ConvtError
from convt_onnx.forms import Setting
from convt_onnx.graph.node import ConvTransposeNode, FoundNode, UnreadNode
from convt_onnx.graph.quantised import Grid
from convt_onnx.reasons import Refusal
from convt_onnx.targets import Target
from convt_onnx.tuning.cache import TimingCache
from convt_onnx.tuning.choosing import Measured, Pick, choose, measured
from convt_onnx.tuning.extract import activation_behind, node_model
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.tuning.race import Limits, Race
from convt_onnx.tuning.runtime import Runtime, Timed
from convt_onnx.tuning.sizes import ModelInputs, Shape, node_shapes
from convt_onnx.tuning.statistics import ENOUGH
from convt_onnx.tuning.times import FormTiming, ModelTiming, NodeTiming, Tuning
from convt_onnx.verify.session import RunError, Source

# Of the whole time, for single nodes; the rest is for the whole model.
NODE_SHARE = 0.6
# A form with more arithmetic than this many times the least is not timed.
MAX_WORK = 16
# Decisions that a measurement may overrule.
OPEN_REASONS = frozenset({"CT103", "CT104", "CT201", "CT202", "CT203", "CT204"})

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Weighed:
    """A node, and what is expected of it without any measurement."""

    found: FoundNode
    read: ConvTransposeNode | UnreadNode
    setting: Setting
    decision: Decision


@dataclass(slots=True)
class Job:
    """Nodes that are the same to the runtime, and their forms; the first is the one to beat."""

    node: ConvTransposeNode
    setting: Setting
    activation: ir.Node | None
    forms: tuple[str, ...]
    shapes: tuple[Shape, ...]
    work: int
    key: dict[str, Any]
    paths: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The heats of a job, or why there are none."""

    heats: tuple[dict[str, Measured], ...] = ()
    cached: bool = False
    refusal: Refusal | None = None


@dataclass(slots=True)
class NodeTuner:
    """Times forms and decides by the times; keeps what it measured from call to call.

    Attributes:
        runtime, target: Where the model is to run.
        options: Seconds and sizes.
        inputs: What the whole model is run with.
        folder: Of the model's external data.
        cache: Times of earlier runs.
        progress: Called with what is timed, and the share of the time that has gone.
        reverted: Paths of nodes that must stay as they are.
        timings: What was measured, by path of the node.
        models: The whole model against the original, once that was timed.
    """

    runtime: Runtime
    target: Target
    options: TuneOptions
    inputs: ModelInputs
    folder: Path
    cache: TimingCache
    progress: Progress = lambda text, share: None
    clock: Callable[[], float] = field(default_factory=lambda: perf_counter)
    reverted: frozenset[str] = frozenset()
    timings: dict[str, NodeTiming] = field(default_factory=dict)
    models: tuple[ModelTiming, ...] = ()
    _outcomes: dict[str, Outcome] = field(default_factory=dict)
    _seconds: float = 0.0

    def decide(self, model: ir.Model, nodes: Sequence[Weighed]) -> list[Decision]:
        """The decisions, by measurement where there is one to make."""
        open_nodes = [(w, w.read) for w in nodes if isinstance(w.read, ConvTransposeNode)]
        open_nodes = [(w, read) for w, read in open_nodes if _is_open(w, read)]
        reads = [read for _, read in open_nodes]
        shapes = node_shapes(lambda: Source(ir.to_proto(model), self.folder), reads, self.inputs)
        jobs = self._jobs(model, open_nodes, shapes)
        with self.stopwatch():
            self._run(list(jobs.values()))
        by_path = {path: job for job in jobs.values() for path in job.paths}
        return [
            self._decision(w.decision, by_path[w.decision.path])
            if w.decision.path in by_path
            else w.decision
            for w in nodes
        ]

    def tuning(self) -> Tuning | None:
        """Everything that was measured, None where nothing was."""
        if not self.timings and not self.models:
            return None
        weighted = any(s.weight is not None for s in self.inputs.sets)
        return Tuning(
            runtime=self.runtime.name,
            device=self.runtime.device,
            threads=self.runtime.threads,
            seconds=self._seconds,
            nodes=tuple(self.timings.values()),
            models=self.models,
            reverted=tuple(sorted(self.reverted)),
            rule="weighted" if weighted else "worst",
        )

    @contextmanager
    def stopwatch(self) -> Iterator[None]:
        """Count the seconds of a block as spent on tuning."""
        start = self.clock()
        yield
        self._seconds += self.clock() - start

    def seconds_left(self) -> float:
        """Until the time for tuning has run out."""
        return max(0.0, self.options.seconds - self._seconds)

    def weights(self, count: int) -> list[float] | None:
        """Of the user's sizes, None where they have none or `count` others were timed."""
        given = [s.weight for s in self.inputs.sets if s.weight is not None]
        return given if len(given) == count else None

    def tell(self, what: str, share: float | None = None) -> None:
        """Report progress: a share of 0 to 1, by the time that has gone unless it is known."""
        self.progress(what, self._seconds / self.options.seconds if share is None else share)

    def _jobs(
        self,
        model: ir.Model,
        nodes: Sequence[tuple[Weighed, ConvTransposeNode]],
        shapes: Sequence[dict[str, Shape]],
    ) -> dict[str, Job]:
        jobs: dict[str, Job] = {}
        for w, read in nodes:
            job = self._job(w, read, tuple(s[read.path] for s in shapes), model.ir_version)
            jobs.setdefault(json.dumps(job.key), job).paths.append(read.path)
        return jobs

    def _job(
        self, weighed: Weighed, read: ConvTransposeNode, shapes: tuple[Shape, ...], ir_version: int
    ) -> Job:
        works = {c.form: c.work for c in weighed.decision.candidates if c.work is not None}
        least = min(w.macs for w in works.values())
        forms = tuple(
            f for f, work in works.items() if work.macs <= MAX_WORK * least or f == "keep"
        )
        activation = None if read.y_grid else activation_behind(read, ir_version)
        key = {
            "convt_onnx": __version__,
            "runtime": self.runtime.name,
            "device": self.runtime.device,
            "threads": self.runtime.threads,
            "target": self.target.name,
            "opset": weighed.setting.opset,
            "spec": asdict(read.spec),
            "dtype": None if read.dtype is None else read.dtype.name,
            "x_shapes": list(dict.fromkeys(shapes)),
            "weight": type(read.weight).__name__,
            "bias": None if read.bias is None else type(read.bias).__name__,
            "grids": [_grid_key(read.x_grid), _grid_key(read.y_grid)],
            "behind": None if activation is None else activation.op_type,
            "forms": {f: [works[f].macs, works[f].elements] for f in forms},
        }
        return Job(read, weighed.setting, activation, forms, shapes, least, key)

    def _run(self, jobs: list[Job]) -> None:
        """Small nodes first: what they leave of their share of the time goes to larger ones."""
        end = self.clock() + NODE_SHARE * self.options.seconds - self._seconds
        jobs = [j for j in jobs if json.dumps(j.key) not in self._outcomes]
        jobs.sort(key=lambda job: job.work)
        for i, job in enumerate(jobs):
            self.tell(f"timing {job.paths[0]} ({i + 1} of {len(jobs)})", i / len(jobs))
            share = (end - self.clock()) / (len(jobs) - i)
            self._outcomes[json.dumps(job.key)] = self._outcome(job, share)

    def _outcome(self, job: Job, seconds: float) -> Outcome:
        known = self.cache.get(job.key)
        if known is not None and len(known) == len(job.shapes):
            return Outcome(tuple(known), cached=True)
        if seconds <= 0:
            return Outcome(refusal=Refusal("CT604", f"{self.options.seconds:g} s"))
        try:
            heats = tuple(self._heat(job, s, seconds / len(job.shapes)) for s in job.shapes)
        except (ConvtError, ValueError, MemoryError) as error:
            return Outcome(refusal=Refusal("CT605", str(error).split("\n")[0]))
        if any(heat[job.forms[0]].rounds < ENOUGH for heat in heats):
            return Outcome(refusal=Refusal("CT604", f"{self.options.seconds:g} s"))
        self.cache.put(job.key, heats)
        return Outcome(heats)

    def _heat(self, job: Job, shape: Shape, seconds: float) -> dict[str, Measured]:
        start = self.clock()
        failed: dict[str, Measured] = {}
        entries: dict[str, Timed] = {}
        for form in job.forms:
            try:
                entries[form] = self._load(job, form, shape)
            except RunError as error:
                if form == job.forms[0]:
                    raise
                failed[form] = Measured(None, None, f"{error.what}: {error.where}")
        left = max(0.0, seconds - (self.clock() - start))
        race = Race(entries, Limits(left), self.clock)
        race.run()
        return measured(race) | failed

    def _load(self, job: Job, form: str, shape: Shape) -> Timed:
        made = node_model(job.node, form, job.setting, self.target, shape, job.activation)
        return self.runtime.load(Source(made.proto, self.folder), made.feeds)

    def _decision(self, expected: Decision, job: Job) -> Decision:
        outcome = self._outcomes[json.dumps(job.key)]
        if outcome.refusal is not None:
            return replace(expected, reason=outcome.refusal)
        pick = choose(outcome.heats, self.weights(len(outcome.heats)))
        node_timing = _node_timing(expected, job, outcome, pick)
        self.timings[expected.path] = node_timing
        form, reason = pick.form, _reason(job.forms[0], pick.form)
        if expected.path in self.reverted and job.forms[0] == "keep":
            form, reason = "keep", Refusal("CT603", pick.form)
        return replace(
            expected,
            form=form,
            reason=reason,
            before=node_timing.time_of("keep"),
            after=node_timing.time_of(form),
        )


def _is_open(w: Weighed, read: ConvTransposeNode) -> bool:
    """Whether there is something to measure: a choice that neither the user nor a rule made."""
    usable = [c for c in w.decision.candidates if c.work is not None]
    if w.decision.reason.id not in OPEN_REASONS or read.late is not None:
        return False
    return len(usable) > 1 and read.dtype is not None


def _grid_key(grid: Grid | None) -> list[Any] | None:
    return None if grid is None else [grid.dtype.name, grid.relu]


def _reason(first: str, form: str) -> Refusal:
    if first != "keep":
        return Refusal("CT607", form)
    return Refusal("CT601") if form == "keep" else Refusal("CT602")


def _node_timing(expected: Decision, job: Job, outcome: Outcome, pick: Pick) -> NodeTiming:
    forms = tuple(
        FormTiming(
            form=form,
            time=outcome.heats[pick.deciding][form].time,
            why=outcome.heats[pick.deciding][form].why,
            times=tuple(h[form].time for h in outcome.heats),
        )
        for form in job.forms
    )
    return NodeTiming(
        path=expected.path,
        x_shapes=job.shapes,
        dtype=expected.dtype or "",
        forms=forms,
        chosen=pick.form,
        cached=outcome.cached,
        deciding=pick.deciding,
    )
