"""A batch of none stays one: where the batch is open no Reshape may have to infer a size."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from .cpu_cases import assert_right, case_of, spec
from .drawn import lowered

AXES = {n: spec(n, (6, 4), 2) for n in (1, 2, 3)}
DEPTHWISE = spec(1, (16, 16), 16)
# A form, a node and whether the target has the CPU provider's kernels.
CASES = [
    *(("phases", each, mlas) for each in AXES.values() for mlas in (True, False)),
    ("phases-col2im", AXES[1], True),
    ("phases-col2im", AXES[2], True),
    ("phases-rows", DEPTHWISE, True),
    ("phases-rows-joined", DEPTHWISE, True),
    ("phases-rows-col2im", DEPTHWISE, True),
]


@pytest.mark.parametrize("open_sizes", ["batch", "all"])
@pytest.mark.parametrize(("form", "each", "mlas"), CASES)
def test_an_empty_batch_stays_empty(form, each, mlas, open_sizes):
    sizes = (7, 5, 6)[: each.ndim]
    case = case_of(each, sizes, open_sizes, opset=18, mlas=mlas, depth_to_space=False)
    proto = lowered(case, [form])
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.zeros((0, each.in_channels, *sizes), np.float32)})
    assert y.shape == (0, each.out_channels, *each.output_sizes(sizes))
    assert_right(case, form)
