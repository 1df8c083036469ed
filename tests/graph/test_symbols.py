"""Sizes named by a hostile file, and sizes that onnx infers wrongly."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from convt_onnx.graph.bounds import parse_size
from convt_onnx.graph.shapes import conv_transpose_shape, make_pads_explicit
from convt_onnx.graph.symbols import is_plain

HOSTILE = [
    "2**2**2**99+a",
    "2* *99",
    "-" * 20000 + "a",
    "+".join(["a"] * 20000),
    "9" * 6000,
    "a*99999999999",
    "__import__('os')",
    "a[0]",
    "a;b",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_not_computed_with(text):
    assert not is_plain(text)
    assert parse_size(text) is None
    node = onnx.helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2])
    assert conv_transpose_shape(node, ["N", 1, text], [1, 3, 4]) == ("N", 3, None)


NO_EXPRESSIONS = [
    "*",
    "a b",
    "a,b",
    "../etc",
    "x\ny",
    "max(",
    "x(3)",
    "CeilToInt(s0)",
    "²",
    "(" * 199,
]


@pytest.mark.parametrize("text", NO_EXPRESSIONS, ids=range(len(NO_EXPRESSIONS)))
def test_names_that_are_no_expressions_are_unknown_sizes(text):
    node = onnx.helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2])
    assert conv_transpose_shape(node, ["N", 1, text], [1, 3, 4]) == ("N", 3, None)


@pytest.mark.parametrize("shape", [[], [4], [1, 3]])
def test_a_weight_without_kernel_axes_says_nothing(shape):
    node = onnx.helper.make_node("ConvTranspose", ["x", "w"], ["y"])
    assert conv_transpose_shape(node, ["N", 1, 5], shape) is None


@pytest.mark.parametrize("text", ["H", "2*H - 1", "(height//8)", "floor(T/2) + 1", "batch.size"])
def test_ordinary_names_are(text):
    assert is_plain(text)


def test_a_size_is_an_expression_of_the_symbol():
    node = onnx.helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1] * 4)
    shape = conv_transpose_shape(node, ["N", 4, "H", "2*W"], [4, 6, 4, 3])
    assert shape == ("N", 6, "2*H", "4*W - 1")


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_same_with_output_padding_is_inferred_as_it_runs(auto_pad):
    node = onnx.helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], strides=[2], output_padding=[1], auto_pad=auto_pad
    )
    make_pads_explicit(node, [1, 1, 3])
    attributes = {a.name: a for a in node.attribute}
    assert "auto_pad" not in attributes
    assert conv_transpose_shape(node, [1, 1, 3], [1, 1, 3]) == (1, 1, 6)
    assert ir.serde.deserialize_node(node).op_type == "ConvTranspose"
