"""What a reader of an optimised model should know besides its decisions."""

from __future__ import annotations

from collections.abc import Iterable

from convt_onnx.model_io import LoadedModel
from convt_onnx.passes.base import Context
from convt_onnx.passes.lower import Lower
from convt_onnx.plugin_node import DOMAIN
from convt_onnx.reasons import REASONS, Refusal
from convt_onnx.verify import Verification

# Nodes of one reason that a note each is for.
NAMED_EACH = 4


def notes_on(
    loaded: LoadedModel, context: Context, verification: Verification | None
) -> tuple[str, ...]:
    """What stayed against the wish, what was seen in the original, what was not fully checked.

    Args:
        loaded: The model, as it was read.
        context: Of the passes.
        verification: None where nothing was verified.
    """
    notes = []
    remaining = [d.path for d in context.decisions if d.form in (None, "keep", "undilate")]
    if remaining and not context.target.conv_transpose:
        names = ", ".join(remaining)
        notes.append(f"{context.target.name} has no ConvTranspose, but these remain: {names}")
    foreign = [m.node for m in context.misses if m.reason.id == "CT548"]
    if foreign:
        notes.append(f"nodes of {DOMAIN} that this version did not write: {', '.join(foreign)}")
    notes += _applies_nowhere(context)
    notes += _off_device(context)
    notes += _gaps(context)
    notes += _saturating(context)
    notes += _without_plugin(context)
    main = {n.path for n in context.nodes}
    inner = [d.path for d in context.decisions if d.form is not None and d.path not in main]
    if inner and verification is not None:
        notes.append(
            "compared end to end only, on the branches that ran with these inputs: "
            + ", ".join(inner)
        )
    if context.tuner is not None:
        notes += context.tuner.cache.warnings
    if loaded.unknown_fields:
        notes.append(f"fields that this version does not know: {', '.join(loaded.unknown_fields)}")
    return tuple(notes)


def _applies_nowhere(context: Context) -> list[str]:
    """The form that was forced wherever it applies, where that is nowhere."""
    form, decisions = context.choice.forms.get("all"), context.decisions
    reasons = [d.reason for d in decisions]
    if form is None or not decisions or Refusal("CT205", form) in reasons:
        return []
    refusals = [c.refusal for d in decisions for c in d.candidates if c.form == form]
    ids = dict.fromkeys(r.id for r in refusals if r is not None)
    why = "; ".join(f"{id} {REASONS[id].title}" for id in ids)
    nodes = f"{len(decisions)} node{'s' * (len(decisions) != 1)}"
    return [f"{form} applies to none of {nodes}" + (f": {why}" if why else "")]


def _off_device(context: Context) -> list[str]:
    """The nodes that left the device."""
    return _few_of_each(
        (a.reason.id, f"{a.node} {REASONS[a.reason.id].title} ({a.reason.detail}) in the original")
        for a in context.off_device
    )


def _gaps(context: Context) -> list[str]:
    """The nodes that the target's parser or builder does not take, or takes for something else."""
    return _few_of_each(
        (
            g.reason.id,
            f"{g.node}, unmodified, would be {g.effect}: {g.reason.id} "
            f"{REASONS[g.reason.id].title} ({g.reason.detail})",
        )
        for g in context.gaps
    )


def _saturating(context: Context) -> list[str]:
    """The nodes that may compute something else on some processors."""
    return _few_of_each(
        (
            why.id,
            f"{node}: {why.id} {REASONS[why.id].title} on x86 processors without VNNI "
            f"({why.detail}): quantise with reduce_range=True, or give --dequantize",
        )
        for node, why in context.saturating.items()
    )


def _few_of_each(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Those beyond a few of one reason are counted."""
    by_reason: dict[str, list[str]] = {}
    for id, note in notes:
        by_reason.setdefault(id, []).append(note)
    kept = []
    for id, each in by_reason.items():
        kept += each[:NAMED_EACH]
        if len(each) > NAMED_EACH:
            more = len(each) - NAMED_EACH
            kept.append(f"{more} more: {REASONS[id].title}; `inspect` names them")
    return kept


def _without_plugin(context: Context) -> list[str]:
    """The nodes that do without the plugin although it was asked for."""
    refusals = [(m.node, m.reason) for m in context.misses if m.pass_name == Lower.name]
    return [
        f"{node} does without the plugin: {REASONS[why.id].title}"
        + (f" ({why.detail})" if why.detail else "")
        for node, why in refusals
    ]
