"""Creators: one an operator type, one for engines, one in the place of the standard operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from convt_onnx.errors import ConvtError, UsageError
from convt_onnx.padding import Attributes, UnknownSizeError, resolve
from convt_onnx.plugin_node import DOMAIN, FIXED_NAME, PluginRecord
from convt_onnx.plugins.conv_transpose import heuristics
from convt_onnx.plugins.conv_transpose.activations import NONE
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.tensorrt.fields import named_fields, read_fields
from convt_onnx.plugins.tensorrt.layer import VERSION, layer_class
from convt_onnx.plugins.tensorrt.state import State, read_state, record_of_node
from convt_onnx.spec import ConvTransposeSpec

STANDARD_NAME = "ConvTranspose"
STANDARD_FIELDS = (
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "output_padding",
    "output_shape",
    "pads",
    "strides",
)
NODE_FIELDS = (
    *("group", "kernel_shape", "strides", "dilations", "pads", "output_padding"),
    *("in_channels", "out_channels", "has_bias", "has_residual", "activation"),
    *("alpha", "beta", "packed", "schedule"),
)
STATE_FIELDS = (*NODE_FIELDS, "dtype", "tf32", "sizes", "channels_last", "tile")
Shape = tuple[int | None, ...]


@lru_cache(maxsize=4)
def creator_class(trt: Any) -> type[Creator]:
    """The creator class for a module: tensorrt or tensorrt_rtx."""
    base = trt.IPluginCreatorV3One
    members = {"trt": trt, "initialise": base.__init__}
    return type("ConvTransposeCreator", (Creator, base), members)


class Creator:
    """Makes layers of one operator type; `problems` collects why one could not be made.

    What TensorRT calls, without its base class, which `creator_class` adds.
    """

    trt: Any
    initialise: Callable[[], None]

    def __init__(self, name: str, namespace: str, tf32: bool) -> None:
        self.initialise()
        self.name, self.plugin_namespace, self.plugin_version = name, namespace, VERSION
        fields = {FIXED_NAME: STATE_FIELDS, STANDARD_NAME: STANDARD_FIELDS}
        self.field_names = named_fields(self.trt, fields.get(name, NODE_FIELDS))
        self.tf32 = tf32
        self.problems: list[ConvtError] = []

    def create_plugin(self, name: str, field_collection: Any, phase: Any) -> Any:
        """A layer, or None where the fields make no sense."""
        try:
            return self._created(read_fields(self.trt, field_collection))
        except ConvtError as error:
            self.problems.append(error)
            return None

    def _created(self, values: dict[str, Any]) -> Any:
        make = layer_class(self.trt)
        if self.name == FIXED_NAME:
            return make(read_state(values), self.problems, loaded=True)
        if self.name == STANDARD_NAME:
            resolve = _standard(values, self.tf32, self.problems)
            return make(None, self.problems, resolve=resolve)
        return make(State(record_of_node(self.name, values), self.tf32), self.problems)


def _standard(values: dict[str, Any], tf32: bool, problems: list[ConvtError]) -> Any:
    """Resolves a standard ConvTranspose, whose weight is read as it is, once shapes are known."""

    def resolved(x: Shape, w: Shape, inputs: int) -> State:
        try:
            return State(standard_record(values, x, w, inputs), tf32, any_dtype=True)
        except ConvtError as error:
            problems.append(error)
            raise

    return resolved


def standard_record(values: dict[str, Any], x: Shape, w: Shape, inputs: int) -> PluginRecord:
    """The record of a ConvTranspose with these attributes; its type is a placeholder.

    Raises:
        GeometryError, UsageError: It is invalid, or its pads depend on open sizes.
    """
    weight = tuple(n for n in w if n is not None)
    if len(weight) != len(w):
        raise UsageError(
            "the plugin needs a weight of known shape",
            where=f"the weight is {list(w)}",
            help="export the model with static weight shapes, or build without the override",
        )
    lists = {n: tuple(v) for n, v in values.items() if isinstance(v, list)}
    attributes = Attributes(
        **lists,
        auto_pad=str(values.get("auto_pad", "")) or "NOTSET",
        group=int(values.get("group", 1)),
    )
    try:
        spec = resolve(attributes, weight, x[2:], in_channels=x[1])
    except UnknownSizeError:
        raise UsageError(
            "the pads depend on sizes that the model leaves open",
            where=f"output_shape = {list(attributes.output_shape or ())}",
            help="give the input static sizes, or optimize the model instead of --override",
        ) from None
    return _direct_record(spec.canonical(), has_bias=inputs > 2)


def _direct_record(spec: ConvTransposeSpec, *, has_bias: bool) -> PluginRecord:
    kernel = KernelSpec(spec, "float32", (None,) * (1 + spec.ndim))
    schedule = heuristics.direct_schedule(kernel.problem)
    return PluginRecord(spec, "float32", has_bias, False, NONE, schedule)


# The registry holds bare pointers: a creator must outlive whatever may look it up.
_alive: list[Any] = []
_registered: dict[tuple[str, str, str], Any] = {}


def register(trt: Any, name: str, namespace: str = DOMAIN, *, tf32: bool = False) -> Any:
    """Register a creator, in the place of one of that name, and return it.

    Raises:
        UsageError: TensorRT does not take it.
    """
    key = trt.__name__, name, namespace
    if key in _registered:
        unregister(trt, _registered[key])
    creator = creator_class(trt)(name, namespace, tf32)
    _alive.append(creator)
    registry = trt.get_plugin_registry()
    taken = registry.register_creator(creator, namespace)
    if not taken:  # somebody else's may be there
        other = registry.get_creator(name, VERSION, namespace)
        taken = (
            other is not None
            and registry.deregister_creator(other)
            and registry.register_creator(creator, namespace)
        )
    if not taken:
        raise UsageError(
            "TensorRT does not take the plugin's creator",
            where=name,
            help="TensorRT's log tells why; the plugin needs TensorRT 10.0 or later",
        )
    _registered[key] = creator
    return creator


def unregister(trt: Any, creator: Any) -> None:
    """Take out a creator that was registered here, unless another one has its place since.

    It is not looked up: the registry follows the pointers of everybody's creators to find a name.
    """
    key = trt.__name__, creator.name, creator.plugin_namespace
    if _registered.get(key) is creator:
        del _registered[key]
        trt.get_plugin_registry().deregister_creator(creator)
