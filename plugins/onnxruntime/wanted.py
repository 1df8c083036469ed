"""The kernels that a model's plugin nodes need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import onnx
import onnx_ir as ir

from convt_onnx import model_io
from convt_onnx.errors import MissingPartError, install
from convt_onnx.graph.operands import Dim, Shapes
from convt_onnx.plugin_node import DOMAIN, FIXED_NAME, PluginRecord
from convt_onnx.plugin_node.record import read_record
from convt_onnx.plugin_node.types import DTYPES
from convt_onnx.plugins.conv_transpose import ahead
from convt_onnx.plugins.conv_transpose.compile import compile_ptx
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.schedule import Schedule
from convt_onnx.plugins.onnxruntime import kernel_file
from convt_onnx.runtime_shapes import shapes_of

# Sizes of this many elements and more take 64-bit addresses.
WIDE_FROM = 1 << 31


@dataclass(frozen=True, slots=True)
class Wanted:
    """One kernel: the node it is for, and what is compiled in."""

    record: PluginRecord
    kernel: KernelSpec


Model = str | os.PathLike[str] | onnx.ModelProto


def wanted_kernels(models: Sequence[Model], tf32: Sequence[bool] = (True, False)) -> list[Wanted]:
    """One for each set of attributes and sizes in the models; float32 in each way of `tf32`.

    Spatial sizes that a model fixes are compiled in. The batch stays open. Of a message, the
    sizes that it says are taken; those of a file are inferred.

    Raises:
        ModelError, UsageError: A model cannot be read, or a plugin node makes no sense.
    """
    found: dict[Wanted, None] = {}
    for model in models:
        for node, shapes in _nodes_with_shapes(model):
            record = read_record(_attributes(node), _dtype(node))
            found |= dict.fromkeys(_variants(record, _shape(node, shapes), tf32))
    return list(found)


def _nodes_with_shapes(model: Model) -> Iterator[tuple[ir.Node, Shapes]]:
    """The plugin nodes, and the inferred shapes that hold where each stands."""
    if isinstance(model, onnx.ModelProto):
        for node, _ in _plugin_nodes(ir.from_proto(model)):
            yield node, {}
        return
    loaded = model_io.load(Path(model))
    nodes = list(_plugin_nodes(loaded.model))
    shapes = shapes_of(loaded) if nodes else {}
    for node, outer in nodes:
        yield node, shapes if outer else {}


def compile_texts(
    wanted: Sequence[Wanted], capabilities: Sequence[int], *, processes: int = 1
) -> list[str]:
    """The kernel files, one for each kernel and compute capability.

    Raises:
        MissingPartError: Triton is not installed.
    """
    jobs = [(w, capability) for w in wanted for capability in capabilities]
    if processes == 1 or len(jobs) < 2:
        return [compile_text(job) for job in jobs]
    require_triton()
    # A process that has started threads must not be forked.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(compile_text, jobs))


def compile_text(job: tuple[Wanted, int]) -> str:
    """One kernel file; a packed weight fixes the schedule but for its tile of rows.

    Raises:
        MissingPartError: Triton is not installed.
    """
    require_triton()
    wanted, capability = job
    schedule = schedule_for(wanted, capability)
    artifact = compile_ptx(wanted.kernel, capability, schedule)
    return kernel_file.text(wanted.record, wanted.kernel, artifact)


def require_triton() -> None:
    """Raise MissingPartError where kernels cannot be compiled."""
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise MissingPartError(
            "kernels cannot be compiled: Triton is not installed",
            help=f"{install('gpu')}, or build the library where Triton is",
        ) from error


def schedule_for(wanted: Wanted, capability: int) -> Schedule:
    """The node's schedule, with the tile of rows that suits the capability."""
    return ahead.schedules(wanted.kernel, wanted.record.schedule, capability)[0]


def _plugin_nodes(model: ir.Model) -> Iterator[tuple[ir.Node, bool]]:
    """The nodes, and whether inferred shapes hold where they stand."""
    for node in model.graph.all_nodes():
        if node.domain == DOMAIN and node.op_type == FIXED_NAME:
            yield node, node.graph is model.graph
    for function in model.functions.values():
        for node in ir.traversal.RecursiveGraphIterator(function.graph):
            if node.domain == DOMAIN and node.op_type == FIXED_NAME:
                yield node, False


def _attributes(node: ir.Node) -> dict[str, object]:
    return {name: a.value for name, a in node.attributes.items() if not a.is_ref()}


def _dtype(node: ir.Node) -> str:
    """Of the first value of the node that says; "" where none does."""
    values = (v for v in (*node.inputs, *node.outputs) if v is not None)
    found = next((v.dtype for v in values if v.dtype is not None), None)
    return "" if found is None else DTYPES.get(found, found.name)


def _shape(node: ir.Node, shapes: Shapes) -> Sequence[Dim] | None:
    x = node.inputs[0]
    if x is None:
        return None
    known = shapes.get(x.name or "")
    if known is None and x.shape is not None:
        known = [d if isinstance(d, int) else None for d in x.shape]
    return known


def _variants(
    record: PluginRecord, shape: Sequence[Dim] | None, tf32: Sequence[bool]
) -> Iterator[Wanted]:
    open_sizes: tuple[Dim, ...] = (None,) * (2 + record.spec.ndim)
    batch, _, *spatial = open_sizes if shape is None else shape
    sizes = tuple(n if isinstance(n, int) else None for n in spatial)
    for rounded in tf32 if record.dtype == "float32" else (False,):
        kernel = record.kernel((None, *sizes), tf32=rounded)
        whole = (batch, *sizes)
        static = [n for n in whole if isinstance(n, int)]
        wide = len(static) == len(whole) and kernel.reach(tuple(static)) >= WIDE_FROM
        yield Wanted(record, replace(kernel, wide=True) if wide else kernel)
