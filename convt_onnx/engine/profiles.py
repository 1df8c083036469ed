"""Ranges of sizes that an engine with open inputs is built for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from convt_onnx.engine.network import Network
from convt_onnx.errors import ModelError, UsageError
from convt_onnx.suggest import did_you_mean

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Smallest, usual and largest shape of one input; for a shape input, its values."""

    min: Shape
    opt: Shape
    max: Shape

    def holds(self, shape: Sequence[int]) -> bool:
        """Whether a shape lies inside."""
        return len(shape) == len(self.min) and all(
            a <= n <= b for a, n, b in zip(self.min, shape, self.max, strict=True)
        )


Profile = Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Input:
    """An input as profiles see it: -1 for an open size; `values` where it holds a shape."""

    name: str
    dims: tuple[int, ...]
    values: bool

    @property
    def open(self) -> bool:
        """Whether it needs a range."""
        return self.values or -1 in self.dims


TYPES = frozenset(
    """FLOAT FLOAT16 BFLOAT16 DOUBLE FLOAT8E4M3FN FLOAT4E2M1 INT4 INT8 INT32 INT64 UINT8
    BOOL""".split()
)


def model_inputs(proto: onnx.ModelProto) -> dict[str, Input]:
    """Inputs of a model. TensorRT decides which integers hold a shape; here all short ones do.

    Raises:
        ModelError: An input has a type that TensorRT does not have.
    """
    constants = {t.name for t in proto.graph.initializer}
    found = {}
    for value in proto.graph.input:
        kind = value.type.tensor_type
        dims = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
        integers = kind.elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
        name = onnx.TensorProto.DataType.Name(kind.elem_type)
        if value.name not in constants:
            if name not in TYPES:
                raise ModelError(
                    f"TensorRT has no inputs of type {name.lower()}",
                    where=f"input {value.name!r}",
                    help="cast it outside of the model, from a type that TensorRT has",
                )
            found[value.name] = Input(value.name, dims, integers and len(dims) < 2)
    return found


def network_inputs(network: Network) -> dict[str, Input]:
    """Inputs of a parsed network."""
    return {t.name: Input(t.name, tuple(t.shape), bool(t.is_shape_tensor)) for t in network.inputs}


def read_profiles(
    mins: Sequence[tuple[str, Shape]],
    opts: Sequence[tuple[str, Shape]],
    maxs: Sequence[tuple[str, Shape]],
) -> tuple[Profile, ...]:
    """Profiles from --min, --opt and --max; an input's second mention is for the second profile.

    What is not given is taken from what is: max and min from opt, opt from max.

    Raises:
        UsageError: A range has one end alone or is empty, or its shapes have different ranks.
    """
    given: list[dict[str, dict[str, Shape]]] = []
    for option, pairs in (("min", mins), ("opt", opts), ("max", maxs)):
        seen: dict[str, int] = {}
        for name, shape in pairs:
            number = seen.get(name, 0)
            seen[name] = number + 1
            while len(given) <= number:
                given.append({})
            given[number].setdefault(name, {})[option] = shape
    return tuple({name: _range(name, g) for name, g in profile.items()} for profile in given)


def _range(name: str, given: Mapping[str, Shape]) -> Range:
    if "opt" not in given and len(given) == 1:
        ((option, shape),) = given.items()
        other = "max" if option == "min" else "min"
        raise UsageError(
            f"the range of input {name!r} has one end alone",
            where=f"--{option} {name}:{shape_text(shape)}",
            help=f"--{other} {name}:… for the other end, or --opt alone for an engine of one size",
        )
    opt = given.get("opt") or given["max"]
    low, high = given.get("min", opt), given.get("max", opt)
    where = f"--min {shape_text(low)} --opt {shape_text(opt)} --max {shape_text(high)}"
    if not len(low) == len(opt) == len(high):
        raise UsageError(
            f"the ranges of input {name!r} have different ranks",
            where=where,
            help="each needs one size an axis",
        )
    if any(not a <= b <= c for a, b, c in zip(low, opt, high, strict=True)):
        raise UsageError(
            f"the range of input {name!r} is empty",
            where=where,
            help="on every axis min <= opt <= max",
        )
    return Range(low, opt, high)


def check_profiles(inputs: Mapping[str, Input], profiles: Sequence[Profile]) -> None:
    """Check that every range is for an input that there is, and fits it.

    Raises:
        UsageError: It does not; `where` names the option.
    """
    for profile in profiles:
        for name, wanted in profile.items():
            if name not in inputs:
                raise UsageError(
                    f"no input {name!r}",
                    where="--min, --opt or --max",
                    help=did_you_mean(name, inputs),
                )
            _check_fit(inputs[name], wanted)


def complete(inputs: Mapping[str, Input], profiles: Sequence[Profile]) -> tuple[Profile, ...]:
    """The profiles with the inputs that need one alone.

    Raises:
        UsageError: A range does not fit, or an open input has none.
    """
    check_profiles(inputs, profiles)
    open_inputs = [i for i in inputs.values() if i.open]
    for profile in profiles or ({},):
        for x in open_inputs:
            if x.name not in profile:
                raise _no_range(x)
    if not open_inputs:
        return ()
    return tuple({x.name: p[x.name] for x in open_inputs} for p in profiles)


def _no_range(x: Input) -> UsageError:
    dims = ",".join("?" if d < 0 else str(d) for d in x.dims)
    example = ",".join("1" if d < 0 else str(d) for d in x.dims)
    what = "values" if x.values else "sizes"
    return UsageError(
        f"input {x.name!r} has open {what}, so the engine needs a range for it",
        where=f"{x.name}:{dims}",
        help=f"--min {x.name}:{example} --opt {x.name}:… --max {x.name}:…",
    )


def _check_fit(x: Input, wanted: Range) -> None:
    dims = (-1,) * (x.dims[0] if x.dims else 1) if x.values else x.dims
    for option, shape in (("min", wanted.min), ("opt", wanted.opt), ("max", wanted.max)):
        fits = len(shape) == len(dims) and all(
            d in (-1, n) for d, n in zip(dims, shape, strict=True)
        )
        if not fits:
            shown = ",".join("?" if d < 0 else str(d) for d in dims)
            raise UsageError(
                f"the range of input {x.name!r} does not fit",
                where=f"--{option} {x.name}:{shape_text(shape)}, the model has {shown}",
                help="sizes that the model fixes must be given as they are",
            )


def add_profiles(network: Network, config: Any, profiles: Sequence[Profile]) -> None:
    """Give the complete profiles to a builder configuration.

    Raises:
        UsageError: TensorRT does not take one.
    """
    inputs = network_inputs(network)
    for profile in profiles:
        made = network.builder.create_optimization_profile()
        for name, r in profile.items():
            if inputs[name].values:
                made.set_shape_input(name, r.min, r.opt, r.max)
            else:
                made.set_shape(name, r.min, r.opt, r.max)
        if config.add_optimization_profile(made) < 0:
            raise UsageError(
                f"{network.backend.title} does not take the profile",
                where=", ".join(f"{n}:{shape_text(r.opt)}" for n, r in profile.items()),
                help="-v shows why",
            )


def shape_text(shape: Shape) -> str:
    """As the command line takes it."""
    return ",".join(map(str, shape))
