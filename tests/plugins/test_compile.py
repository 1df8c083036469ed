"""PTX made ahead of time, without a GPU: wide accesses, matrix instructions, nothing hidden."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from convt_onnx.errors import MissingPartError, UsageError
from convt_onnx.plugins.conv_transpose import ahead
from convt_onnx.plugins.conv_transpose.compile import compile_ptx
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.ptx import SHARED_LIMIT
from convt_onnx.plugins.conv_transpose.schedule import LINES, RESIDENT, WALK
from convt_onnx.spec import ConvTransposeSpec

JOBS = [f"dense NHWC float16:{c}" for c in (75, 80, 86, 89, 90, 100, 120)]
JOBS += [f"{kind}:90" for kind in ("dense NCHW float16", "dense NHWC float32")]
JOBS += ["depthwise NHWC float16:80", "depthwise NHWC float16:90"]
OPEN_JOBS = [f"open {kind}:{c}" for kind, c in (
    ("NCHW float16", 80), ("NCHW to NHWC bfloat16", 120), ("NCHW float32", 75)
)]  # fmt: skip
JOBS += OPEN_JOBS


@pytest.fixture(scope="module")
def made():
    script = Path(__file__).with_name("aot_report.py")
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_DISABLE_LINE_INFO": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, *JOBS],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("job", JOBS)
def test_one_entry_with_the_declared_parameters_and_no_spills(made, job):
    kernel = made[job]
    assert kernel["entries"] == 1
    assert kernel["declared"] == len(kernel["parameters"])
    assert kernel["parameters"][0] == "x"
    assert kernel["parameters"][-1] == "y"
    assert kernel["shared"] <= SHARED_LIMIT
    assert kernel["threads"] == kernel["declared_threads"]
    assert kernel["grid"] == kernel["wanted_grid"]
    assert kernel["spilled"] == 0 or job.endswith(":75"), kernel["schedule"]
    assert (kernel["numbers"] > 1) == (job in OPEN_JOBS)


@pytest.mark.parametrize("job", [j for j in JOBS if not j.endswith(":75")])
def test_loads_and_stores_are_16_bytes_wide(made, job):
    assert made[job]["wide_loads"] > 0, made[job]
    # Lines of y of open length start anywhere.
    assert made[job]["wide_stores"] > 0 or job.startswith("open NCHW float16"), made[job]


@pytest.mark.parametrize("job", JOBS)
def test_matrix_instructions_where_they_are_meant(made, job):
    meant = "depthwise" not in job and not job.endswith(":75")  # Triton has none for 7.5
    assert (made[job]["matrix"] > 0) == meant


def test_ptx_versions_suit_the_drivers_of_each_generation(made):
    assert made["dense NHWC float16:80"]["version"] == "8.0"
    assert made["dense NHWC float16:120"]["version"] == "8.7"


def kernel(sizes=(None, 4)):
    spec = ConvTransposeSpec(8, 8, 1, (2,), (2,), (1,), (0,), (0,), (0,))
    return KernelSpec(spec, "float16", sizes)


def test_an_unknown_capability_is_refused():
    with pytest.raises(UsageError, match="compute capability 70"):
        compile_ptx(kernel(), 70)


def test_a_type_that_the_device_lacks_is_refused():
    with pytest.raises(UsageError, match="do not compute") as error:
        compile_ptx(replace(kernel(), dtype="bfloat16"), 75)
    assert "bfloat16 needs compute capability 8.0" in error.value.where


@pytest.mark.parametrize("kind", [RESIDENT, WALK, LINES])
def test_schedules_of_other_kinds_are_refused(kind):
    base = ahead.base_schedule(kernel())
    with pytest.raises(UsageError, match="not compiled ahead of time") as error:
        compile_ptx(kernel(), 90, replace(base, kind=kind))
    assert kind in error.value.where


def test_without_triton_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MissingPartError, match="triton is not installed"):
        compile_ptx(kernel(sizes=(None, 77)), 80)


def test_the_choice_ahead_of_time_is_deterministic():
    assert ahead.base_schedule(kernel()) == ahead.base_schedule(kernel())
