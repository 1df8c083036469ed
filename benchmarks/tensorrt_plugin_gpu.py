"""The TensorRT plugin on a GPU without TensorRT: its kernels, launched as TensorRT would.

    python benchmarks/tensorrt_plugin_gpu.py WHEEL STUBS [--processes 12] [--json out.json]

WHEEL is an unpacked tensorrt-cu13-bindings wheel, STUBS a folder of libraries with the symbols that
it links (tests/tensorrt/stubs.py makes them). Two paths are run, for every element type, format and
tactic, with sizes as arguments:

* layer: the IPluginV3 object's configure_plugin, set_tactic, on_shape_change and enqueue, through
  the wheel's classes and descriptors, with device pointers and a stream;
* aot: what the wheel's own `tensorrt.plugin` code takes from our functions (tests/tensorrt/quick.py
  says what it models), that is the PTX, grid, block, shared memory and numbers, put on the stream
  through the driver: the inputs' pointers, the numbers, y's pointer.

Results are compared with float64 convolutions of torch. Nothing here runs TensorRT itself: what it
does with the plugin besides is not shown.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tensorrt_plugin_cases import CASES, DTYPES, LARGE, Case, Operands, operands, record_of

from convt_onnx.plugin_node import PluginRecord
from convt_onnx.plugins.tensorrt import driver
from convt_onnx.plugins.tensorrt.aot import Building, combinations, register_records
from convt_onnx.plugins.tensorrt.layer import layer_class
from convt_onnx.plugins.tensorrt.state import State

ROOT = Path(__file__).resolve().parents[1]
BOUNDS = {"float16": 1.5e-3, "bfloat16": 1.2e-2, "float32": 2e-6, "tf32": 2e-3}


def description(trt: Any, shape: tuple[int, ...], dtype: str, name: str) -> Any:
    """PluginTensorDesc."""
    kinds = {"float32": trt.float32, "float16": trt.float16, "bfloat16": trt.bfloat16}
    desc = trt.PluginTensorDesc()
    desc.dims, desc.type, desc.format = (
        trt.Dims(shape),
        kinds[dtype],
        getattr(trt.TensorFormat, name),
    )
    return desc


def dynamic(trt: Any, desc: Any, low: tuple[int, ...], high: tuple[int, ...]) -> Any:
    """DynamicPluginTensorDesc with a profile."""
    made = trt.DynamicPluginTensorDesc()
    made.desc, made.min, made.opt, made.max = desc, trt.Dims(low), trt.Dims(low), trt.Dims(high)
    return made


def through_layer(
    trt: Any, case: Case, record: PluginRecord, tf32: bool
) -> Iterator[dict[str, Any]]:
    """Every format and tactic through the plugin object."""
    open_sizes = (None,) * (1 + record.spec.ndim)
    building = Building(driver.device_capability() or 0, tf32)
    for _, layouts, tactics in combinations(record, building, open_sizes):
        names = layouts.split(", ")
        if case is LARGE and names[0] != names[-1]:
            continue
        for tactic in tactics[:1] if case is LARGE else tactics:
            layer = layer_class(trt)(State(record, tf32), [])
            layer = configured(trt, layer, record, names, tactic)
            for sizes in case.sizes:
                call = operands(record, sizes, names[0] != "LINEAR", names[-1] != "LINEAR")
                enqueue(trt, layer, record, names, call)
                yield {"path": "layer", "formats": [names[0], names[-1]], "tactic": tactic,
                       "sizes": sizes, "error": call.error()}  # fmt: skip


def configured(trt: Any, layer: Any, record: PluginRecord, names: list[str], tactic: int) -> Any:
    """The layer after what a build asks of it, attached to a context."""
    spec = record.spec
    most = {1: 4096, 2: 2048, 3: 128}[spec.ndim]
    low, high = (
        (1, spec.in_channels, *(4,) * spec.ndim),
        (64, spec.in_channels, *(most,) * spec.ndim),
    )
    shapes = [(-1, *low[1:]), *((1,) for _ in names[2:]), (-1, spec.out_channels, *low[2:])]
    ends = [(low, high)] + [((1,), (1,))] * (len(names) - 1)
    described = [
        dynamic(trt, description(trt, shape, record.dtype, name), *end)
        for shape, name, end in zip(shapes, names, ends, strict=True)
    ]
    count = len(names) - 1
    assert all(layer.supports_format_combination(i, described, count) for i in range(count + 1))
    layer.configure_plugin(described[:-1], described[-1:])
    assert tactic in layer.get_valid_tactics()
    layer.set_tactic(tactic)
    return layer.attach_to_context(None)


def enqueue(trt: Any, layer: Any, record: PluginRecord, names: list[str], call: Operands) -> None:
    """One execution on a stream of its own."""
    shapes = [*(tuple(t.shape) for t in call.tensors.values()), tuple(call.y.shape)]
    pairs = zip(shapes, names, strict=True)
    descs = [description(trt, shape, record.dtype, name) for shape, name in pairs]
    layer.on_shape_change(descs[:-1], descs[-1:])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    pointers = [t.data_ptr() for t in call.tensors.values()]
    y = [call.y.data_ptr()]
    layer.enqueue(descs[:-1], descs[-1:], pointers, y, 0, stream.cuda_stream)
    stream.synchronize()


def through_aot(quick: Any, trt: Any, case: Case, record: PluginRecord) -> Iterator[dict[str, Any]]:
    """What NVIDIA's layer hands over, through the driver."""
    name = record.identity("hashed")[0]
    register_records({name: record}, Building(driver.device_capability() or 0))
    stream = torch.cuda.Stream()
    for built in quick.drive(trt, name, record):
        names = [f.name for f in built.formats]
        module = driver.call("cuModuleLoadData", built.ptx + b"\0")
        function = driver.call("cuModuleGetFunction", module, built.kernel.encode())
        for sizes in case.sizes:
            call = operands(record, sizes, names[0] != "LINEAR", names[-1] != "LINEAR")
            at = dict(zip(("n", *"dhw"[-record.spec.ndim :]), sizes, strict=True))
            inputs = [t.data_ptr() for t in call.tensors.values()]
            numbers = built.numbers(at)
            values = (*inputs, *numbers, call.y.data_ptr())
            types = (ctypes.c_void_p,) * len(inputs) + (ctypes.c_int,) * len(numbers)
            stream.wait_stream(torch.cuda.current_stream())
            driver.call(
                "cuLaunchKernel", function, built.grid(at), 1, 1, built.block, 1, 1, built.shared,
                stream.cuda_stream, (values, (*types, ctypes.c_void_p)), 0,
            )  # fmt: skip
            stream.synchronize()
            shape = tuple(d.value(at) for d in built.output)
            assert shape == tuple(call.y.shape), (shape, call.y.shape)
            yield {"path": "aot", "formats": [names[0], names[-1]], "tactic": built.tactic,
                   "sizes": sizes, "error": call.error()}  # fmt: skip


