"""The layer: IPluginV3 of TensorRT and of TensorRT-RTX, from one source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from convt_onnx.errors import ConvtError
from convt_onnx.plugin_node import DOMAIN, FIXED_NAME
from convt_onnx.plugins.tensorrt.driver import (
    ASSUMED_CAPABILITY,
    Launch,
    device_capability,
    launch,
)
from convt_onnx.plugins.tensorrt.fields import make_fields
from convt_onnx.plugins.tensorrt.formats import LINEAR, dtype_of, name_of, takes
from convt_onnx.plugins.tensorrt.shapes import constant_sizes, output_dims
from convt_onnx.plugins.tensorrt.state import State

VERSION = "1"
# From the shapes of x and of the weight, and the number of inputs, to the state.
Resolve = Callable[[tuple[int | None, ...], tuple[int | None, ...], int], State]


@lru_cache(maxsize=4)
def layer_class(trt: Any) -> type[Layer]:
    """The plugin class for a module: tensorrt or tensorrt_rtx."""
    bases = (trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime)
    members = {"trt": trt, "initialisers": tuple(base.__init__ for base in bases)}
    return type("ConvTransposeLayer", (Layer, *bases), members)


class Layer:
    """One launch; nothing is allocated, the workspace is empty.

    What TensorRT calls, without its base classes, which `layer_class` adds. `problems` collects
    what is wrong with a profile.
    """

    trt: Any
    initialisers: tuple[Callable[[Any], None], ...]

    def __init__(
        self,
        state: State | None,
        problems: list[ConvtError],
        *,
        resolve: Resolve | None = None,
        loaded: bool = False,
    ) -> None:
        for initialise in self.initialisers:
            initialise(self)
        self.plugin_name, self.plugin_version = FIXED_NAME, VERSION
        self.plugin_namespace = DOMAIN
        self.num_outputs = 1
        self._state, self._problems = state, problems
        self._resolve, self._loaded = resolve, loaded
        self._launch: Launch | None = None
        self._arrays: list[Any] = []

    @property
    def state(self) -> State:
        """What is known so far."""
        assert self._state is not None, "TensorRT asks for shapes first"
        return self._state

    def get_capability_interface(self, type: Any) -> Any:
        """Core, build and runtime are one object."""
        return self

    def clone(self) -> Any:
        """A layer of the same state."""
        more: dict[str, Any] = {"resolve": self._resolve, "loaded": self._loaded}
        copy = type(self)(self._state, self._problems, **more)
        copy._launch = self._launch
        return copy

    def get_output_data_types(self, input_types: Sequence[Any]) -> list[Any]:
        """Y is of X's type."""
        return [input_types[0]]

    def get_output_shapes(self, inputs: Any, shape_inputs: Any, expr_builder: Any) -> list[Any]:
        """DimsExprs of Y; a standard node is resolved here, where shapes are first known."""
        if self._state is None:
            assert self._resolve is not None
            shapes = constant_sizes(inputs[0]), constant_sizes(inputs[1])
            self._state = self._resolve(*shapes, len(inputs))
        return [output_dims(self.trt, self.state.record, inputs[0], expr_builder)]

    def supports_format_combination(self, pos: int, in_out: Any, num_inputs: int) -> bool:
        """Whether the tensor at `pos` may lie so."""
        return _supports(self.trt, self.state, pos, [d.desc for d in in_out], num_inputs)

    def configure_plugin(self, inputs: Any, outputs: Any) -> None:
        """Keep the profile's sizes and the formats."""
        x, y = inputs[0], outputs[0]
        self._with_dtype(x.desc)
        try:
            self._state = self.state.configured(
                tuple(x.min),
                tuple(x.max),
                last_in=name_of(x.desc.format) != LINEAR,
                last_out=name_of(y.desc.format) != LINEAR,
            )
        except ConvtError as error:
            # TensorRT-RTX 1.7 ends the process where this raises: whoever builds must ask.
            self._problems.append(error)

    def get_valid_tactics(self) -> list[int]:
        """One a schedule."""
        count = len(self.state.schedules(device_capability() or ASSUMED_CAPABILITY))
        return list(range(1, count + 1))

    def set_tactic(self, tactic: int) -> None:
        """Take a schedule; an engine holds its own."""
        if not self._loaded:
            capability = device_capability() or ASSUMED_CAPABILITY
            self._state = self.state.with_tactic(tactic, capability)

    def get_workspace_size(self, inputs: Any, outputs: Any) -> int:
        """No workspace."""
        return 0

    def get_fields_to_serialize(self) -> Any:
        """What `creators` makes the layer of an engine from."""
        collection, self._arrays = make_fields(self.trt, self.state.values())
        return collection

    def attach_to_context(self, resource_context: Any) -> Any:
        """A layer for one execution context."""
        return self.clone()

    def on_shape_change(self, inputs: Any, outputs: Any) -> None:
        """Compile and load the kernel, compute its numbers."""
        x, y = inputs[0], outputs[0]
        self._with_dtype(x)
        state = replace(
            self.state,
            channels_last_in=name_of(x.format) != LINEAR,
            channels_last_out=name_of(y.format) != LINEAR,
        )
        capability = device_capability() or ASSUMED_CAPABILITY
        self._launch = state.prepared(tuple(x.dims), capability)

    def enqueue(
        self,
        input_desc: Any,
        output_desc: Any,
        inputs: Sequence[int],
        outputs: Sequence[int],
        workspace: int,
        stream: int,
    ) -> None:
        """Put the kernel on the stream."""
        if self._launch is None:
            self.on_shape_change(input_desc, output_desc)
        assert self._launch is not None
        names = self.state.kernel().operands
        pointers = dict(zip(names, inputs, strict=True)) | {"y": outputs[0]}
        launch(self._launch, pointers, stream)

    def _with_dtype(self, x: Any) -> None:
        """A standard ConvTranspose does not say its type before."""
        dtype = dtype_of(self.trt, x.type)
        if dtype is not None and dtype != self.state.record.dtype:
            record = replace(self.state.record, dtype=dtype)
            self._state = replace(self.state, record=record)


def _supports(trt: Any, state: State, pos: int, descs: Sequence[Any], inputs: int) -> bool:
    """Whether the tensor at `pos` may be as its description says, those before it being settled.

    x and y take any format, each on its own; a residual lies as y does; the rest is linear.
    """
    record, spec, desc = state.record, state.record.spec, descs[pos]
    dtype = dtype_of(trt, desc.type)
    if dtype is None or dtype != dtype_of(trt, descs[0].type):
        return False
    if dtype != record.dtype and not state.any_dtype:
        return False
    name = name_of(desc.format)
    last = state.kernel().operands.index("residual") if record.has_residual else None
    if pos not in (0, inputs, last):
        return name == LINEAR
    if pos == inputs and last is not None and name != name_of(descs[last].format):
        return False
    channels = spec.in_channels if pos == 0 else spec.out_channels
    return takes(name, rank=2 + spec.ndim, channels=channels, dtype=dtype)
