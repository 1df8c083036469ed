"""Drives NVIDIA's `tensorrt.plugin` of one binding wheel, without TensorRT's libraries.

What is real: the wheel's Python code (register, autotune, aot_impl, their validation, creator and
the plugin template with its shapes, format combinations, launch parameters and kernels), its
enumerations and descriptors. What is modelled here: the C++ objects behind it. The registry
keeps creators in a list, expressions are trees, dims a list, and nothing is built, timed or run. So
this says that our functions fit NVIDIA's layer of that version and what they hand over, and
nothing of what TensorRT does with it.

Run as `python quick.py WHEEL_FOLDER STUBS_FOLDER MODEL [x's shape]` in a process of its own; prints
JSON.
"""

import ctypes
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

SIZES = tuple({"n": n, "d": 5, "h": h, "w": w} for n, h, w in ((2, 7, 9), (1, 16, 5), (3, 8, 8)))
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


@dataclass(frozen=True)
class Built:
    """What one build hands over for one format combination and tactic."""

    formats: tuple
    tactic: int
    kernel: str
    ptx: bytes
    launch: SimpleNamespace
    symbols: Symbols
    output: Dims

    def numbers(self, sizes):
        return [s.expr.value(sizes) for s in self.symbols]

    def grid(self, sizes):
        return self.launch.grid_x.expr.value(sizes)

    @property
    def block(self):
        return self.launch.block_x.expr.value({})

    @property
    def shared(self):
        return self.launch.shared_mem.expr.value({})


def size_names(record):
    """Names of the sizes of x, None for its channels."""
    return ["n", None, *"dhw"[-record.spec.ndim :]]


def drive(trt, name, record, x=None):
    """Everything that a build asks of one plugin, at every format combination and tactic.

    `x` is a static shape; without it batch and sizes are open.
    """
    creator = REGISTRY.get_creator(name, "1", "convt_onnx")
    request = trt.QuickPluginCreationRequest.STRICT_AOT
    plugin = creator.create_plugin(name, "convt_onnx", [], trt.TensorRTPhase.BUILD, request)
    dtype = {"float32": trt.float32, "float16": trt.float16, "bfloat16": trt.bfloat16}[record.dtype]
    count, names = len(record.inputs), size_names(record)
    known = [record.spec.in_channels if n is None else n for n in names] if x is None else x
    shapes = [[Expression(left=n) for n in known]]
    shapes += [[Expression(left=1)] for _ in range(count - 1)]
    builder = Builder()
    (kind,) = plugin.get_output_data_types([dtype] * count, [len(s) for s in shapes])
    assert kind == dtype
    (out,) = plugin.get_output_shapes(shapes, [], builder)
    linear = [trt.TensorFormat.LINEAR] * (count + 1)
    flat = plugin.get_supported_format_combinations(descs(trt, record, dtype, linear, x), count)
    for i in range(0, len(flat), count + 1):
        formats = [d.format for d in flat[i : i + count + 1]]
        assert {d.type for d in flat[i : i + count + 1]} == {dtype}
        current = descs(trt, record, dtype, formats, x)
        plugin.configure_plugin(current[:count], current[count:])
        for tactic in plugin.get_valid_tactics():
            plugin.set_tactic(tactic)
            launch, symbols = SimpleNamespace(), Symbols()
            plugin.get_launch_params(shapes, current, count, launch, symbols, builder)
            plain = [d.desc for d in current]
            kernel, ptx = plugin.get_kernel(plain[:count], plain[count:])
            assert symbols.nbSymExprs == len(symbols)
            yield Built(tuple(formats), tactic, kernel, ptx, launch, symbols, out)


def descs(trt, record, dtype, formats, x):
    """Descriptions of inputs and output: x from 4 to 64 rows an axis, or of one shape."""
    spec, n = record.spec, record.spec.ndim
    low, high = (x, x) if x else ([1, spec.in_channels, *[4] * n], [8, spec.in_channels, *[64] * n])
    shapes = [(x or [-1, spec.in_channels, *[-1] * n], low, high)]
    shapes += [([1], [1], [1])] * (len(formats) - 2)
    y_low = [1, spec.out_channels, *[4] * n]
    shapes.append(([-1, spec.out_channels, *[-1] * n], y_low, y_low))
    return [
        described(trt, s, dtype, f, lo, hi) for (s, lo, hi), f in zip(shapes, formats, strict=True)
    ]


def reported(built, sizes):
    entry = built.ptx.decode().split(".entry", 1)[1].split(")", 1)[0]
    return {
        "formats": [f.name for f in built.formats],
        "tactic": built.tactic,
        "kernel": built.kernel,
        "parameters": entry.count(".param"),
        "pointers": entry.count(".u64"),
        "ptx": built.ptx.decode().split(".version", 1)[1].split()[0],
        "types": sorted({s.dtype.name for s in built.symbols}),
        "shared": built.shared,
        "block": built.block,
        "grid": [built.grid(at) for at in sizes],
        "numbers": [built.numbers(at) for at in sizes],
        "output": [[d.value(at) for d in built.output] for at in sizes],
    }


def main(wheel, stubs, model, *shape):
    trt = load(wheel, stubs)
    from convt_onnx.plugins.tensorrt.aot import register_aot
    from convt_onnx.plugins.tensorrt.nodes import records_of

    names = register_aot(trt, model, capability=80)
    assert register_aot(trt, model, capability=80) == names
    x = [int(n) for n in shape] or None
    report = {
        name: [reported(b, [{}] if x else SIZES) for b in drive(trt, name, record, x)]
        for name, record in records_of(model).items()
    }
    print(json.dumps({"version": trt.__version__, "builds": report}))


if __name__ == "__main__":
    main(*sys.argv[1:])
