"""Device code: the residual, and activations on float32 values, named as in `activations`."""

# ruff: noqa: ANN001, ANN202 - values of the device; a compile-time if is an if
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _tanh(v):
    # Near zero the quotient of exponentials loses its digits; a polynomial (Cephes) keeps them.
    z = v * v
    p = -5.70498872745e-3 * z + 2.06390887954e-2
    p = p * z - 5.37397155531e-2
    p = p * z + 1.33314422036e-1
    p = p * z - 3.33332819422e-1
    t = tl.exp(-2.0 * tl.abs(v))
    big = (1.0 - t) / (1.0 + t)
    return tl.where(tl.abs(v) < 0.625, v + v * z * p, tl.where(v < 0, -big, big))


@triton.jit
def activate(v, slope, KIND: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr):
    """Activation `KIND` of float32 `v`; `slope` is the PRelu slope, broadcast to `v`."""
    if KIND == "relu":
        v = tl.maximum(v, 0.0, propagate_nan=tl.PropagateNan.ALL)
    elif KIND == "leaky_relu":
        v = tl.where(v < 0, v * ALPHA, v)
    elif KIND == "prelu":
        v = tl.where(v < 0, v * slope, v)
    elif KIND == "elu":
        v = tl.where(v < 0, ALPHA * (tl.exp(v) - 1.0), v)
    elif KIND == "sigmoid":
        v = 1.0 / (1.0 + tl.exp(-v))
    elif KIND == "tanh":
        v = _tanh(v)
    elif KIND == "silu":
        v = v / (1.0 + tl.exp(-v))
    elif KIND == "gelu":
        v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    elif KIND == "gelu_tanh":
        # 0.5 * (1 + tanh(u)) is the sigmoid of 2 * u, which loses no digits where u is negative.
        v = v / (1.0 + tl.exp(-1.5957691216057308 * (v + 0.044715 * v * v * v)))
    elif KIND == "clip":
        v = tl.where(v < ALPHA, ALPHA, tl.where(v > BETA, BETA, v))
    return v


@triton.jit
def read_residual(pointer, mask, STREAM: tl.constexpr):
    """The residual where y is stored; read once, it leaves the cache first where y does."""
    if STREAM:
        found = tl.load(pointer, mask=mask, other=0, eviction_policy="evict_first")
    else:
        found = tl.load(pointer, mask=mask, other=0)
    return found
