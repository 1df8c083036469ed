"""Models of a Pad before or behind a ConvTranspose."""

from __future__ import annotations

from ..graph.building import array, ints, model


def before(pads, attributes="", *, x="float[2,4,5]", w=(4, 3, 4), opset=17, **arrays):
    """[ct] y = ConvTranspose(Pad(x)) in groups of 2."""
    text = f"""g ({x} x) => (float[] y) {{
      p = Pad (x, pads) [ct] y = ConvTranspose <group=2{attributes}> (p, w, b) }}"""
    tensors = {"w": array(*w), "b": array(6), "pads": ints(*pads)}
    return model(text, opset=opset, **tensors, **arrays)


def behind(pads, attributes="", *, bias=None, x="float[2,4,5]", w=(4, 3, 4), pad="Pad (h, pads)"):
    """y = Pad([ct] ConvTranspose(x)) in groups of 2."""
    text = f"""g ({x} x) => (float[] y) {{
      [ct] h = ConvTranspose <group=2{attributes}> (x, w{"" if bias is None else ", b"})
      y = {pad} }}"""
    tensors = {"w": array(*w), "pads": ints(*pads)} | ({} if bias is None else {"b": bias})
    return model(text, **tensors)
