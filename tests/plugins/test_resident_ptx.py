"""PTX of kernels with resident weights, without a GPU: wide accesses, matrix instructions."""

import json
import os
import subprocess
import sys
from pathlib import Path

from convt_onnx.plugins.conv_transpose.problem import Device
from convt_onnx.plugins.conv_transpose.schedule import RESIDENT


def test_accesses_are_wide_and_nothing_spills_in_either_layout():
    script = Path(__file__).with_name("resident_report.py")
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_DISABLE_LINE_INFO": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    for layout, kernel in found.items():
        assert kernel["kind"] == RESIDENT
        assert kernel["matrix"] > 0, layout
        assert kernel["wide_stores"] > 0, layout
        assert kernel["spilled"] == 0, layout
        # Two programs are meant to share a processor.
        assert 2 * kernel["shared"] <= Device().shared_bytes, layout
    assert found["NHWC"]["wide_loads"] > 0
    assert found["NCHW"]["words"] > 0  # 8 bytes of x at once
