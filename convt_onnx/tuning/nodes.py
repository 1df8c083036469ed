"""Each node's forms timed against each other in the target's runtime, equal nodes once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import onnx_ir as ir

from convt_onnx.collector import collect_after
from convt_onnx.decision import Decision
from convt_onnx.errors import ConvtError
from convt_onnx.forms.plugin import PLUGIN
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.prediction.predictor import Predictor
from convt_onnx.reasons import Refusal
from convt_onnx.targets import Target
from convt_onnx.tuning.cache import TimingCache
from convt_onnx.tuning.choosing import Measured, Pick, choose, measured, undecided
from convt_onnx.tuning.extract import node_model
from convt_onnx.tuning.jobs import Job, Outcome, Weighed, at_sizes, left_out, make_job
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.tuning.race import Limits, Loader, Race
from convt_onnx.tuning.runtime import Runtime
from convt_onnx.tuning.sizes import ModelInputs, Shape, node_shapes
from convt_onnx.tuning.times import Attempt, FormTiming, ModelTiming, NodeTiming, Tuning
from convt_onnx.verify.inputs import sizes_text
from convt_onnx.verify.session import Arrays, RunError, Source

# Of the whole time, for single nodes; the rest is for the whole model.
NODE_SHARE = 0.6
# Of weights, for forms that are loaded at once; above it each is timed with the first alone.
MOST_BYTES = 256 << 20
# Decisions that a measurement may overrule.
OPEN_REASONS = frozenset({"CT103", "CT104", "CT201", "CT202", "CT203", "CT204", "CT540", "CT547"})

Progress = Callable[[str, float], None]


@dataclass(slots=True)
class NodeTuner:
    """Times forms and decides by the times; keeps what it measured from call to call.

    Attributes:
        runtime, target: Where the model is to run.
        options: Seconds and sizes.
        inputs: What the whole model is run with.
        folder: Of the model's external data.
        cache: Times of earlier runs.
        predictor: For what cannot be timed.
        progress: Called with what is timed, and the share of the time that has gone.
        reverted: Paths of nodes that must stay as they are.
        unfolded: Those of them that take in nothing from around them.
        timings: What was measured, by path of the node.
        models: The whole model, as it was taken, against the original.
        attempts: Rewrites of it that were not found to be faster.
    """

    runtime: Runtime
    target: Target
    options: TuneOptions
    inputs: ModelInputs
    folder: Path
    cache: TimingCache
    predictor: Predictor
    progress: Progress = lambda text, share: None
    clock: Callable[[], float] = field(default_factory=lambda: perf_counter)
    reverted: frozenset[str] = frozenset()
    unfolded: frozenset[str] = frozenset()
    timings: dict[str, NodeTiming] = field(default_factory=dict)
    models: tuple[ModelTiming, ...] = ()
    attempts: list[Attempt] = field(default_factory=list)
    _outcomes: dict[str, Outcome] = field(default_factory=dict)
    _seconds: float = 0.0

    def decide(self, model: ir.Model, nodes: Sequence[Weighed]) -> list[Decision]:
        """The decisions, by measurement where there is one to make."""
        jobs = self.jobs(model, nodes)
        self._prepare(jobs)
        with self.stopwatch():
            self._run(jobs)
        by_path = {path: job for job in jobs for path in job.paths}
        return [
            self._decision(w.decision, by_path[w.decision.path])
            if w.decision.path in by_path
            else w.decision
            for w in nodes
        ]

    def jobs(self, model: ir.Model, nodes: Sequence[Weighed]) -> list[Job]:
        """What there is to time, equal nodes together."""
        open_nodes = [
            (w, w.read)
            for w in nodes
            if isinstance(w.read, ConvTransposeNode) and _is_open(w, w.read)
        ]
        reads = [read for _, read in open_nodes]
        sets = node_shapes(lambda: Source(ir.to_proto(model), self.folder), reads, self.inputs)
        jobs: dict[str, Job] = {}
        for w, read in open_nodes:
            shapes = tuple(s[read.path] for s in sets)
            job = make_job(w, read, shapes, model.ir_version, self.runtime, self.target)
            jobs.setdefault(json.dumps(job.key), job).paths.append(read.path)
        return list(jobs.values())

    def tuning(self) -> Tuning | None:
        """Everything that was measured, None where nothing was."""
        if not (self.timings or self.models or self.attempts):
            return None
        weighted = any(s.weight is not None for s in self.inputs.sets)
        return Tuning(
            runtime=self.runtime.name,
            device=self.runtime.device,
            threads=self.runtime.threads,
            seconds=self._seconds,
            nodes=tuple(self.timings.values()),
            models=self.models,
            attempts=tuple(self.attempts),
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

    def prepare(self, source: Source) -> None:
        """What a runtime does once, before the time for tuning runs; loading says what fails."""
        with suppress(RunError):
            self.runtime.prepare(source)

    def _prepare(self, jobs: Sequence[Job]) -> None:
        for job in self._new(jobs):
            if PLUGIN.name not in job.forms or self.cache.get(job.key) is not None:
                continue
            self.tell(f"compiling kernels for {job.paths[0]}")
            # What is wrong with the node comes up again, as a reason, when it is timed.
            with suppress(ConvtError, ValueError, MemoryError):
                for shape in dict.fromkeys(job.shapes):
                    self.prepare(self._source(job, PLUGIN.name, shape)[0])

    def _new(self, jobs: Sequence[Job]) -> list[Job]:
        """What is still to be timed."""
        return [
            j
            for j in jobs
            if json.dumps(j.key) not in self._outcomes and not self.reverted.issuperset(j.paths)
        ]

    def _run(self, jobs: list[Job]) -> None:
        """Small nodes first: what they leave of their share of the time goes to larger ones."""
        end = self.clock() + NODE_SHARE * self.options.seconds - self._seconds
        jobs = self._new(jobs)
        jobs.sort(key=lambda job: job.work)
        for i, job in enumerate(jobs):
            self.tell(f"timing {job.paths[0]} ({i + 1} of {len(jobs)})", i / len(jobs))
            share = (end - self.clock()) / (len(jobs) - i)
            self._outcomes[json.dumps(job.key)] = self.outcome(job, share)

    def outcome(self, job: Job, seconds: float) -> Outcome:
        """The times of a job's forms, from the cache or measured in about so many seconds."""
        known = self.cache.get(job.key)
        if (
            known is not None
            and len(known) == len(job.shapes)
            and all(tuple(heat) == job.forms for heat in known)
        ):
            return Outcome(tuple(known), cached=True)
        if seconds <= 0:
            return Outcome(refusal=Refusal("CT604", f"{self.options.seconds:g} s"))
        try:
            share = seconds / len(set(job.shapes))
            by_shape = {s: self._heat(job, s, share) for s in dict.fromkeys(job.shapes)}
        except (ConvtError, ValueError, MemoryError) as error:
            return Outcome(refusal=Refusal("CT605", str(error).split("\n")[0]))
        heats = tuple(by_shape[s] for s in job.shapes)
        if any(map(undecided, heats)):
            return Outcome(refusal=Refusal("CT604", f"{self.options.seconds:g} s"))
        self.cache.put(job.key, heats)
        return Outcome(heats)

    def _heat(self, job: Job, shape: Shape, seconds: float) -> dict[str, Measured]:
        """Times of all forms at one size, each against the first."""
        first, rest = job.forms[0], job.forms[1:]
        groups = [rest] if job.weight_bytes * len(rest) <= MOST_BYTES else [(f,) for f in rest]
        heat: dict[str, Measured] = {}
        for rivals in groups:
            heat |= self._race(job, (first, *rivals), shape, seconds / len(groups))
            collect_after(job.weight_bytes * len(rivals))
        return {form: heat[form] for form in job.forms}

    def _race(
        self, job: Job, forms: Sequence[str], shape: Shape, seconds: float
    ) -> dict[str, Measured]:
        loaders = {form: self.loader(job, form, shape) for form in forms}
        race = Race(loaders, Limits(seconds), self.clock, fresh=True)
        race.run()
        return measured(race)

    def loader(self, job: Job, form: str, shape: Shape) -> Loader:
        """Loads a job's node in a form, ready to run.

        The loader raises RunError where the runtime does not load or run it.
        """
        return partial(self.runtime.load, *self._source(job, form, shape))

    def _source(self, job: Job, form: str, shape: Shape) -> tuple[Source, Arrays]:
        """The node as a model of its own, and its inputs."""
        made = node_model(job.node, form, job.setting, self.target, shape, job.activation)
        return Source(made.proto, self.folder), made.feeds

    def _decision(self, expected: Decision, job: Job) -> Decision:
        outcome = self._outcomes.get(json.dumps(job.key), Outcome())
        put_back = expected.path in self.reverted and job.forms[0] == "keep"
        if put_back and not outcome.heats:
            return replace(expected, form="keep", reason=Refusal("CT603"))
        if outcome.refusal is not None:
            expected = self._at_set(expected, job, 0)
            predicted = self.predictor.applied(expected, job.node, job.setting, job.shapes[0])
            return replace(predicted, reason=outcome.refusal)
        pick = choose(outcome.heats, self.weights(len(outcome.heats)))
        expected = self._at_set(expected, job, pick.deciding)
        node_timing = _node_timing(expected, job, outcome, pick)
        self.timings[expected.path] = node_timing
        form, reason = pick.form, _reason(job.forms[0], pick.form)
        if put_back:
            form, reason = "keep", Refusal("CT603", "" if form == "keep" else form)
        return replace(
            expected,
            form=form,
            reason=reason,
            before=node_timing.time_of("keep"),
            after=node_timing.time_of(form),
        )

    def _at_set(self, decision: Decision, job: Job, number: int) -> Decision:
        """With what it costs in one of the sets of sizes."""
        several = len(set(job.shapes)) > 1
        inputs = sizes_text(self.inputs.sets[number].shapes) if several else ""
        return at_sizes(decision, job.shapes[number], inputs)


def _is_open(w: Weighed, read: ConvTransposeNode) -> bool:
    """Whether there is something to measure: a choice that neither the user nor a rule made."""
    usable = [c for c in w.decision.candidates if c.work is not None]
    if w.decision.reason.id not in OPEN_REASONS or read.late is not None:
        return False
    return len(usable) > 1 and read.dtype is not None


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
        forms=(*forms, *left_out(job, expected)),
        chosen=pick.form,
        cached=outcome.cached,
        deciding=pick.deciding,
    )
