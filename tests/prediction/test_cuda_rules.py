"""The rules for nodes that are not timed on the CUDA provider, and the times that they stand on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from convt_onnx.prediction.cuda_rules import FORM, LEAST_OUTPUTS, MOST_OUTPUTS, REGIONS, gains
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.verify.verification import VerifyOptions

from ..benchmark import BENCHMARKS
from ..graph.building import array, model

MEASURED = BENCHMARKS / "results" / "ort_cuda_kinds.json"
# Rows of MEASURED that are rewritten and that are kept.
COUNTS = {"float32": (19, 15), "float16": (6, 26)}
# 4 groups of 8 to 6 channels with 2.2 million outputs, 2 groups of 16 to 8 with 0.9 million.
GROUPS_OF_TWO = "float32, 2 groups of 16 to 6 channels, kernel 4x4, strides 2x2, 460800 outputs"
INSIDE = {
    "float32": (4, 8, 6, (4, 4), (2, 2), 16, (34, 40)),
    "float16": (2, 16, 8, (3, 3), (2, 2), 16, (28, 30)),
}
EDGES = [
    ("float32", {"group": 3, "batch": 20}, True),
    ("float32", {"group": 8}, True),
    ("float32", {"group": 2}, False),
    ("float32", {"group": 9}, False),
    ("float32", {"inputs": 7}, True),
    ("float32", {"inputs": 6}, False),
    ("float32", {"inputs": 17}, False),
    ("float32", {"outputs": 12}, True),
    ("float32", {"outputs": 13}, False),
    ("float32", {"outputs": 3, "sizes": (90, 90)}, False),
    ("float32", {"kernel": (5, 5), "strides": (3, 3)}, True),
    ("float32", {"kernel": (7, 7), "strides": (4, 4)}, True),
    ("float32", {"kernel": (6, 6)}, False),
    # A tap for each output, and zeros among the taps.
    ("float32", {"kernel": (3, 3), "strides": (3, 3)}, False),
    ("float32", {"kernel": (5, 5), "strides": (4, 4)}, False),
    ("float32", {"kernel": (4, 5)}, False),
    ("float32", {"kernel": (5, 5), "strides": (2, 3)}, False),
    ("float32", {"kernel": (4,), "strides": (2,), "sizes": (2740,)}, False),
    ("float32", {"batch": 14}, False),
    ("float32", {"sizes": (100, 100)}, True),
    ("float32", {"sizes": (104, 103)}, False),
    ("float16", {"group": 3}, True),
    ("float16", {"group": 4}, False),
    ("float16", {"inputs": 15}, False),
    ("float16", {"inputs": 17}, False),
    ("float16", {"outputs": 12}, True),
    ("float16", {"outputs": 16}, True),
    ("float16", {"outputs": 4, "batch": 32}, False),
    ("float16", {"outputs": 15}, False),
    ("float16", {"outputs": 14}, False),
    ("float16", {"outputs": 20}, False),
    ("float16", {"kernel": (5, 5)}, True),
    ("float16", {"strides": (3, 3)}, False),
    ("float16", {"strides": (4, 4)}, True),
    ("float16", {"kernel": (4, 4), "strides": (4, 4)}, False),
    ("float16", {"batch": 9}, False),
]


def kind(group, inputs, outputs, kernel, strides, batch, sizes, dilation=1):
    n = len(kernel)
    zeros, dilations = (0,) * n, (dilation,) * n
    channels = (group * inputs, group * outputs, group)
    spec = ConvTransposeSpec(*channels, kernel, strides, dilations, zeros, zeros, zeros)
    return spec, batch, sizes


def inside(dtype, **changes):
    names = ("group", "inputs", "outputs", "kernel", "strides", "batch", "sizes")
    return kind(**{**dict(zip(names, INSIDE[dtype], strict=True)), **changes})


@pytest.mark.parametrize(("dtype", "changes", "rewritten"), EDGES)
def test_edges_of_the_regions(dtype, changes, rewritten):
    assert gains(*inside(dtype), dtype)
    assert gains(*inside(dtype, **changes), dtype) == rewritten


@pytest.mark.parametrize("dtype", INSIDE)
def test_dilated_and_dense_kinds_stay(dtype):
    assert not gains(*inside(dtype, dilation=2), dtype)
    spec, batch, sizes = inside(dtype)
    assert not gains(replace(spec, group=1), batch, sizes, dtype)


@pytest.mark.parametrize("dtype", REGIONS)
def test_each_measured_kind_that_is_rewritten_gained(load, dtype):
    suites, kinds = load("gpu_suites").SUITES, load("ort_cuda_kinds")
    known = {**suites, "grouped": kinds.GROUPED}
    rows = [r for r in json.loads(MEASURED.read_text())["rows"] if r["dtype"] == dtype]
    ratios, kept = {}, []
    for row in rows:
        shape = next(s for s in known[row["suite"]] if s.name == row["row"])
        ratio = gain(row)
        if gains(shape.spec, shape.batch, shape.sizes, dtype):
            ratios[shape.name] = ratio
        else:
            kept.append(ratio)
    assert (len(ratios), len(kept)) == COUNTS[dtype]
    assert min(ratios.values()) >= 1.3, ratios
    assert min(kept) < 0.5


def gain(row):
    """Where the forms were not timed one by one, the lower with and without a CUDA graph."""
    if FORM in row["times"]:
        return row["times"]["original"]["us"] / row["times"][FORM]["us"]
    both = (row["times"], row["graph"])
    return min(table["original"]["us"] / table["standard"]["us"] for table in both)


def test_drawn_kinds_are_all_new_and_all_rewritten(load):
    load("gpu_suites")
    kinds = load("ort_cuda_kinds")
    drawn = kinds.drawn(1)
    assert len({s.name for s in drawn}) == 2 * kinds.DRAWN_EACH
    for dtype in REGIONS:
        rewritten = [s for s in drawn if gains(s.spec, s.batch, s.sizes, dtype)]
        assert len(rewritten) >= kinds.DRAWN_EACH
        outputs = [s.batch * s.spec.out_channels * _pixels(s) for s in rewritten]
        assert LEAST_OUTPUTS[dtype] <= min(outputs) < max(outputs) <= MOST_OUTPUTS
    assert {s.name for s in drawn} != {s.name for s in kinds.drawn(2)}


def _pixels(shape):
    height, width = shape.spec.output_sizes(shape.sizes)
    return height * width


def grouped(x, dtype="float32", weight="w", channels=(32, 6, 4), dilations="[1,1]"):
    """A node of 4 groups of 8 to 6 channels."""
    kind = {"float32": "float", "float64": "double", "bfloat16": "bfloat16"}[dtype]
    inputs, out_per_group, group = channels
    w = array(inputs, out_per_group, 4, 4).astype(dtype)
    run_time = f", {kind}[{inputs},{out_per_group},4,4] v" if weight == "v" else ""
    text = (
        f"g ({kind}[{x}] x{run_time}) => ({kind}[] y) "
        f"{{ y = ConvTranspose <group={group}, strides=[2,2], pads=[1,1,1,1], "
        f"dilations={dilations}> (x, {weight}) }}"
    )
    return model(text, **({} if weight == "v" else {"w": w}))


@pytest.mark.parametrize(
    ("proto", "form", "reason", "detail"),
    [
        (
            grouped("16,32,36,40"),
            "phases",
            "CT574",
            "float32, 4 groups of 8 to 6 channels, kernel 4x4, strides 2x2, 2211840 outputs",
        ),
        (
            grouped("16,32,30,40"),
            "keep",
            "CT577",
            "float32, 4 groups of 8 to 6 channels, kernel 4x4, strides 2x2, 1843200 outputs",
        ),
        (
            grouped("16,32,36,40", dilations="[2,1]"),
            "keep",
            "CT577",
            "float32, 4 groups of 8 to 6 channels, kernel 4x4, strides 2x2, dilations 2x1, "
            "2304000 outputs",
        ),
        (grouped("N,32,36,40"), "keep", "CT577", "sizes are open"),
        (grouped("16,32,36,40", "float64"), "keep", "CT577", "no figures for the type DOUBLE"),
        # What is not an open question stays as it was.
        (grouped("16,32,36,40", weight="v"), "keep", "CT104", ""),
        (grouped("16,32,36,40", channels=(32, 6, 1)), "keep", "CT201", ""),
        (grouped("16,32,20,30", channels=(32, 6, 2)), "keep", "CT577", GROUPS_OF_TWO),
    ],
)
def test_the_reason_says_what_the_rules_looked_at(optimized, proto, form, reason, detail):
    found = optimized(proto, "ort-cuda", tune=TuneOptions(enabled=False))
    (decision,) = found.result.decisions
    assert (decision.form, decision.reason.id) == (form, reason)
    assert decision.reason.detail == detail


def test_sizes_that_the_user_gives_count(optimized):
    proto = grouped("N,32,36,40")
    given = VerifyOptions(input_shapes={"x": (16, 32, 36, 40)})
    found = optimized(proto, "ort-cuda", tune=TuneOptions(enabled=False), checks=given)
    assert list(found.forms.values()) == ["phases"]
