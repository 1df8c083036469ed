"""Depthwise kernels that are a column times a row."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convt_onnx.forms import FORMS, Setting
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec

from .cpu_cases import case_of, spec
from .drawn import Drawn, applicable, build, compare, lowered, run
from .lowering import initializers, refusals


@dataclass(frozen=True)
class Separable(Drawn):
    """A node whose kernels are products; `alike`: those of all channels are equal."""

    alike: bool = False

    def arrays(self, sizes, batch):
        arrays = super().arrays(sizes, batch)
        rng = np.random.default_rng(self.seed + 1)
        channels = 1 if self.alike else self.spec.out_channels
        u, v = (rng.standard_normal((channels, k)) for k in self.spec.kernel)
        w = np.broadcast_to((u[:, :, None] * v[:, None])[:, None], self.spec.weight_shape)
        return arrays | {"w": w.astype(arrays["w"].dtype)}


def like(case, kind, **changed):
    """The same case with the arrays of another kind."""
    return kind(**{f.name: getattr(case, f.name) for f in fields(case)} | changed)


def separable(each, sizes, open_sizes="static", *, alike=False, **changed):
    return like(case_of(each, sizes, open_sizes, **changed), Separable, alike=alike)


def pairs(least, most):
    return st.tuples(*[st.integers(least, most)] * 2)


@st.composite
def cases(draw):
    strides, channels = draw(pairs(1, 4)), draw(st.integers(1, 5))
    each = ConvTransposeSpec(
        in_channels=channels,
        out_channels=channels,
        group=channels,
        kernel=draw(pairs(1, 6)),
        strides=strides,
        dilations=draw(pairs(1, 3)),
        pads_begin=draw(pairs(0, 4)),
        pads_end=draw(pairs(0, 4)),
        # Beyond the stride too: what a negative end pad asks for.
        output_padding=draw(pairs(0, 4)),
    ).canonical()
    return separable(
        each,
        tuple(a.least_length + draw(st.integers(0, 3)) for a in each.axes()),
        draw(st.sampled_from(["static", "batch"])),
        alike=draw(st.booleans()),
        bias=draw(st.booleans()),
        opset=draw(st.sampled_from([7, 9, 11, 13, 17, 22, 24])),
        seed=draw(st.integers(0, 1000)),
    )


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_the_products_equal_the_oracle(case):
    assert "separable" in applicable(case)
    compare(case, lowered(case, ["separable"]), ["separable"], case.sizes, 2)


def kinds(proto):
    return [n.op_type for n in proto.graph.node]


@pytest.mark.parametrize("alike", [False, True])
def test_two_products_and_the_bias(alike):
    case = separable(spec(2, (6, 6), 6), (5, 3), "batch", alike=alike)
    made = lowered(case, ["separable"])
    assert kinds(made) == ["MatMul", "MatMul", "Add"]
    columns, rows = (initializers(made)[made.graph.node[i].input[1 - i]] for i in (0, 1))
    of_each = () if alike else (6,)
    height, width = case.spec.output_sizes(case.sizes)
    assert rows.shape == (*of_each, height, 5)
    assert columns.shape == (*of_each, 3, width)
    compare(case, made, ["separable"], case.sizes, 2)


def test_the_band_of_a_bilinear_kernel():
    each = ConvTransposeSpec(3, 3, 3, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))

    @dataclass(frozen=True)
    class Bilinear(Drawn):
        def arrays(self, sizes, batch):
            line = np.float32([0.25, 0.75, 0.75, 0.25])
            kernel = np.broadcast_to(line[:, None] * line, self.spec.weight_shape)
            return super().arrays(sizes, batch) | {"w": kernel}

    case = like(case_of(each, (3, 2), bias=False), Bilinear)
    made = lowered(case, ["separable"])
    rows = initializers(made)[made.graph.node[1].input[0]]
    columns = initializers(made)[made.graph.node[0].input[1]]
    scale = columns[0, 0] / 0.75  # either factor may have what the other lacks
    np.testing.assert_array_equal(
        rows * scale,
        [
            [0.75, 0, 0],
            [0.75, 0.25, 0],
            [0.25, 0.75, 0],
            [0, 0.75, 0.25],
            [0, 0.25, 0.75],
            [0, 0, 0.75],
        ],
    )
    compare(case, made, ["separable"], case.sizes, 2)


def test_a_channel_of_zeros_and_one_channel_alone():
    each = spec(2, (4, 4), 4)
    case = separable(each, (4, 3))

    @dataclass(frozen=True)
    class Zeros(Separable):
        def arrays(self, sizes, batch):
            arrays = super().arrays(sizes, batch)
            arrays["w"][1] = 0
            return arrays

    for one, none in ((like(case, Zeros), [1]), (separable(spec(2, (1, 1)), (4, 3)), [])):
        made = lowered(one, ["separable"])
        height, width = one.spec.output_sizes(one.sizes)
        columns = initializers(made)[made.graph.node[0].input[1]].reshape(-1, 3, width)
        rows = initializers(made)[made.graph.node[1].input[0]].reshape(-1, height, 4)
        products = np.einsum("coi,cjp->coijp", rows, columns)
        assert np.flatnonzero(~products.any(axis=(1, 2, 3, 4))).tolist() == none
        compare(one, made, ["separable"], one.sizes, 2)


def test_an_empty_batch_stays_empty():
    case = separable(spec(2, (4, 4), 4), (4, 5), "batch")
    session = ort.InferenceSession(
        lowered(case, ["separable"]).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": np.zeros((0, 4, 4, 5), np.float32)})
    assert y.shape == (0, 4, *case.spec.output_sizes((4, 5)))


def test_more_arithmetic_for_fewer_elements():
    each = spec(2, (21, 21), 21, k=16, s=8, p=4)
    height, width = each.output_sizes((8, 6))
    made, native = (FORMS[n].work(each, 2, (8, 6)) for n in ("separable", "keep"))
    assert made.macs == 2 * 21 * (8 * 6 * width + height * 8 * width)
    assert native.macs < made.macs < 5 * native.macs
    assert made.elements < 0.2 * native.elements


def refused(case):
    found = refusals(build(case, ["probe"]), Setting(case.opset, mlas=case.mlas))["separable"]
    return None if found is None else found.id


DEPTHWISE = spec(2, (4, 4), 4)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (separable(DEPTHWISE, (5, 6)), None),
        (separable(DEPTHWISE, (5, 6), "batch"), None),
        (separable(DEPTHWISE, (5, 6), mlas=False), "CT313"),
        (separable(DEPTHWISE, (5, 6), run_time_weight=True), "CT314"),
        (separable(DEPTHWISE, (5, 6), opset=6), "CT306"),
        (separable(DEPTHWISE, (5, 6), opset=6, bias=False), None),
        (separable(DEPTHWISE, (5, 6), "spatial"), "CT323"),
        (separable(DEPTHWISE, (5, 6), "unknown"), "CT323"),
        (separable(DEPTHWISE, (5, 6), dtype="float16"), "CT323"),
        (separable(DEPTHWISE, (400, 400)), "CT307"),
        (case_of(spec(1, (4, 4), 4), (5,)), "CT323"),
        (case_of(spec(3, (4, 4), 4), (5, 4, 3)), "CT323"),
        (case_of(spec(2, (4, 8), 4), (5, 4)), "CT323"),
        (case_of(spec(2, (8, 4), 4), (5, 4)), "CT323"),
        (case_of(spec(2, (4, 4)), (5, 4)), "CT323"),
        (case_of(DEPTHWISE, (5, 6)), "CT324"),
    ],
)
def test_where_it_applies(case, reason):
    assert refused(case) == reason


@pytest.mark.parametrize(("change", "reason"), [(1e-8, None), (1e-5, "CT324"), (np.inf, "CT324")])
def test_a_kernel_has_to_be_a_product_up_to_rounding(change, reason):
    @dataclass(frozen=True)
    class Changed(Separable):
        def arrays(self, sizes, batch):
            arrays = super().arrays(sizes, batch)
            w = np.ones_like(arrays["w"])
            w[2, 0, 1, 3] += change
            return arrays | {"w": w}

    case = like(separable(DEPTHWISE, (5, 6)), Changed)
    assert refused(case) == reason


def test_small_taps_together_are_no_rounding():
    """Each below the tolerance of the largest tap; all of them change an output by 1e-4."""

    @dataclass(frozen=True)
    class Peak(Separable):
        def arrays(self, sizes, batch):
            arrays = super().arrays(sizes, batch)
            w = np.full_like(arrays["w"], 1e-7)
            w[:, 0, 3, 5] = 1
            return arrays | {"w": w}

    case = like(separable(spec(2, (4, 4), 4, k=32, s=1, p=0), (5, 6)), Peak)
    assert refused(case) == "CT324"


@pytest.mark.parametrize(("inputs", "taps"), [(3e38, 1e-4), (1e-38, 1e5)])
def test_no_more_overflow_or_underflow_than_in_the_node(inputs, taps):
    @dataclass(frozen=True)
    class Large(Separable):
        def arrays(self, sizes, batch):
            arrays = super().arrays(sizes, batch)
            x = np.full_like(arrays["x"], inputs)
            return {"x": x, "w": np.full_like(arrays["w"], taps)}

    case = like(separable(spec(2, (4, 4), 4), (5, 6), bias=False), Large)
    made = lowered(case, ["separable"])
    arrays = case.arrays(case.sizes, 2)
    wanted = conv_transpose(arrays["x"], arrays["w"], None, case.spec)
    got = run(case, made, {"x": arrays["x"]})["y_separable"]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
