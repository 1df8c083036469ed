"""The names that builds and runs use, in the bindings of several versions of TensorRT.

The wheels are downloaded, a megabyte each; without network, pip or a C compiler the tests are
skipped. TensorRT-RTX is installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..tensorrt.wheels import unpacked_bindings
from .names_in_wheel import missing

ROOT = Path(__file__).parents[2]
VERSIONS = ("10.3.0", "10.9.0.34", "10.13.3.9", "10.16.1.11", "11.0.0.114", "11.4.0.106")


def test_tensorrt_rtx_has_them(rtx):
    assert missing(rtx.module) == []


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_tensorrt_has_them(version, tmp_path):
    wheel, stubs = unpacked_bindings(version, tmp_path)
    script = Path(__file__).parent / "names_in_wheel.py"
    done = subprocess.run(
        [sys.executable, script, wheel, stubs],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["title"] == f"TensorRT {version}"
    assert found["missing"] == []
    assert found["typed"]
    # The stub library makes no builder, as a machine without a GPU does.
    assert found["refusal"] == f"TensorRT {version} cannot build here"
