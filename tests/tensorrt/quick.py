"""Drives NVIDIA's `tensorrt.plugin` of one binding wheel, without TensorRT's libraries.

What is real: the wheel's Python code (register, autotune, aot_impl, their validation, the creator and
the plugin template with its shapes, format combinations, launch parameters and kernels), its
enumerations and descriptors. What is modelled here: the C++ objects behind it. The registry
keeps creators in a list, expressions are trees, dims a list, and nothing is built, timed or run. So
this says that our functions fit NVIDIA's layer of that version and what they hand over, and
nothing of what TensorRT does with it.

Run as `python quick.py WHEEL_FOLDER STUBS_FOLDER MODEL` in a process of its own; prints JSON.
"""

import ctypes
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

SIZES = ((2, 7, 9), (1, 16, 5), (3, 8, 8))
OPERATIONS = {
    "SUM": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "PROD": lambda a, b: a * b,
    "FLOOR_DIV": lambda a, b: a // b,
}


def load(wheel: str, stubs: str):
    """The wheel's module as `tensorrt`, over libraries that have nothing but symbols."""
    for library in sorted(Path(stubs).iterdir()):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    sys.path.insert(0, wheel)
    import tensorrt_bindings as trt

    sys.modules["tensorrt"] = trt
    # Looked up when NVIDIA's code runs or is imported: in place before that.
    trt.IDimensionExpr, trt.DimsExprs, trt.ISymExpr = Expression, Dims, Plain
    trt.get_plugin_registry = lambda: REGISTRY
    return trt


@dataclass(frozen=True)
class Expression:
    """IDimensionExpr: a constant, a named size or an operation."""

    operation: object = None
    left: object = None
    right: object = None

    def value(self, sizes):
        if self.operation is None:
            return sizes[self.left] if isinstance(self.left, str) else self.left
        return OPERATIONS[self.operation](self.left.value(sizes), self.right.value(sizes))

    def is_constant(self):
        if self.operation is None:
            return isinstance(self.left, int)
        return self.left.is_constant() and self.right.is_constant()

    def get_constant_value(self):
        return self.value({})


class Builder:
    """IExprBuilder."""

    def constant(self, value):
        return Expression(left=value)

    def operation(self, operation, left, right):
        return Expression(operation.name, left, right)


class Dims(list):
    def __init__(self, length):
        super().__init__([None] * length)


class Plain:
    def __init__(self):
        pass


class Symbols(list):
    """ISymExprs: what the numbers are written to."""

    def __init__(self):
        self.nbSymExprs = None

    def __setitem__(self, index, value):
        assert index == len(self)
        self.append(value)


class Registry:
    def __init__(self):
        self.creators = {}

    def register_creator(self, creator, namespace):
        self.creators[namespace, creator.name] = creator
        return True

    def get_creator(self, name, version, namespace):
        return self.creators.get((namespace, name))


REGISTRY = Registry()


def described(trt, shape, dtype, tensor_format, low, high):
    """DynamicPluginTensorDesc."""
    desc = trt.DynamicPluginTensorDesc()
    inner = trt.PluginTensorDesc()
    inner.dims, inner.type, inner.format = trt.Dims(shape), dtype, tensor_format
    desc.desc, desc.min, desc.opt, desc.max = inner, trt.Dims(low), trt.Dims(low), trt.Dims(high)
    return desc


def drive(trt, name, record, static):
    """Everything that a build asks of one plugin, at every format combination and tactic."""
    creator = REGISTRY.get_creator(name, "1", "convt_onnx")
    request = trt.QuickPluginCreationRequest
    plugin = creator.create_plugin(name, "convt_onnx", [], trt.TensorRTPhase.BUILD, request.STRICT_AOT)
    dtype = {"float32": trt.float32, "float16": trt.float16, "bfloat16": trt.bfloat16}[record.dtype]
    spec, count = record.spec, len(record.inputs)
    first = SIZES[0]
    x = [first[0], spec.in_channels, *first[1 : 1 + spec.ndim]] if static else None
    names = ["n", None, *"hw"[-spec.ndim :]]
    dims = [
        Expression(left=spec.in_channels if n is None else (x[i] if static else n))
        for i, n in enumerate(names)
    ]
    shapes = [dims] + [[Expression(left=1)] for _ in range(count - 1)]
    builder = Builder()
    (kind,) = plugin.get_output_data_types([dtype] * count, [len(s) for s in shapes])
    assert kind == dtype
    (out,) = plugin.get_output_shapes(shapes, [], builder)
    open_x = [-1 if n is not None else spec.in_channels for n in names]
    low = [1, spec.in_channels, *[4] * spec.ndim]
    high = [8, spec.in_channels, *[64] * spec.ndim]
    tensor_x = (x or open_x, low if not static else x, high if not static else x)

    def descs(formats):
        rest = [([1], [1], [1])] * (count - 1)
        y = [-1 if n is not None else spec.out_channels for n in names]
        y_low = [1, spec.out_channels, *[4] * spec.ndim]
        shaped = [tensor_x, *rest, (y, y_low, y_low)]
        return [
            described(trt, s, dtype, f, lo, hi)
            for (s, lo, hi), f in zip(shaped, formats, strict=True)
        ]

    linear = [trt.TensorFormat.LINEAR] * (count + 1)
    flat = plugin.get_supported_format_combinations(descs(linear), count)
    combinations = [flat[i : i + count + 1] for i in range(0, len(flat), count + 1)]
    builds = []
    for combination in combinations:
        assert {d.type for d in combination} == {dtype}
        current = descs([d.format for d in combination])
        plugin.configure_plugin(current[:count], current[count:])
        for tactic in plugin.get_valid_tactics():
            plugin.set_tactic(tactic)
            launch, symbols = SimpleNamespace(), Symbols()
            plugin.get_launch_params([*shapes], current, count, launch, symbols, builder)
            plain = [d.desc for d in current]
            kernel, ptx = plugin.get_kernel(plain[:count], plain[count:])
            builds.append(reported(launch, symbols, out, kernel, ptx, combination, tactic, static))
    return builds


def reported(launch, symbols, out, kernel, ptx, combination, tactic, static):
    assert symbols.nbSymExprs == len(symbols)
    at = [dict(zip("nhw", size, strict=True)) for size in (SIZES[:1] if static else SIZES)]
    entry = ptx.decode().split(".entry", 1)[1].split(")", 1)[0]
    return {
        "formats": [d.format.name for d in combination],
        "tactic": tactic,
        "kernel": kernel,
        "parameters": entry.count(".param"),
        "pointers": entry.count(".u64"),
        "version": ptx.decode().split(".version", 1)[1].split()[0],
        "types": sorted({s.dtype.name for s in symbols}),
        "shared": launch.shared_mem.expr.value({}),
        "block": launch.block_x.expr.value({}),
        "grid": [launch.grid_x.expr.value(sizes) for sizes in at],
        "numbers": [[s.expr.value(sizes) for s in symbols] for sizes in at],
        "output": [[d.value(sizes) for d in out] for sizes in at],
    }


def main(wheel, stubs, model, static):
    trt = load(wheel, stubs)
    from convt_onnx.plugins.tensorrt.aot import register_aot
    from convt_onnx.plugins.tensorrt.nodes import records_of

    names = register_aot(trt, model, capability=80)
    assert register_aot(trt, model, capability=80) == names
    records = records_of(model)
    builds = {name: drive(trt, name, records[name], static) for name in names}
    print(json.dumps({"version": trt.__version__, "builds": builds}))


if __name__ == "__main__":
    main(*sys.argv[1:4], static=len(sys.argv) > 4)
