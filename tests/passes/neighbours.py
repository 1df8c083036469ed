"""Models of arithmetic behind a ConvTranspose."""

from __future__ import annotations

import numpy as np

from ..graph.building import array, model

BN = {
    "gamma": array(6, seed=1),
    "beta": array(6, seed=2),
    "mean": array(6, seed=3),
    "var": np.abs(array(6, seed=4)) + 0.3,
}


def behind(steps, *, group=2, bias=True, opset=17, dtype="float", shape="2,4,5,7", **arrays):
    """y = `steps`(h), h a ConvTranspose of 4 channels in and 6 out with odd totals."""
    operands = "x, w, b" if bias else "x, w"
    text = f"""g ({dtype}[{shape}] x) => ({dtype}[] y) {{
      [ct] h = ConvTranspose <strides=[2,3], pads=[1,0,0,1], group={group}> ({operands})
      {steps} }}"""
    kind = {"float": np.float32, "double": np.float64, "float16": np.float16}[dtype]
    given = {"w": array(4, 6 // group, 3, 4), "b": array(6)} if bias else {"w": array(4, 3, 3, 4)}
    given["w"] = array(4, 6 // group, 3, 4)
    converted = {n: a.astype(kind) if a.dtype == np.float32 else a for n, a in given.items()}
    return model(text, opset=opset, **converted, **arrays)


def misses(applied):
    return [m.reason.id for m in applied.context.misses]


def quantised(step):
    text = f"""g (float[1,4,5] x) => (float[] y) {{
      w = DequantizeLinear <axis=1> (v, s) [ct] h = ConvTranspose <strides=[2]> (x, w) {step} }}"""
    values = np.random.default_rng(0).integers(-128, 128, (4, 6, 3)).astype(np.int8)
    return model(text, opset=21, ir_version=10, v=values, s=np.abs(array(6)) + 0.01, c=array(6, 1))
