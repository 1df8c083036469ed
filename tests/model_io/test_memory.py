"""Peak memory, each time in a process of its own, against one that only imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

MATRIX_COUNT = 3
MATRIX_MIB = 20
SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import onnx_ir as ir
from convt_onnx import model_io

source, out, job = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
if job != "import":
    loaded = model_io.load(source)
if job == "shapes":
    model_io.infer_shapes(loaded)
if job == "copy":
    model_io.copy_unchanged(loaded, out, force=False)
if job == "replace":
    matrix = loaded.model.graph.initializers["m0"]
    matrix.const_value = ir.tensor(np.ones(matrix.shape.numpy(), np.float32), name="m0")
if job in ("save", "replace"):
    model_io.save(loaded, loaded.model, out, force=False)
# Not getrusage: it counts the memory that the parent had at the fork.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.fixture
def large(proto, write, external):
    """A model with 60 MiB of external data."""
    elements = MATRIX_MIB * 2**18
    for i in range(MATRIX_COUNT):
        tensor = external(f"m{i}", [elements], location="m.bin", offset=i * elements * 4)
        proto.graph.initializer.append(tensor)
    path = write(proto)
    with path.with_name("m.bin").open("wb") as file:
        for i in range(MATRIX_COUNT):
            file.write(np.full(elements, i, np.float32))
    return path


def peak_mib(source: Path, out: Path, job: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(source), str(out), job],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's VmHWM")
def test_external_data_is_not_held_in_memory(large, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    base = peak_mib(large, folder / "none.onnx", "import")
    extra = {
        job: peak_mib(large, folder / f"{job}.onnx", job) - base
        for job in ("load", "shapes", "save")
    }
    extra["copy"] = peak_mib(large, tmp_path_factory.mktemp("copy") / "copy.onnx", "copy") - base
    assert max(extra.values()) < 12, extra
    assert (folder / "save.onnx.data").stat().st_size == MATRIX_COUNT * MATRIX_MIB * 2**20
    replaced = peak_mib(large, folder / "replace.onnx", "replace") - base
    assert replaced < MATRIX_MIB + 12


def test_large_initializers_are_not_exploded(write):
    # onnx's own data propagation took 23 GB for such an Add.
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[4000000] x) => (y) { y = Add(x, b) }"""
    proto = parser.parse_model(text)
    bias = proto.graph.initializer.add(name="b", data_type=1, dims=[4_000_000])
    bias.raw_data = bytes(16_000_000)
    path = write(proto)
    base = peak_mib(path, path, "import")
    assert peak_mib(path, path, "shapes") - base < 60
