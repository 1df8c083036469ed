"""Operations on single elements, by TensorRT's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_erf = np.vectorize(erf, otypes=[np.float64])


def _divide(a: Array, b: Array) -> Array:
    """Integers are truncated towards zero."""
    if np.issubdtype(a.dtype, np.integer):
        return np.asarray(np.trunc(a / b)).astype(a.dtype)
    return np.asarray(a / b)


BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "SUB": np.subtract,
    "DIV": _divide,
    "POW": np.power,
    "FLOOR_DIV": np.floor_divide,
    "AND": np.logical_and,
    "OR": np.logical_or,
    "XOR": np.logical_xor,
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "LESS": np.less,
}
UNARY: Mapping[str, Callable[[Array], Array]] = {
    "EXP": np.exp,
    "LOG": np.log,
    "SQRT": np.sqrt,
    "RECIP": np.reciprocal,
    "ABS": np.abs,
    "NEG": np.negative,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "SINH": np.sinh,
    "COSH": np.cosh,
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "ASINH": np.arcsinh,
    "ACOSH": np.arccosh,
    "ATANH": np.arctanh,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "ERF": _erf,
    "NOT": np.logical_not,
    "SIGN": np.sign,
    "ROUND": np.rint,
    "ISINF": np.isinf,
    "ISNAN": np.isnan,
}
REDUCTIONS: Mapping[str, Callable[..., Array]] = {
    "SUM": np.sum,
    "PROD": np.prod,
    "MAX": np.max,
    "MIN": np.min,
    "AVG": np.mean,
}


def _gelu_erf(x: Array, alpha: float, beta: float) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / np.sqrt(2))))


def _gelu_tanh(x: Array, alpha: float, beta: float) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


# Functions of the element, alpha and beta.
ACTIVATIONS: Mapping[str, Callable[[Array, float, float], Array]] = {
    "RELU": lambda x, a, b: np.maximum(x, 0),
    "SIGMOID": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "TANH": lambda x, a, b: np.tanh(x),
    "LEAKY_RELU": lambda x, a, b: np.where(x >= 0, x, a * x),
    "ELU": lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x)),
    "SELU": lambda x, a, b: b * np.where(x >= 0, x, a * np.expm1(x)),
    "SOFTSIGN": lambda x, a, b: x / (1 + np.abs(x)),
    "SOFTPLUS": lambda x, a, b: a * np.log1p(np.exp(b * x)),
    "CLIP": lambda x, a, b: np.clip(x, a, b),
    "HARD_SIGMOID": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "SCALED_TANH": lambda x, a, b: a * np.tanh(b * x),
    "THRESHOLDED_RELU": lambda x, a, b: np.where(x > a, x, 0),
    "GELU_ERF": _gelu_erf,
    "GELU_TANH": _gelu_tanh,
}
