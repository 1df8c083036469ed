"""One plugin node: everything its attributes say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from convt_onnx.errors import ConvtError, UsageError
from convt_onnx.plugins.conv_transpose.activations import ACTIVATIONS, Activation
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.packing import Packing
from convt_onnx.plugins.conv_transpose.problem import DTYPE_BYTES
from convt_onnx.plugins.conv_transpose.schedule import GEMM, Schedule, packing_of
from convt_onnx.plugins.conv_transpose.schedule_text import format_schedule, parse_schedule
from convt_onnx.spec import ConvTransposeSpec

DOMAIN = "convt_onnx"
# The form that writes such nodes.
FORM = "plugin"
# Functions came with version 8 of the format, their overloads with version 10.
FUNCTION_IR_VERSION, OVERLOAD_IR_VERSION = 8, 10
# How a target tells nodes apart. HASHED: an operator type for each set of attributes, since
# TensorRT takes functions by name alone. OVERLOAD: one type, since a custom-op library registers
# fixed names; ONNX Runtime tells functions apart by their overload.
HASHED, OVERLOAD = "hashed", "overload"
PREFIX = "ConvT_"
FIXED_NAME = "FusedConvTranspose"
AttributeValue = int | float | str | list[int]


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """Y = activation(conv_transpose(X, W) + B + R) as one node.

    Inputs are X [N, C_in, *sizes], W, B [C_out] where `has_bias`, S [C_out] where the activation
    is prelu, R of Y's shape where `has_residual`; all of `dtype`. W is packed by `packing`, or
    [C_in, C_out/group, *kernel] where that is None.
    """

    spec: ConvTransposeSpec
    dtype: str
    has_bias: bool
    has_residual: bool
    activation: Activation
    schedule: Schedule

    @property
    def packing(self) -> Packing | None:
        """How W is packed; None where the kernel reads it as it is."""
        if self.schedule.kind != GEMM:
            return None
        return packing_of(self.kernel().problem, self.schedule)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs in order."""
        names = ["X", "W"] + (["B"] if self.has_bias else [])
        names += ["S"] if self.activation.kind == "prelu" else []
        return (*names, *(["R"] if self.has_residual else []))

    @property
    def digest(self) -> str:
        """12 hexadecimal digits of the attributes and the type."""
        text = json.dumps([self.dtype, self.attributes()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def identity(self, naming: str) -> tuple[str, str]:
        """Operator type and overload, for HASHED or OVERLOAD."""
        return (PREFIX + self.digest, "") if naming == HASHED else (FIXED_NAME, self.digest)

    def attributes(self) -> dict[str, AttributeValue]:
        """Every attribute, written out."""
        spec = self.spec
        return {
            "group": spec.group,
            "kernel_shape": list(spec.kernel),
            "strides": list(spec.strides),
            "dilations": list(spec.dilations),
            "pads": [*spec.pads_begin, *spec.pads_end],
            "output_padding": list(spec.output_padding),
            "in_channels": spec.in_channels,
            "out_channels": spec.out_channels,
            "has_bias": int(self.has_bias),
            "has_residual": int(self.has_residual),
            "activation": self.activation.kind,
            "alpha": float(np.float32(self.activation.alpha)),  # as ONNX keeps it
            "beta": float(np.float32(self.activation.beta)),
            "packed": int(self.packing is not None),
            "schedule": format_schedule(self.schedule),
        }

    def kernel(
        self,
        sizes: tuple[int | None, ...] | None = None,
        *,
        channels_last_in: bool = False,
        channels_last_out: bool = False,
        tf32: bool = False,
        wide: bool = False,
    ) -> KernelSpec:
        """What to compile; `sizes` are [N, *spatial], all open by default."""
        return KernelSpec(
            self.spec,
            self.dtype,
            (None,) * (1 + self.spec.ndim) if sizes is None else sizes,
            channels_last_in,
            channels_last_out,
            tf32,
            self.has_bias,
            self.has_residual,
            self.activation,
            wide,
        )


def read_record(attributes: Mapping[str, Any], dtype: str) -> PluginRecord:
    """The record of a node's attributes; those that it does not know are not looked at.

    Raises:
        UsageError: One is missing, of another type or makes no sense.
    """
    if dtype not in DTYPE_BYTES:
        raise UsageError(
            "the plugin does not compute in this type",
            where=f"X is {dtype}",
            help="use " + ", ".join(DTYPE_BYTES),
        )
    try:
        record = PluginRecord(
            _spec(attributes),
            dtype,
            bool(_int(attributes, "has_bias")),
            bool(_int(attributes, "has_residual")),
            _activation(attributes),
            parse_schedule(_text(attributes, "schedule")),
        )
        if _int(attributes, "packed") != (record.schedule.kind == GEMM):
            raise ValueError("packed and schedule disagree")
    except (KeyError, TypeError, ValueError, ConvtError) as error:
        why = f"no attribute {error}" if isinstance(error, KeyError) else str(error).split("\n")[0]
        raise UsageError(
            "this is no node of the plugin",
            where=why,
            help="write it anew: convt-onnx optimize MODEL --plugin",
        ) from None
    return record


def _spec(attributes: Mapping[str, Any]) -> ConvTransposeSpec:
    kernel = _ints(attributes, "kernel_shape")
    pads = _ints(attributes, "pads")
    return ConvTransposeSpec(
        _int(attributes, "in_channels"),
        _int(attributes, "out_channels"),
        _int(attributes, "group"),
        kernel,
        _ints(attributes, "strides"),
        _ints(attributes, "dilations"),
        pads[: len(kernel)],
        pads[len(kernel) :],
        _ints(attributes, "output_padding"),
    )


def _activation(attributes: Mapping[str, Any]) -> Activation:
    kind = _text(attributes, "activation")
    alpha, beta = (float(attributes[name]) for name in ("alpha", "beta"))
    if kind not in ACTIVATIONS or isnan(alpha) or isnan(beta):
        raise ValueError(f"activation = {kind!r}, alpha = {alpha}, beta = {beta}")
    return Activation(kind, alpha, beta)


def _int(attributes: Mapping[str, Any], name: str) -> int:
    return int(attributes[name])


def _ints(attributes: Mapping[str, Any], name: str) -> tuple[int, ...]:
    return tuple(int(v) for v in attributes[name])


def _text(attributes: Mapping[str, Any], name: str) -> str:
    value = attributes[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value
