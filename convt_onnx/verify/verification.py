"""Original against rewritten: end to end in ONNX Runtime, and node by node against the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

import onnx

from convt_onnx.errors import UsageError, VerificationError
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.verify.compare import (
    HALF,
    OWN_TYPE,
    PROVES_LITTLE,
    QUANTISED,
    Comparison,
    Tolerance,
    compare,
    folded_in,
)
from convt_onnx.verify.inputs import TYPES, Inputs, InputShapes, candidates, from_file
from convt_onnx.verify.nodes import NodeCheck, check_nodes
from convt_onnx.verify.session import SIZES_HELP, Arrays, RunError, Runner, Source
from convt_onnx.verify.twin import coarsest_step, float32_twin, other_floats


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What the user may set; `tolerance.atol` None scales with each output."""

    inputs: Path | None = None
    input_shapes: InputShapes = field(default_factory=dict)
    seed: int = 0
    atol: float | None = None
    rtol: float | None = None

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(
                "the seed must not be negative",
                where=f"seed {self.seed}",
                help="any integer from 0 on, as in --seed 0",
            )
        if self.inputs is not None and self.input_shapes:
            raise UsageError(
                "the inputs are given twice, as arrays and as sizes",
                where=f"--inputs {self.inputs} and --input-shapes",
                help="--inputs fixes the sizes; --input-shapes is for random inputs",
            )
        for name, value in (("atol", self.atol), ("rtol", self.rtol)):
            if value is not None and not 0 <= value < inf:
                raise UsageError(
                    f"{name} must be a number from 0 on",
                    where=f"{name} {value}",
                    help=f"as in --{name} 1e-4",
                )


@dataclass(frozen=True, slots=True)
class Verification:
    """The result.

    Attributes:
        ok: Everything within its bound.
        outputs: One comparison a graph output.
        nodes: One check a node of the main graph.
        arithmetic: "float32", or "float32 twin" where the model's own type has no CPU kernel.
        input_shapes: Shape of each input, one mapping for each set of sizes that was compared.
        input_origin: "file" or "random".
        first_difference: The node or value where the models part, on failure.
        notes: What a reader should know: what could not be compared, and why.
        assumed_sizes: Whether the model leaves sizes open, and the user did not give them all.
    """

    ok: bool
    outputs: tuple[Comparison, ...]
    nodes: tuple[NodeCheck, ...]
    arithmetic: str
    input_shapes: tuple[dict[str, list[int]], ...]
    input_origin: str
    seed: int
    tolerance: Tolerance
    first_difference: str | None
    notes: tuple[str, ...]
    assumed_sizes: bool = False


def verify(
    original: Source,
    rewritten: Source,
    options: VerifyOptions,
    nodes: Sequence[ConvTransposeNode] = (),
) -> Verification:
    """Run both models on the same inputs and compare.

    Raises:
        VerificationError: The rewritten model has other inputs or outputs, or does not run where
            the original does.
        MissingPartError: onnxruntime is not installed.
        UsageError: The inputs do not fit.
    """
    _require_same_names(original, rewritten)
    quantised = quantises(original.proto)
    own = tuple(replace(s, as_written=quantised) for s in (original, rewritten))
    twins = other_floats(original.proto)
    original, rewritten = map(float32_twin, own) if twins else own
    inputs, wanted, refused = _run_original(original, rewritten, options)
    tolerance = tolerance_for(options, quantised, step=coarsest_step(own[0].proto))
    outputs = () if refused else _compared(rewritten, inputs.arrays, wanted, tolerance)
    notes = _notes(outputs, refused, quantised=quantised, twins=twins)
    if twins:
        outputs += _in_own_type(own[0], own[1], inputs.arrays)
    checks = tuple(check_nodes(original, rewritten, nodes, inputs.arrays))
    ok = all(c.ok for c in outputs) and all(c.ok for c in checks)
    first = None if ok else _first_difference(original, rewritten, checks, inputs.arrays, tolerance)
    return Verification(
        ok=ok,
        outputs=outputs,
        nodes=checks,
        arithmetic="float32 twin" if twins else "float32",
        input_shapes=(inputs.shapes,),
        input_origin=inputs.origin,
        seed=options.seed,
        tolerance=tolerance,
        first_difference=first,
        notes=notes,
        assumed_sizes=inputs.assumed,
    )


def _notes(
    outputs: Sequence[Comparison], refused: str, *, quantised: bool, twins: bool
) -> tuple[str, ...]:
    """How the results were computed, and how much they prove."""
    notes = []
    if quantised:
        notes.append("the model quantises inside: results may be some quantisation steps apart")
    if twins:
        notes.append("compared in float32: the CPU provider computes no narrower or wider float")
    if refused:
        notes.append(f"the original does not run ({refused}); nodes are judged by the oracle alone")
    return (*notes, *_weak(outputs))


def _compared(
    rewritten: Source, feeds: Arrays, wanted: Arrays, tolerance: Tolerance
) -> tuple[Comparison, ...]:
    got = _run_rewritten(rewritten, feeds)
    names = dict.fromkeys([*wanted, *got])
    return tuple(compare(n, got.get(n), wanted.get(n), tolerance) for n in names)


