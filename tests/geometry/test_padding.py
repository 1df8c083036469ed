"""resolve() against ONNX Runtime, which decides what a node means.

From 1.28 on it refuses: pads beside auto_pad, negative pads, lists of the wrong length (empty ones
too), an output_padding or output_shape that reaches a stride or more beyond the last tap, empty
outputs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convt_onnx.errors import GeometryError
from convt_onnx.padding import AUTO_PADS, Attributes, UnknownSizeError, resolve
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec

from .runtimes import brute_force, canonical_attributes, run_all, run_nodes, runtime_is_a_judge
from .strategies import Node, broken_nodes, nodes

WEIGHT = (4, 3, 3)

needs_a_judge = pytest.mark.skipif(
    not runtime_is_a_judge(), reason="this ONNX Runtime runs nodes that it cannot run"
)


def resolved(node):
    c_in = node.weight_shape[0]
    bias = (node.weight_shape[1] * node.attributes.group,)
    return resolve(
        node.attributes, node.weight_shape, node.sizes, in_channels=c_in, bias_shape=bias
    )


def check(node, raw, canonical, spec):
    """`raw` and `canonical` are what ONNX Runtime gave for the node and for `spec`."""
    assert canonical.shape == raw.shape, node
    np.testing.assert_allclose(canonical, raw, rtol=0, atol=1e-5, err_msg=str(node))
    expected = conv_transpose(*node.arrays(), spec)
    assert raw.shape == expected.shape, node
    np.testing.assert_allclose(raw, expected, rtol=0, atol=1e-4, err_msg=str(node))


@needs_a_judge
@settings(max_examples=400, deadline=None)
@given(node=nodes())
def test_any_node(node):
    (raw,) = run_all([(node.attributes, node.arrays())])
    if raw is None:
        with suppress(GeometryError):
            resolved(node)
        return
    spec = resolved(node)
    (canonical,) = run_nodes([(canonical_attributes(spec), node.arrays())])
    check(node, raw, canonical, spec)


@needs_a_judge
@settings(max_examples=300, deadline=None)
@given(node=broken_nodes())
def test_senseless_attributes_are_refused_by_name(node):
    (raw,) = run_all([(node.attributes, node.arrays())])
    try:
        spec = resolved(node)
    except GeometryError as error:
        assert raw is None, f"{node} runs, but: {error}"
        return
    if raw is not None:
        (canonical,) = run_nodes([(canonical_attributes(spec), node.arrays())])
        check(node, raw, canonical, spec)


def crops(full):
    """Every way to state a crop; `full` is the natural size."""
    n = len(full)
    for auto_pad in AUTO_PADS[1:]:
        yield {"auto_pad": auto_pad}
        yield {"auto_pad": auto_pad, "output_padding": (1,) * n}
    for begin, end, extra in product((0, 1, 2), (0, 1, 2), (0, 1)):
        yield {"pads": (begin,) * n + (end,) * n, "output_padding": (extra,) * n}
    for change, auto_pad in product((-4, -3, -2, -1, 0, 1), AUTO_PADS):
        yield {"auto_pad": auto_pad, "output_shape": tuple(f + change for f in full)}
    for change in (-3, -2, 0):
        shape = tuple(f + change for f in full)
        yield {"output_shape": shape, "output_padding": (1,) * n}


def grid(ndim):
    """Kernels below, at and above the stride, dilated, grouped, with each kind of crop.

    Axes differ in everything, so that a swap of two shows.
    """
    sizes = (4, 3, 2)[:ndim]
    groups = ((4, 3, 1), (2, 3, 2))
    shapes = product((1, 2, 3, 4), (1, 2, 3), (1, 2), groups)
    for seed, (k, s, d, (c_in, per_group, group)) in enumerate(shapes):
        kernel, strides, dilations = (k, 2, 3)[:ndim], (s, 2, 3)[:ndim], (d, 2, 1)[:ndim]
        spec = ConvTransposeSpec(
            c_in, per_group * group, group, kernel, strides, dilations, *((0,) * ndim,) * 3
        )
        for how in crops(spec.output_sizes(sizes)):
            attributes = Attributes(strides=strides, dilations=dilations, group=group, **how)
            yield Node(attributes, (c_in, per_group, *kernel), sizes, seed)


@needs_a_judge
# A step that shares no factor with the number of crops visits each of them.
@pytest.mark.parametrize(("ndim", "step", "least"), [(1, 2, 1000), (2, 4, 500), (3, 7, 300)])
def test_grid(ndim, step, least):
    every = list(grid(ndim))[::step]
    raw = run_all([(n.attributes, n.arrays()) for n in every])
    ran = [(node, y) for node, y in zip(every, raw, strict=True) if y is not None]
    assert len(ran) >= least, "a grid that ONNX Runtime refuses proves nothing"
    specs = [resolved(node) for node, _ in ran]
    jobs = [(canonical_attributes(s), n.arrays()) for s, (n, _) in zip(specs, ran, strict=True)]
    for (node, y), canonical, spec in zip(ran, run_nodes(jobs), specs, strict=True):
        check(node, y, canonical, spec)


@pytest.mark.parametrize(
    ("attributes", "length", "begin", "end", "padding"),
    [
        ({}, 5, 0, 0, 0),
        ({"auto_pad": ""}, 5, 0, 0, 0),
        ({"auto_pad": "VALID"}, 5, 0, 0, 0),
        # ONNX Runtime refuses pads beside auto_pad, even zeros; auto_pad wins here.
        ({"auto_pad": "VALID", "pads": (1, 2)}, 5, 0, 0, 0),
        ({"auto_pad": "SAME_UPPER", "pads": (1, 2)}, 5, 0, 1, 0),
        ({"pads": (1, 2)}, 5, 1, 2, 0),
        ({"pads": (1, 2), "output_padding": (1,)}, 5, 1, 1, 0),
        ({"pads": (1, 0), "output_padding": (1,)}, 5, 1, 0, 1),
        # As tf2onnx writes it; ONNX Runtime refuses it.
        ({"pads": (1, -1)}, 5, 1, 0, 1),
        # 11 rows; SAME keeps 10 and crops the odd row at the end for UPPER, else at the begin.
        ({"auto_pad": "SAME_UPPER"}, 5, 0, 1, 0),
        ({"auto_pad": "SAME_LOWER"}, 5, 1, 0, 0),
        ({"auto_pad": "SAME_LOWER", "output_padding": (1,)}, 5, 1, 0, 0),
        # Kernel below stride: 19 rows, fewer than 20.
        ({"auto_pad": "SAME_UPPER", "strides": (4,)}, 5, 0, 0, 0),
        ({"auto_pad": "SAME_UPPER", "strides": (4,), "output_padding": (3,)}, 5, 1, 0, 2),
        # An odd total of 3.
        ({"output_shape": (8,)}, 5, 2, 1, 0),
        ({"output_shape": (8,), "auto_pad": "VALID"}, 5, 2, 1, 0),
        ({"output_shape": (8,), "auto_pad": "SAME_LOWER"}, 5, 2, 1, 0),
        ({"output_shape": (8,), "auto_pad": "SAME_UPPER"}, 5, 1, 2, 0),
        ({"output_shape": (8,), "pads": (7, 7)}, 5, 2, 1, 0),
        ({"output_shape": (8,), "output_padding": (1,)}, 5, 2, 1, 0),
        ({"output_shape": (12,)}, 5, 0, 0, 1),
        # Batch and channels before it, as some exporters write it.
        ({"output_shape": (2, 3, 8)}, 5, 2, 1, 0),
    ],
)
def test_canonical_crops(attributes, length, begin, end, padding):
    attributes = Attributes(**{"strides": (2,), **attributes})
    spec = resolve(attributes, WEIGHT, (length,))
    assert (spec.pads_begin, spec.pads_end, spec.output_padding) == ((begin,), (end,), (padding,))


def test_the_rest_of_the_spec():
    attributes = Attributes(
        kernel_shape=(3, 1), strides=(2, 3), dilations=(2, 5), pads=(1, 2, 3, 4), group=2
    )
    assert resolve(attributes, (4, 3, 3, 1), (5, 6), in_channels=4, bias_shape=(6,)) == (
        ConvTransposeSpec(
            in_channels=4,
            out_channels=6,
            group=2,
            kernel=(3, 1),
            strides=(2, 3),
            dilations=(2, 1),
            pads_begin=(1, 2),
            pads_end=(3, 4),
            output_padding=(0, 0),
        )
    )


@pytest.mark.parametrize(
    ("attributes", "changes", "message"),
    [
        ({}, {"weight_shape": (4, 3)}, "the weight must have a rank of at least 3"),
        ({}, {"sizes": (5, 5)}, "input and weight must have the same rank"),
        ({"kernel_shape": (4,)}, {}, "kernel_shape differs from the weight's shape"),
        ({"kernel_shape": ()}, {}, "kernel_shape differs from the weight's shape"),
        ({}, {"in_channels": 3}, "the input's channels differ from the weight's"),
        ({}, {"bias_shape": (4,)}, "the bias must have one value for each output channel"),
        ({"group": 2}, {"bias_shape": (3,)}, "the bias must have one value for each output"),
        ({"group": 3}, {}, "the input channels must be divisible by group"),
        ({"group": 0}, {}, "group must be at least 1"),
        ({"auto_pad": "SAME"}, {}, "auto_pad has an unknown value"),
        ({"pads": (1,)}, {}, "pads must have 2 values"),
        ({"pads": ()}, {}, "pads must have 2 values"),
        ({"strides": (2, 2)}, {}, "strides must have one value"),
        ({"strides": (0,)}, {}, "strides must be positive"),
        ({"dilations": (0,)}, {}, "dilations must be positive"),
        ({"output_padding": (0, 0)}, {}, "output_padding must have one value"),
        ({"output_padding": (-1,)}, {}, "output_padding must not be negative"),
        ({"output_padding": (2,)}, {}, "output_padding must be below the stride or the dilation"),
        ({"output_shape": (4, 4)}, {}, "output_shape must have one value"),
        ({"output_shape": ()}, {}, "output_shape must have one value"),
        ({"output_shape": (0,)}, {}, "output_shape must be positive"),
        ({"output_shape": (-1,)}, {}, "output_shape must be positive"),
        ({"output_shape": (13,)}, {}, "output_shape is a stride or more beyond the natural size"),
    ],
)
def test_refuses(attributes, changes, message):
    operands = {"weight_shape": WEIGHT, "sizes": (5,), **changes}
    with pytest.raises(GeometryError, match=message) as e:
        resolve(Attributes(**{"strides": (2,), **attributes}), **operands)
    assert not isinstance(e.value, UnknownSizeError)


def test_output_padding_may_reach_the_dilation():
    """The operator allows it; where ONNX Runtime refuses it, the oracle alone judges."""
    attributes = Attributes(strides=(2,), dilations=(4,), output_padding=(3,))
    spec = resolve(attributes, (4, 3, 2), (5,))
    assert spec.output_padding == (3,)
    assert spec.output_sizes((5,)) == (16,)
    node = Node(attributes, (4, 3, 2), (5,))
    if runtime_is_a_judge():
        assert run_all([(attributes, node.arrays())]) == [None]
    y = conv_transpose(*node.arrays(), spec)
    np.testing.assert_allclose(y, brute_force(*node.arrays(), spec), rtol=0, atol=1e-12)


@settings(deadline=None)
@given(node=nodes(), data=st.data())
def test_crops_without_output_shape_need_no_sizes(node, data):
    assume(node.attributes.output_shape is None)
    hidden = tuple(data.draw(st.sampled_from((None, n, n + 3))) for n in node.sizes)
    try:
        spec = resolved(node)
    except GeometryError as error:
        with pytest.raises(type(error)):
            resolved(replace(node, sizes=hidden))
    else:
        assert resolved(replace(node, sizes=hidden)) == spec


@pytest.mark.parametrize("auto_pad", AUTO_PADS)
def test_output_shape_needs_sizes(auto_pad):
    attributes = Attributes(strides=(2, 2), output_shape=(9, 9), auto_pad=auto_pad)
    for sizes in ((None, 5), (5, None), (None, None)):
        with pytest.raises(UnknownSizeError, match="output_shape on an axis of unknown size") as e:
            resolve(attributes, (4, 3, 3, 3), sizes)
        assert f"axis {2 + sizes.index(None)}" in e.value.where
    assert resolve(attributes, (4, 3, 3, 3), (5, 5)).output_sizes((5, 5)) == (9, 9)


@pytest.mark.parametrize("sizes", [(None, 5), (5, None)])
def test_output_shape_beyond_a_known_size_is_refused_whatever_the_others_are(sizes):
    with pytest.raises(GeometryError, match="beyond the natural size") as caught:
        resolve(Attributes(strides=(2, 2), output_shape=(30, 30)), (4, 3, 3, 3), sizes)
    assert f"axis {3 - sizes.index(None)}" in caught.value.where
