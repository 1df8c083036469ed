"""The rules for nodes that are not timed on the CUDA provider, and the times that they stand on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from convt_onnx.prediction.cuda_rules import FORM, gains
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.verify.verification import VerifyOptions

from ..benchmark import BENCHMARKS
from ..graph.building import array, model

MEASURED = BENCHMARKS / "results" / "ort_cuda_kinds.json"
# 4 groups of 8 to 6 channels with 2.2 million outputs.
INSIDE = (4, 8, 6, (4, 4), (2, 2), 16, (34, 40))
GROUPS_OF_TWO = "float32, 2 groups of 16 to 6 channels, kernel 4x4, strides 2x2, 460800 outputs"
ONLY = "only float32 has a rule, and the type is "
EDGES = [
    ({"group": 3, "batch": 20}, True),
    ({"group": 8}, True),
    ({"group": 2}, False),
    ({"group": 9}, False),
    ({"inputs": 7}, True),
    ({"inputs": 6}, False),
    ({"inputs": 17}, False),
    ({"outputs": 12}, True),
    ({"outputs": 13}, False),
    ({"outputs": 3, "sizes": (90, 90)}, False),
    ({"kernel": (5, 5), "strides": (3, 3)}, True),
    ({"kernel": (7, 7), "strides": (4, 4)}, True),
    ({"kernel": (6, 6)}, False),
    # A tap for each output, and zeros among the taps.
    ({"kernel": (3, 3), "strides": (3, 3)}, False),
    ({"kernel": (5, 5), "strides": (4, 4)}, False),
    ({"kernel": (4, 5)}, False),
    ({"kernel": (5, 5), "strides": (2, 3)}, False),
    ({"kernel": (4,), "strides": (2,), "sizes": (2740,)}, False),
    ({"batch": 14}, False),
    ({"sizes": (100, 100)}, True),
    ({"sizes": (104, 103)}, False),
]


def kind(group, inputs, outputs, kernel, strides, batch, sizes, dilation=1):
    n = len(kernel)
    zeros, dilations = (0,) * n, (dilation,) * n
    channels = (group * inputs, group * outputs, group)
    spec = ConvTransposeSpec(*channels, kernel, strides, dilations, zeros, zeros, zeros)
    return spec, batch, sizes


def inside(**changes):
    names = ("group", "inputs", "outputs", "kernel", "strides", "batch", "sizes")
    return kind(**{**dict(zip(names, INSIDE, strict=True)), **changes})


@pytest.mark.parametrize(("changes", "rewritten"), EDGES)
def test_edges_of_the_region(changes, rewritten):
    assert gains(*inside())
    assert gains(*inside(**changes)) == rewritten


def test_dilated_and_dense_kinds_stay():
    assert not gains(*inside(dilation=2))
    spec, batch, sizes = inside()
    assert not gains(replace(spec, group=1), batch, sizes)


def test_each_measured_kind_that_is_rewritten_gained(load):
    suites, kinds = load("gpu_suites").SUITES, load("ort_cuda_kinds")
    known = {**suites, "grouped": kinds.GROUPED}
    ratios, kept = {}, []
    for row in json.loads(MEASURED.read_text())["rows"]:
        if row["dtype"] != "float32":
            continue
        shape = next(s for s in known[row["suite"]] if s.name == row["row"])
        if gains(shape.spec, shape.batch, shape.sizes):
            ratios[shape.name] = gain(row)
        else:
            kept.append(gain(row))
    assert (len(ratios), len(kept)) == (33, 15)
    assert min(ratios.values()) >= 1.2, ratios
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
    assert len({s.name for s in drawn}) == kinds.DRAWN
    assert all(gains(s.spec, s.batch, s.sizes) for s in drawn)
    assert {s.name for s in drawn} != {s.name for s in kinds.drawn(2)}


def grouped(x, dtype="float32", weight="w", channels=(32, 6, 4), dilations="[1,1]"):
    """A node of 4 groups of 8 to 6 channels."""
    kind = {"float32": "float", "float64": "double"}.get(dtype, dtype)
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
        (grouped("16,32,36,40", "float16"), "keep", "CT577", f"{ONLY}FLOAT16"),
        (grouped("16,32,36,40", "float64"), "keep", "CT577", f"{ONLY}DOUBLE"),
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
