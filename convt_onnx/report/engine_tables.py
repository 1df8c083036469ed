"""Terminal tables of engine builds."""

from __future__ import annotations

from rich.console import Console

from convt_onnx._version import __version__
from convt_onnx.engine.layers import Layer
from convt_onnx.engine.options import BuildResult
from convt_onnx.engine.profiles import Range
from convt_onnx.report.geometry import geometry_text
from convt_onnx.report.printable import escape, node_text
from convt_onnx.report.tables import why_text
from convt_onnx.report.units import size_text

# Kinds that a reader wants to see of a network that may have a thousand layers.
SHOWN = ("DECONVOLUTION", "PLUGIN_V3")


def build_table(console: Console, result: BuildResult, *, verbose: bool) -> None:
    """Nodes, layers, what was checked, and the engine; names stand whole on lines of their own."""
    console.print(
        f"convt-onnx {__version__} · {escape(str(result.source))} -> {escape(result.backend)}"
    )
    if result.decisions:
        console.print("nodes", style="bold")
    for d in result.decisions:
        console.print(f"  {node_text(d.path)}", soft_wrap=True)
        console.print(f"    {geometry_text(d.spec)} -> {d.form or 'unchanged'}")
        console.print(f"    {escape(why_text(d))}")
    refused = {c.layer for c in result.checks if not c.ok}
    shown = [x for x in result.layers if verbose or x.kind in SHOWN or x.name in refused]
    console.print("layers", style="bold")
    for layer in shown:
        console.print(f"  {escape(layer.name)}", soft_wrap=True)
        console.print(f"    {_layer_text(layer)}")
    counts = ", ".join(f"{n} {k.lower()}" for k, n in result.kinds.items())
    more = "" if len(shown) == len(result.layers) else "; -v shows all"
    console.print(f"  in all: {counts}{more}")
    if result.engine_layers is not None:
        console.print(f"  in the engine, after fusion: {len(result.engine_layers)} layers")
    for number, profile in enumerate(result.profiles, 1):
        ranges = ", ".join(f"{name} {_range_text(r)}" for name, r in profile.items())
        console.print(f"  profile {number}: {escape(ranges)}")
    _checks(console, result)
    for warning in result.warnings if verbose else ():
        console.print(f"  warning: {escape(warning)}")
    console.print(
        f"wrote {escape(str(result.engine))} ({size_text(result.bytes)}): "
        f"parsed in {result.parse_seconds:.1f} s, built in {result.build_seconds:.1f} s"
    )


def _checks(console: Console, result: BuildResult) -> None:
    good = sum(c.ok for c in result.checks)
    if result.checks:
        console.print(f"  {good}/{len(result.checks)} deconvolutions equal their nodes")
    for check in result.checks:
        for problem in check.problems:
            console.print(f"  {escape(check.node)}: {escape(problem)}", style="red")
    proof = result.proof
    if proof.worst is None:
        console.print(f"  network against ONNX Runtime: not compared, {escape(proof.why)}")
    else:
        console.print(
            f"  network against ONNX Runtime: {len(proof.outputs)} outputs, "
            f"largest difference {proof.worst:.1e} of the scale"
        )


def _range_text(r: Range) -> str:
    if r.min == r.max:
        return f"{_shape(r.opt)} only"
    return f"{_shape(r.min)} to {_shape(r.max)}, tuned for {_shape(r.opt)}"


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join("?" if n < 0 else str(n) for n in shape)


def _layer_text(layer: Layer) -> str:
    outputs = " ".join(_shape(s) for s in layer.outputs)
    text = f"{layer.kind.lower()} {layer.dtype.lower()} -> {outputs}"
    g = layer.geometry
    if g is None:
        return text
    same = g.padding.startswith("SAME")
    return f"{text}, padding {g.padding if same else f'{list(g.pre)} {list(g.post)}'}"
