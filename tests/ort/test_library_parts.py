"""What the library and its Python half must agree on: keys, packed sizes, formulas."""

from __future__ import annotations

import subprocess
from math import inf, prod
from pathlib import Path

import pytest

from convt_onnx.plugins.conv_transpose.activations import make_activation
from convt_onnx.plugins.conv_transpose.ahead import schedules
from convt_onnx.plugins.conv_transpose.formula import SIZES, Formula
from convt_onnx.plugins.conv_transpose.quantities import grid, quantities
from convt_onnx.plugins.onnxruntime import build, kernel_file

from .nodes import SPECS, make_record

PARTS = ("node.c", "schedule.c", "floats.c", "formula.c")


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """The parts as a program."""
    path = tmp_path_factory.mktemp("probe") / "probe"
    sources = [str(build.SOURCES / p) for p in PARTS]
    own = str(Path(__file__).with_name("probe.c"))
    command = [*build.find_compiler(), "-std=c11", "-D_GNU_SOURCE", f"-I{build.SOURCES}"]
    subprocess.run([*command, *sources, own, "-o", str(path), "-lm"], check=True)

    def call(*arguments, text=""):
        done = subprocess.run([path, *arguments], input=text, capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    return call


def lines(record, **changes):
    attributes = record.attributes() | changes
    return "\n".join(
        f"{n} {' '.join(map(str, v)) if isinstance(v, list) else v}"
        for n, v in attributes.items()
        if v is not None
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", SPECS)
def test_a_node_has_one_key_and_one_weight_size(probe, name, dtype):
    activation = (
        make_activation("leaky_relu", 0.1)
        if dtype == "float16"
        else make_activation("clip", -inf, 6)
    )
    record = make_record(SPECS[name], dtype, residual=True, activation=activation)
    code, (key, elements) = probe("key", dtype, text=lines(record))
    assert (code, key) == (0, kernel_file.key(record))
    packing = record.packing
    assert int(elements) == prod(packing.shape if packing else record.spec.weight_shape)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"strides": [2]}, "strides"),
        ({"strides": [2, 0]}, "strides"),
        ({"kernel_shape": [3, 3, 3, 3]}, "kernel_shape"),
        ({"pads": [0, 0, 0]}, "pads"),
        ({"dilations": None}, "dilations"),
        ({"output_padding": [-1, 0]}, "output_padding"),
        ({"group": 3}, "in_channels"),
        ({"out_channels": 1 << 40}, "out_channels"),
        # 2^64 elements, which are none in 64 bits.
        ({"kernel_shape": [1 << 30, 1 << 30], "in_channels": 16, "group": 1}, "kernel_shape"),
        ({"strides": [1 << 30, 1 << 30]}, "kernel_shape"),
        ({"has_bias": 2}, "has_bias"),
        ({"activation": "swish"}, "activation"),
        ({"packed": 0}, "schedule"),
        ({"schedule": "gemm fused=01 aligned=111 block_n=64 block_k=16"}, "schedule"),
        ({"schedule": "gemm fused=011 aligned=111 block_n=63 block_k=16"}, "schedule"),
        ({"schedule": "x" * 300}, "schedule"),
        ({"schedule": ""}, "schedule"),
    ],
)
def test_attributes_that_make_no_sense_are_named(probe, change, word):
    record = make_record(SPECS["grouped"])
    code, (message,) = probe("key", "float32", text=lines(record, **change))
    assert code == 1
    assert message.startswith("convt_onnx::FusedConvTranspose: ")
    assert word in message


@pytest.mark.parametrize("name", SPECS)
def test_formulas_have_one_value(probe, name):
    record = make_record(SPECS[name])
    kernel = record.kernel()
    schedule = schedules(kernel, record.schedule, 90)[0]
    formulas = [grid(kernel, schedule), *quantities(kernel, schedule).values()]
    for numbers in ((2, 1, 1, 9), (3, 4, 7, 5)):
        for formula in formulas:
            wanted = formula.evaluate(dict(zip(SIZES, numbers, strict=True)))
            code, found = probe("formula", formula.text, *map(str, numbers))
            assert (code, found) == (0, [str(wanted)])


def test_division_rounds_down(probe):
    text = ((Formula.size("n") + -7) // 3).text
    assert probe("formula", text, "1", "1", "1", "1") == (0, ["-2"])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "no formula"),
        ("n +", "no formula"),
        ("n h", "no formula"),
        ("n x", "no formula"),
        ("99999999999999999999", "no formula"),
        ("n " * 80 + "+ " * 79, "no formula"),
        ("n 0 /", "out of range"),
        ("n 999999999999999999 * 999 *", "out of range"),
    ],
)
def test_what_is_no_formula(probe, text, answer):
    assert probe("formula", text, "2", "1", "1", "1") == (1, [answer])
