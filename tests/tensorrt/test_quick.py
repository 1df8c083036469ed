"""Our ahead-of-time plugins under NVIDIA's own `tensorrt.plugin` of several versions.

`quick.py` says what of it is real and what is modelled. The binding wheels are downloaded, a
megabyte each; without network, pip or a C compiler the tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.plugins.conv_transpose import ahead, launch
from convt_onnx.plugins.tensorrt.formats import CHANNELS_LAST, LINEAR, takes
from convt_onnx.plugins.tensorrt.nodes import records_of
from convt_onnx.tuning.options import TuneOptions

from ..graph.building import array, model, write
from ..plugins.drawing import contiguous
from .quick import SIZES
from .wheels import unpacked_bindings

pytestmark = pytest.mark.long
VERSIONS = ("10.9.0.34", "10.13.3.9", "10.16.1.11", "11.0.0.114", "11.4.0.106")
TEXT = """g (float16[n, 16, h, w] x) => (float16[] y) {
    c = ConvTranspose <strides = [2, 2], pads = [1, 0, 0, 1]> (x, v, b)
    r = ConvTranspose <strides = [2, 2], pads = [1, 0, 0, 1]> (x, u)
    a = Add (c, r)
    y = Relu (a)
}"""


@pytest.fixture(scope="module")
def plugged(tmp_path_factory):
    """A model with two different plugin nodes, one with a bias, a residual and an activation."""
    folder = tmp_path_factory.mktemp("model")
    weights = {n: array(16, 8, 3, 2, seed=i).astype("f2") for i, n in enumerate("vu")}
    before = model(TEXT, b=array(8).astype("f2"), **weights)
    options = OptimizeOptions(target="tensorrt", plugin=True, tune=TuneOptions(enabled=False))
    return optimize(write(before, folder), options=options).output


@pytest.fixture(scope="module", params=VERSIONS)
def wheel(request, tmp_path_factory):
    """An unpacked binding wheel, stubs of its libraries, and its version."""
    folder = tmp_path_factory.mktemp("wheel")
    return *unpacked_bindings(request.param, folder), request.param


def driven(wheel, plugged, *shape):
    """What NVIDIA's layer hands over."""
    folder, stubs, version = wheel
    script = Path(__file__).with_name("quick.py")
    command = [sys.executable, script, folder, stubs, plugged, *map(str, shape)]
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["version"] == version
    return report["builds"]


def expected(record, build, sizes):
    """The numbers and the grid of a launch from Python, for tensors of these sizes."""
    last = [build["formats"][i] != LINEAR for i in (0, -1)]
    kernel = record.kernel(channels_last_in=last[0], channels_last_out=last[1])
    schedule = ahead.schedules(kernel, record.schedule, 80)[build["tactic"] - 1]
    batch, *spatial = sizes
    problem = replace(kernel.problem, batch=batch, sizes=tuple(spatial))
    x = contiguous((batch, record.spec.in_channels, *problem.in_sizes), last[0])
    y = contiguous((batch, record.spec.out_channels, *problem.out_sizes), last[1])
    call = launch.Call(problem, schedule, record.activation)
    (grid, _, _), _ = launch.launch_constants(call, False, 1)
    return set(launch.launch_sizes(call, x, y)), grid, problem.out_sizes[1:], schedule


def test_every_format_and_tactic_with_open_sizes(wheel, plugged):
    builds, records = driven(wheel, plugged), records_of(plugged)
    assert builds.keys() == records.keys()
    for name, found in builds.items():
        record = records[name]
        allowed = [
            {f for f in (LINEAR, *CHANNELS_LAST) if takes(f, rank=4, channels=c, dtype="float16")}
            for c in (record.spec.in_channels, record.spec.out_channels)
        ]
        assert {(b["formats"][0], b["formats"][-1]) for b in found} == {
            (x, y) for x in allowed[0] for y in allowed[1]
        }
        assert max(b["tactic"] for b in found) > 1
        for build in found:
            if record.has_residual:
                assert build["formats"][-2] == build["formats"][-1]
            assert build["pointers"] == len(record.inputs) + 1
            assert build["parameters"] == build["pointers"] + len(build["numbers"][0])
            assert build["types"] == ["INT32"] and build["ptx"] == "8.0"
            assert 0 < build["shared"] <= 49152
            for i, at in enumerate(SIZES):
                sizes = (at["n"], at["h"], at["w"])
                numbers, grid, outs, schedule = expected(record, build, sizes)
                assert set(build["numbers"][i]) <= numbers
                assert build["grid"][i] == grid
                assert build["block"] == schedule.warps * 32
                assert build["output"][i] == [at["n"], record.spec.out_channels, *outs]


def test_static_sizes_are_compiled_in(wheel, plugged):
    builds, records = driven(wheel, plugged, 2, 16, 7, 9), records_of(plugged)
    for name, found in builds.items():
        for build in found:
            _, grid, outs, _ = expected(records[name], build, (2, 7, 9))
            assert build["numbers"] == [[]]
            assert build["parameters"] == build["pointers"] == len(records[name].inputs) + 1
            assert build["grid"] == [grid]
            assert build["output"] == [[2, 8, *outs]]


NAMES = """IPluginV3 IPluginV3OneCore IPluginV3OneBuild IPluginV3OneRuntime IPluginCreatorV3One
PluginField PluginFieldCollection PluginFieldType PluginTensorDesc DynamicPluginTensorDesc DimsExprs
DimensionOperation TensorFormat DataType TensorRTPhase QuickPluginCreationRequest
IPluginV3QuickAOTBuild get_plugin_registry""".split()
DRIFT = """import sys; sys.path.insert(0, {here!r}); import quick, json
trt = quick.load({wheel!r}, {stubs!r})
from convt_onnx.plugins.tensorrt.layer import layer_class
from convt_onnx.plugins.tensorrt.creators import creator_class
import tensorrt.plugin as trtp
print(json.dumps([
    [n for n in {names!r} if not hasattr(trt, n)],
    [n for n in ("SUM", "SUB", "PROD", "FLOOR_DIV") if not hasattr(trt.DimensionOperation, n)],
    [n for n in {formats!r} if not hasattr(trt.TensorFormat, n)],
    [n for n in ("INT32", "FLOAT32", "CHAR") if not hasattr(trt.PluginFieldType, n)],
    [n for n in ("register", "autotune", "aot_impl", "SymInt32", "SymExprs", "KernelLaunchParams",
                 "AutoTuneCombination", "TensorDesc", "ShapeExprs") if not hasattr(trtp, n)],
    layer_class(trt).__name__, creator_class(trt)("a", "b", False).name,
]))"""


def test_no_name_that_is_used_has_gone(wheel):
    folder, stubs, _ = wheel
    code = DRIFT.format(
        here=str(Path(__file__).parent), wheel=str(folder), stubs=str(stubs), names=NAMES,
        formats=[LINEAR, *CHANNELS_LAST],
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[]] * 5 + ["ConvTransposeLayer", "a"]


def test_the_file_is_what_it_was_made_from(plugged):
    proto = onnx.load(plugged)
    assert len({n.op_type for n in proto.graph.node}) == len(proto.functions) == 2
