"""Results of real runs with made-up times, so that what is shown does not depend on a clock."""

from __future__ import annotations

from dataclasses import replace

from convt_onnx import OptimizeOptions, OptimizeResult, optimize
from convt_onnx.report.contents import Peaks
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.tuning.times import Attempt, FormTiming, ModelTiming, NodeTiming, Timing, Tuning

from ..graph.building import array, model, write

# Two nodes of different geometry, one after the other; `down` cannot take every form.
TEXT = """g (float[1,6,9,7] x) => (float[A,B,C,D] y) {
  [up] h = ConvTranspose <strides=[2,2], group=2, pads=[1,0,0,1]> (x, w)
  [down] y = ConvTranspose (h, v) }"""
PEAKS = Peaks(flops_per_s=8e10, bytes_per_s=2e10, how="made up for a test")
NO_TIMES = TuneOptions(enabled=False)


def two_nodes(**names):
    """The model; names of nodes may be replaced."""
    text = TEXT
    for old, new in names.items():
        text = text.replace(f"[{old}]", f"[{new}]")
    return model(text, w=array(6, 2, 3, 5), v=array(4, 3, 2, 2))


def untimed(folder, proto=None, **options) -> OptimizeResult:
    """What a run without any timing returns."""
    source = write(two_nodes() if proto is None else proto, folder)
    options = OptimizeOptions(tune=NO_TIMES, force=True, **options)
    return optimize(source, options=options)


def timing(median_us: float) -> Timing:
    return Timing(median_us, 0.9 * median_us, 1.2 * median_us, 31)


def with_times(result: OptimizeResult, *, reverted: tuple[str, ...] = ()) -> OptimizeResult:
    """The result with times: a node's form i takes 1000 / (i + 1) microseconds times its number."""
    tuning = Tuning(
        runtime="onnxruntime 1.0 CPUExecutionProvider",
        device="a processor, 2 cores",
        threads=2,
        seconds=1.5,
        nodes=tuple(_node(d, 1000 * i) for i, d in enumerate(result.decisions, 1)),
        models=(
            ModelTiming("x:1,6,9,7", timing(5000), timing(4000), 1.25),
            ModelTiming("x:2,6,9,7", timing(9000), timing(8000), 1.125),
        ),
        reverted=reverted,
    )
    return replace(result, tuning=tuning)


def not_taken(result: OptimizeResult) -> OptimizeResult:
    """As where the whole model was not faster."""
    attempt = Attempt("other forms of 2 nodes", result.tuning.models, faster=False)
    tuning = replace(result.tuning, models=(), attempts=(attempt,))
    return replace(result, modified=False, tuning=tuning)


def _node(decision, microseconds: float) -> NodeTiming:
    usable = [c.form for c in decision.candidates if c.work is not None]
    forms = tuple(FormTiming(form, timing(microseconds / (i + 1))) for i, form in enumerate(usable))
    shape = (decision.costs.batch, decision.spec.in_channels, *decision.costs.sizes)
    return NodeTiming(
        decision.path, (shape,), decision.dtype, forms, decision.form or "keep", cached=False
    )
