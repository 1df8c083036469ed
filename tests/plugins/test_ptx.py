"""PTX of kernels of every kind, without a GPU: wide accesses, matrix instructions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from convt_onnx.plugins.conv_transpose.problem import Device
from convt_onnx.plugins.conv_transpose.schedule import GEMM, LINES, RESIDENT, WALK


@pytest.fixture(scope="module")
def kernels():
    """What the kernels of ptx_report hold, by name."""
    script = Path(__file__).with_name("ptx_report.py")
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_DISABLE_LINE_INFO": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_accesses_are_wide_and_nothing_spills_in_either_layout(kernels):
    for layout in ("NHWC", "NCHW"):
        kernel = kernels[layout]
        assert kernel["kind"] == RESIDENT
        assert kernel["matrix"] > 0, layout
        assert kernel["wide_stores"] > 0, layout
        assert kernel["spilled"] == 0, layout
        # Two programs are meant to share a processor.
        assert 2 * kernel["shared"] <= Device().shared_bytes, layout
    assert kernels["NHWC"]["wide_loads"] > 0
    assert kernels["NCHW"]["words"] > 0  # 8 bytes of x at once


def test_it_compiles_without_a_bias(kernels):
    for name in ("no bias", "no bias, odd channels"):
        assert kernels[name]["kind"] == RESIDENT
        assert kernels[name]["matrix"] > 0
    # Triton 3.9 keeps two registers in memory there, once a tile; 3.6 none.
    assert kernels["no bias"]["spilled"] <= 8


def test_a_residual_takes_no_shared_memory_and_is_read_in_wide_words(kernels):
    bare, more = kernels["odd lines"], kernels["odd lines, residual"]
    assert more["shared"] == bare["shared"]
    assert more["wide_loads"] - bare["wide_loads"] == more["wide_stores"]


def test_fragments_take_one_barrier_a_tile_and_store_16_bytes_a_thread(kernels):
    for name in ("odd lines", "odd lines, residual"):
        assert kernels[name]["barriers"] == 1
    for name in ("NHWC", "odd lines", "odd lines, residual"):
        assert kernels[name]["stores"] == kernels[name]["wide_stores"] > 0
        assert kernels[name]["spilled"] == 0


def test_a_walk_reads_each_line_once_and_keeps_it_in_registers(kernels):
    kernel = kernels["walk"]
    assert kernel["kind"] == WALK
    assert kernel["matrix"] > 0
    assert kernel["stores"] == kernel["wide_stores"] == 8  # of four parts, 64 rows by 32 columns
    # Before the walk three lines, in it one: three shifts of four words a thread. And four of bias.
    assert kernel["wide_loads"] == 4 * 3 * 4 + 4
    assert kernel["barriers"] == 1
    assert 2 * kernel["shared"] <= Device().shared_bytes
    # Triton 3.9 keeps four registers in memory there; 3.6 none.
    assert kernel["spilled"] <= 16


def test_a_walk_over_nchw_lines_takes_no_shared_memory_for_them(kernels):
    bare, more = kernels["walk in words"], kernels["walk in words, residual"]
    for kernel in (bare, more):
        assert kernel["kind"] == WALK
        assert kernel["matrix"] == kernels["walk"]["matrix"]  # none of them multiplies zeros
        assert kernel["shared"] == kernels["walk"]["shared"]  # the weights
        assert kernel["barriers"] == 1
        assert kernel["stores"] == 16  # of 8 bytes: 64 rows by 128 columns of 128 threads
        assert kernel["spilled"] <= 32  # 3.6 and 3.9 keep up to seven registers in memory there
    assert more["words"] - bare["words"] == 16  # and so is the residual read


@pytest.mark.parametrize("name", ["walk along one axis", "walk with gaps"])
def test_a_walk_along_one_axis_keeps_nothing_but_weights_in_shared_memory(kernels, name):
    assert kernels[name]["kind"] == WALK
    assert kernels[name]["shared"] <= kernels[name]["estimated"]
    assert kernels[name]["barriers"] == 1


def test_a_walk_of_three_phases_stores_neighbouring_words_and_spills_nothing(kernels):
    bare, more = kernels["walk in thirds"], kernels["walk in thirds, residual"]
    for kernel in (bare, more):
        assert kernel["kind"] == WALK
        assert kernel["matrix"] == 50  # 25 taps of 32 channels, none of zeros
        assert kernel["barriers"] == 3  # one before the walk, two between the exchanges of a row q
        # Of 4 bytes: 3 phases of the height, 32 channels, 256 neighbours of which 64 are none.
        assert kernel["stores"] == 3 * 32
        assert kernel["spilled"] == 0


def test_lines_are_written_in_wide_words_and_nothing_spills(kernels):
    kernel = kernels["lines"]
    assert kernel["kind"] == LINES
    # One store for each phase of the height and word of a thread.
    assert kernel["wide_stores"] == 4
    assert kernel["words"] > 0
    assert kernel["spilled"] == kernel["shared"] == 0


def test_no_kernel_takes_more_shared_memory_than_estimated(kernels):
    estimated = {k: v for k, v in kernels.items() if v["estimated"] is not None}
    assert len(estimated) == 14
    for name, kernel in estimated.items():
        assert kernel["shared"] <= kernel["estimated"], name


def test_no_kernel_adds_packed_integers(kernels):
    # ptxas 12.8 to 13.0 loses a constant of add.s16x2 in unrolled loops: x is read out of bounds.
    assert kernels["flat"]["kind"] == GEMM
    assert {k: v["packed_integers"] for k, v in kernels.items()} == dict.fromkeys(kernels, 0)
