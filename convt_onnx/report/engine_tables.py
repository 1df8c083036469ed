"""Terminal tables of engine builds."""

from __future__ import annotations

from rich.console import Console

from convt_onnx._version import __version__
from convt_onnx.engine.layers import Layer
from convt_onnx.engine.options import BuildResult
from convt_onnx.report.geometry import geometry_text
from convt_onnx.report.printable import escape
from convt_onnx.report.tables import new_table, why_text
from convt_onnx.report.units import size_text

# What a reader wants to see of a network that may have a thousand layers.
SHOWN = ("DECONVOLUTION", "CONVOLUTION", "PLUGIN_V3")


def build_table(console: Console, result: BuildResult, *, verbose: bool) -> None:
    """Nodes, layers, what was checked, and the engine."""
    console.print(
        f"convt-onnx {__version__} · {escape(str(result.source))} -> {escape(result.backend)}"
    )
    if result.decisions:
        nodes = new_table("node", "geometry", "form", "why")
        for d in result.decisions:
            form = d.form or "unchanged"
            nodes.add_row(escape(d.path), geometry_text(d.spec), form, escape(why_text(d)))
        console.print(nodes)
    shown = [x for x in result.layers if verbose or x.kind in SHOWN]
    rows = new_table("layer", "kind", "type", "output", "padding")
    for layer in shown:
        rows.add_row(
            escape(layer.name),
            layer.kind.lower(),
            layer.dtype.lower(),
            " ".join(_shape(s) for s in layer.outputs),
            _padding(layer),
        )
    if shown:
        console.print(rows)
    console.print("  layers: " + ", ".join(f"{n} {k.lower()}" for k, n in result.kinds.items()))
    if result.engine_layers is not None:
        console.print(f"  in the engine, after fusion: {len(result.engine_layers)} layers")
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


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join("?" if n < 0 else str(n) for n in shape)


def _padding(layer: Layer) -> str:
    if layer.geometry is None:
        return ""
    g = layer.geometry
    return g.padding if g.padding.startswith("SAME") else f"{list(g.pre)} {list(g.post)}"
