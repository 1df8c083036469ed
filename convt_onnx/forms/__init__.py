"""The forms that a ConvTranspose can take, in the order in which ties are broken."""

from __future__ import annotations

from convt_onnx.forms.bands import BANDS, BANDS_PHASES
from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.blocked import PHASES_BLOCKED
from convt_onnx.forms.col2im import PHASES_COL2IM, PHASES_ROWS_COL2IM
from convt_onnx.forms.fused import CONV, GEMM, PHASES, PHASES_JOINED, PHASES_WINDOW
from convt_onnx.forms.native import KEEP, UNDILATE
from convt_onnx.forms.overlap_add import OVERLAP_ADD
from convt_onnx.forms.plugin import PLUGIN
from convt_onnx.forms.rows import PHASES_ROWS, PHASES_ROWS_JOINED
from convt_onnx.forms.separable import SEPARABLE
from convt_onnx.forms.slices import SLICES, SLICES_PHASES
from convt_onnx.forms.split import PHASES_SPLIT
from convt_onnx.forms.taps import TAPS_COL2IM
from convt_onnx.forms.unfold import UNFOLD
from convt_onnx.forms.winograd import WINOGRAD
from convt_onnx.forms.zero_insertion import ZERO_INSERTION

FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        KEEP,
        UNDILATE,
        CONV,
        GEMM,
        PHASES,
        PHASES_JOINED,
        PHASES_COL2IM,
        PHASES_WINDOW,
        PHASES_SPLIT,
        PHASES_BLOCKED,
        PHASES_ROWS,
        PHASES_ROWS_JOINED,
        PHASES_ROWS_COL2IM,
        TAPS_COL2IM,
        SLICES,
        SLICES_PHASES,
        BANDS,
        BANDS_PHASES,
        SEPARABLE,
        WINOGRAD,
        UNFOLD,
        OVERLAP_ADD,
        ZERO_INSERTION,
        PLUGIN,
    )
}


def forms_for(setting: Setting) -> tuple[Form, ...]:
    """Those to weigh: the plugin's only where it is to be used."""
    return tuple(f for f in FORMS.values() if f is not PLUGIN or setting.plugin)


__all__ = ["FORMS", "Form", "Setting", "Work", "forms_for"]