def _weak(outputs: Sequence[Comparison]) -> list[str]:
    """Notes on outputs so small that any tolerance would pass."""
    return [
        f"output {c.name!r} is at most {c.scale:.1g} everywhere: that proves little"
        for c in outputs
        if c.scale < PROVES_LITTLE and not c.note
    ]


def _in_own_type(original: Source, rewritten: Source, feeds: Arrays) -> tuple[Comparison, ...]:
    """The rewritten model as it is, where the original as it is runs: types must still fit."""
    try:
        runner = Runner(original)
        if any(kind not in TYPES for _, kind, _ in runner.inputs):
            return ()
        typed: Arrays = {name: feeds[name].astype(TYPES[kind]) for name, kind, _ in runner.inputs}
        wanted = runner.run(typed)
    except RunError:
        return ()
    got = _run_rewritten(rewritten, typed)
    names = (n for n in wanted if n in got)
    return tuple(compare(f"{n} {OWN_TYPE}", got[n], wanted[n], HALF) for n in names)


def _require_same_names(original: Source, rewritten: Source) -> None:
    for what in ("input", "output"):
        before, after = (_names(s.proto.graph, what) for s in (original, rewritten))
        if before != after:
            raise VerificationError(
                f"the models have different {what}s",
                where=f"{', '.join(sorted(before))} against {', '.join(sorted(after))}",
                help=f"only models with the same {what} names can be compared",
            )


def _names(graph: onnx.GraphProto, what: str) -> set[str]:
    if what == "output":
        return {o.name for o in graph.output}
    return input_names(graph)


def input_names(graph: onnx.GraphProto) -> set[str]:
    """Names of the inputs that have no default."""
    return {i.name for i in graph.input} - {t.name for t in graph.initializer}


def quantises(proto: onnx.ModelProto) -> bool:
    """Whether a model quantises what it computes, not only its weights."""
    return any("QuantizeLinear" in node.op_type for node in proto.graph.node)


def tolerance_for(
    options: VerifyOptions, quantised: bool, *, narrow: bool = False, step: float = 0.0
) -> Tolerance:
    """The user's tolerance, completed by what suits the model.

    Args:
        options: What the user says.
        quantised: Whether the model quantises what it computes.
        narrow: Whether either side computes in a type narrower than float32.
        step: `coarsest_step` of the original, where both sides compute in float32.
    """
    default = HALF if narrow else QUANTISED if quantised else folded_in(step)
    rtol = default.rtol if options.rtol is None else options.rtol
    return replace(default, atol=options.atol, rtol=rtol)


def _run_original(
    original: Source, rewritten: Source, options: VerifyOptions
) -> tuple[Inputs, Arrays, str]:
    """Inputs that the original runs on, its outputs, and why it does not run where it does not."""
    try:
        return *run_on_some(original, options), ""
    except RunError as error:
        refused = error
    try:
        inputs, _ = run_on_some(rewritten, options)
    except RunError:
        raise refused from None
    return inputs, {}, refused.where


def run_on_some(source: Source, options: VerifyOptions) -> tuple[Inputs, Arrays]:
    """Inputs that a model runs on, and its outputs.

    Raises:
        RunError: It does not load, or runs on none that were tried.
    """
    runner = Runner(source)
    if options.inputs is not None:
        inputs = from_file(options.inputs, runner.inputs)
        return inputs, runner.run(inputs.arrays)
    refused: list[RunError] = []
    for inputs in candidates(runner.inputs, options.input_shapes, options.seed):
        try:
            return inputs, runner.run(inputs.arrays)
        except RunError as error:
            refused.append(error)
    raise RunError(
        "the original model does not run on random inputs",
        where=refused[0].where,
        help=SIZES_HELP,
    )


def _run_rewritten(rewritten: Source, feeds: Arrays) -> Arrays:
    try:
        return Runner(rewritten).run(feeds)
    except RunError as error:
        raise VerificationError(
            "the rewritten model does not run in ONNX Runtime",
            where=error.where,
            help="please report this with the model; --skip NODE keeps a node as it is",
        ) from error


def _first_difference(
    original: Source,
    rewritten: Source,
    checks: Sequence[NodeCheck],
    feeds: Arrays,
    tolerance: Tolerance,
) -> str | None:
    """The first bad node, else the first value in graph order that both models have and differs."""
    for check in checks:
        if not check.ok:
            return check.path
    made = {o for n in rewritten.proto.graph.node for o in n.output}
    common = [(n.name, o) for n in original.proto.graph.node for o in n.output if o in made]
    names = [o for _, o in common]
    try:
        before, after = Runner(original, names).run(feeds), Runner(rewritten, names).run(feeds)
    except RunError:
        return None
    for node, name in common:
        if name in before and name in after:
            c = compare(name, after[name], before[name], tolerance)
            if not c.ok:
                return f"{node or name} (value {name!r})"
    return None
