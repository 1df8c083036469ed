"""Open sizes behind a Slice, whose rule in onnx for opset 10 copies those of its input."""

from __future__ import annotations

import pytest
from onnx import parser

from convt_onnx.model_io import infer_shapes, load

BOUNDS = "int64[1] one = {1}, int64[1] two = {2}, int64[1] far = {2147483647}"


@pytest.fixture
def shapes(write):
    def infer(text, opset=10):
        head = f'<ir_version: 7, opset_import: ["" : {opset}]>\n'
        return infer_shapes(load(write(parser.parse_model(head + text))))

    return infer


def test_no_open_size_of_the_input(shapes):
    text = f"""g (float[N,4,L] x) => (float[N,4,M] y) <{BOUNDS}> {{
      s = Slice (x, one, far, two) y = Relu (s) }}"""
    assert shapes(text)["s"] == (None, 4, None)
    assert shapes(text, 11)["s"] == ("N", 4, None)


def test_nor_further_on_whatever_the_file_declares(shapes):
    text = f"""g (float[N,4,L] x) => (float[N,4,M] y)
    <{BOUNDS}, float[N,4,L] s, float[N,4,L] r> {{
      s = Slice (x, one, far, two) r = Relu (s) d = Add (r, r)
      c = Neg (x) y = Concat <axis=2> (d, c) }}"""
    found = shapes(text)
    assert found["s"] == found["r"] == found["d"] == (None, 4, None)
    assert found["c"] == ("N", 4, "L")


def test_known_sizes_are_cut(shapes):
    text = f"""g (float[N,4,9] x) => (float[N,4,M] y) <{BOUNDS}> {{
      s = Slice (x, one, far, two) t = Slice (s, one, far, two) y = Relu (t) }}"""
    found = shapes(text)
    assert (found["s"], found["t"]) == ((None, 4, 8), (None, 4, 7))


def test_in_a_branch(shapes):
    one, two, far = (f"Constant <value = int64[1] {{{n}}}> ()" for n in (1, 2, 2**31 - 1))
    text = f"""g (float[N,4,L] x, bool p) => (float[N,4,M] y) {{
      y = If (p) <
        then_branch = t () => (float[N,4,A] a) {{
          one = {one} two = {two} far = {far} s = Slice (x, one, far, two) a = Relu (s) }},
        else_branch = e () => (float[N,4,B] b) {{ b = Neg (x) }}> }}"""
    assert shapes(text)["s"] == (None, 4, None)
    assert shapes(text, 11)["s"] == ("N", 4, None)


@pytest.mark.parametrize(("opset", "batch"), [(10, None), (17, "N")])
def test_in_a_function_that_another_calls(write, opset, batch):
    one, two, far = (f"Constant <value = int64[1] {{{n}}}> ()" for n in (1, 2, 2**31 - 1))
    text = f"""<ir_version: 8, opset_import: ["" : 17, "f" : 1]>
    g (float[N,4,L] x) => (float[N,4,M] y) {{ s = f.outer (x) y = Relu (s) }}
    <domain: "f", opset_import: ["" : 17, "f" : 1]> outer (x) => (s) {{ s = f.inner (x) }}
    <domain: "f", opset_import: ["" : {opset}]> inner (x) => (s) {{
      one = {one} two = {two} far = {far} s = Slice (x, one, far, two) }}"""
    found = infer_shapes(load(write(parser.parse_model(text))))
    assert found["s"] == (batch, 4, None)
    assert found["x"] == ("N", 4, "L")


def test_declared_names_stay_where_nothing_is_cut(shapes):
    text = "g (float[N,4,L] x) => (float[N,4,L] y) <float[N,4,K] h> { h = Neg (x) y = Exp (h) }"
    assert shapes(text)["h"] == ("N", 4, "K")
