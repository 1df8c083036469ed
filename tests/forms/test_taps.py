"""Taps of one axis and phases of another, added up by Col2Im."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convt_onnx.forms import FORMS, Setting
from convt_onnx.spec import ConvTransposeSpec

from .cpu_cases import assert_right, case_of, spec
from .drawn import applicable, build, compare, lowered
from .lowering import initializers, refusals

FORM = "taps-col2im"


@st.composite
def cases(draw):
    """Two axes, taps of the first overlapping, of any opset that has Col2Im."""
    stride = draw(st.integers(1, 3))
    kernel = (draw(st.integers(stride + 1, 7)), draw(st.integers(1, 6)))
    strides = (stride, draw(st.integers(1, 4)))
    pair = st.tuples(st.integers(0, 5), st.integers(0, 5))
    each = ConvTransposeSpec(
        in_channels=draw(st.sampled_from([1, 3, 8, 16])),
        out_channels=draw(st.integers(1, 4)),
        group=1,
        kernel=kernel,
        strides=strides,
        dilations=draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (3, 2)])),
        pads_begin=draw(pair),
        pads_end=draw(pair),
        output_padding=(draw(st.integers(0, stride - 1)), draw(st.integers(0, 4))),
    ).canonical()
    return case_of(
        each,
        tuple(a.least_length + draw(st.integers(0, 3)) for a in each.axes()),
        draw(st.sampled_from(["static", "batch", "spatial", "all", "unknown"])),
        bias=draw(st.booleans()),
        opset=draw(st.sampled_from([18, 20, 22, 24])),
        run_time_weight=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
    )


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_taps_equal_the_oracle(case):
    assert FORM in applicable(case)
    compare(case, lowered(case, [FORM]), [FORM], case.sizes, 2)


@pytest.mark.parametrize("open_sizes", ["static", "batch", "spatial", "all", "unknown"])
@pytest.mark.parametrize("channels", [(8, 1), (5, 3)])
def test_a_kernel_of_several_strides(channels, open_sizes):
    each = ConvTransposeSpec(*channels, 1, (9, 7), (3, 2), (1, 1), (4, 3), (4, 2), (2, 0))
    assert_right(case_of(each, (7, 5), open_sizes, opset=18), FORM)


def test_channels_are_taps_of_one_axis_and_phases_of_the_other():
    case = case_of(spec(2, (8, 1), k=9, s=3, p=4), (7, 5), opset=18)
    made = lowered(case, [FORM])
    assert [n.op_type for n in made.graph.node] == ["Conv", "Reshape", "Col2Im", "Slice", "Add"]
    shapes = {n: tuple(i.dims) for n, i in ((t.name, t) for t in made.graph.initializer)}
    assert shapes[made.graph.node[0].input[1]] == (9 * 3, 8, 1, 3)
    block = initializers(made)[made.graph.node[2].input[2]]
    assert list(block) == [9, 3]


def test_it_has_fewer_multiply_adds_than_phases_and_fewer_columns_than_the_node():
    each = spec(2, (56, 1), k=9, s=2, p=4)
    taps, phases, native = (FORMS[n].work(each, 1, (64, 48)) for n in (FORM, "phases", "keep"))
    assert native.macs < taps.macs < phases.macs
    assert taps.elements < native.elements


@pytest.mark.parametrize(
    ("each", "changed", "reason"),
    [
        (spec(2, (16, 8)), {"opset": 17}, "CT306"),
        (spec(2, (16, 8)), {"dtype": "float64"}, "CT318"),
        (spec(2, (16, 8)), {"dtype": "float16"}, "CT318"),
        (spec(2, (16, 8)), {"mlas": False}, "CT313"),
        (spec(2, (16, 8), 2), {}, "CT320"),
        (spec(2, (16, 8), k=2, p=0), {}, "CT320"),
        (spec(1, (16, 8)), {}, "CT320"),
        (spec(3, (16, 8)), {}, "CT320"),
        (
            ConvTransposeSpec(4, 2, 1, (3, 3), (2, 2), (3, 1), (0, 0), (0, 0), (2, 0)),
            {},
            "CT310",
        ),
    ],
)
def test_it_is_refused_where_it_gains_nothing(each, changed, reason):
    case = case_of(each, (5, 6, 3)[: each.ndim], **({"opset": 18} | changed))
    found = refusals(build(case, ["probe"]), Setting(case.opset, mlas=case.mlas))[FORM]
    assert found is not None
    assert found.id == reason