def jobs() -> list[tuple[Case, str, bool]]:
    """(case, element type, TF32)."""
    found = [(case, dtype, False) for dtype in DTYPES for case in CASES]
    return [
        *found,
        (CASES[0], "float32", True),
        (CASES[1], "float32", True),
        (LARGE, "float16", False),
    ]


def worker(wheel: str, stubs: str, part: int, parts: int) -> None:
    """Run every parts-th job and print its results, one JSON a line."""
    sys.path.insert(0, str(ROOT / "tests" / "tensorrt"))
    import quick

    trt = quick.load(wheel, stubs)
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    for case, dtype, tf32 in jobs()[part::parts]:
        record = record_of(case, dtype)
        results = list(through_layer(trt, case, record, tf32))
        if not tf32 and case is not LARGE:
            results += through_aot(quick, trt, case, record)
        bound = BOUNDS["tf32" if tf32 else dtype]
        for result in results:
            ok = result["error"] <= bound  # NaN is not
            line = {"case": case.name, "dtype": dtype, "tf32": tf32, "bound": bound, "ok": ok}
            print(json.dumps(line | result), flush=True)


def main() -> None:
    """Spread the jobs over processes, which compile side by side, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel")
    parser.add_argument("stubs")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--part", type=int)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.part is not None:
        worker(options.wheel, options.stubs, options.part, options.processes)
        return
    start = time.perf_counter()
    command = [sys.executable, __file__, options.wheel, options.stubs]
    command += ["--processes", str(options.processes), "--part"]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(i) for i in range(options.processes)]
        running = [started([*command, str(i)], file) for i, file in enumerate(files)]
        failed = [
            f"process {i}: {p}" for i, p in enumerate(finished(running, options.seconds)) if p
        ]
        lines = [line for file in files for line in file.read_text().splitlines()]
    # A process that was stopped may have written half a line.
    results = [json.loads(ln) for ln in lines if ln.startswith("{") and ln.endswith("}")]
    report(results, failed, time.perf_counter() - start)
    if options.json is not None:
        options.json.write_text(json.dumps(results))
    sys.exit(bool(failed) or not all(r["ok"] for r in results))


def started(command: list[str], file: Path) -> subprocess.Popen[bytes]:
    """A process that writes to a file."""
    with file.open("wb") as out:
        return subprocess.Popen(command, stdout=out)


def finished(running: list[subprocess.Popen[bytes]], seconds: float) -> list[str]:
    """What went wrong with each process, "" for nothing; those that take too long are stopped."""
    end = time.monotonic() + seconds
    outcomes = []
    for process in running:
        try:
            code = process.wait(max(0.0, end - time.monotonic()))
            outcomes.append(f"exit code {code}" if code else "")
        except subprocess.TimeoutExpired:
            process.kill()
            outcomes.append("stopped: out of time")
    return outcomes


def report(results: list[dict[str, Any]], failed: list[str], seconds: float) -> None:
    """Calls, formats and the worst error by path and type."""
    import triton

    name, version = torch.cuda.get_device_name(), torch.__version__
    print(f"{name}, torch {version}, triton {triton.__version__}, {seconds:.0f} s, failed {failed}")
    print("| path | type | calls | formats of x, y | worst error | allowed | wrong |")
    print("|---|---|---|---|---|---|---|")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for r in results:
        dtype = "float32, TF32" if r["tf32"] else r["dtype"]
        groups.setdefault((r["path"], dtype), []).append(r)
    for (path, dtype), found in sorted(groups.items()):
        formats = len({tuple(r["formats"]) for r in found})
        wrong = sum(not r["ok"] for r in found)
        worst, bound = max(r["error"] for r in found), found[0]["bound"]
        cells = (path, dtype, len(found), formats, f"{worst:.1e}", f"{bound:.1e}", wrong)
        print("| " + " | ".join(map(str, cells)) + " |")
    for r in [r for r in results if not r["ok"]][:20]:
        print(r)


if __name__ == "__main__":
    main()
