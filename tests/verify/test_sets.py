from __future__ import annotations

from dataclasses import replace

import pytest

from convt_onnx.verify import Source, VerifyOptions
from convt_onnx.verify.sets import verify_sets

from ..graph.building import array, model

TEXT = """g (float[N,3,L] x) => (float[A,B,C] y) {
  u = ConvTranspose <strides=[2]> (x, w) y = Tanh (u) }"""
# The same while the output has no more than 20 columns.
CUT = TEXT.replace("y = Tanh", "v = Tanh").replace(
    " }", ' s = Constant <value_ints=[0]> () e = Constant <value_ints=[20]> ()'
    " a = Constant <value_ints=[2]> () y = Slice (v, s, e, a) }",
)  # fmt: skip
SHORT, LONG = {"x": (1, 3, 7)}, {"x": (2, 3, 11)}


def source(text, tmp_path, w=None):
    return Source(model(text, w=array(3, 4, 5) if w is None else w), tmp_path)


@pytest.mark.parametrize(("sets", "failed"), [([SHORT, LONG], True), ([SHORT], False)])
def test_every_set_is_compared(tmp_path, sets, failed):
    first, second = source(TEXT, tmp_path), source(CUT, tmp_path)
    result = verify_sets(first, second, VerifyOptions(), (), sets)
    assert result.ok is not failed
    assert result.input_shapes == ({"x": [2, 3, 11] if failed else [1, 3, 7]},)


def test_of_several_sets_the_worst_is_told(tmp_path):
    w = array(3, 4, 5)
    first, second = source(TEXT, tmp_path, w), source(TEXT, tmp_path, w * (1 + 1e-5))
    alone = [
        verify_sets(first, second, VerifyOptions(), (), [one]).outputs[0] for one in (SHORT, LONG)
    ]
    assert alone[0].excess != alone[1].excess
    for sets in ([SHORT, LONG], [LONG, SHORT]):
        both = verify_sets(first, second, VerifyOptions(), (), sets)
        assert both.outputs == (max(alone, key=lambda c: c.excess),)
        assert both.input_shapes == tuple({"x": list(s["x"])} for s in sets)
        assert both.ok


def test_notes_of_all_sets_are_told_once(tmp_path):
    small = source(TEXT, tmp_path, array(3, 4, 5) * 1e-9)
    result = verify_sets(small, replace(small), VerifyOptions(), (), [SHORT, SHORT])
    assert len(result.notes) == 1
    assert "proves little" in result.notes[0]
