"""CT481 to CT489: no activation or residual was recognised behind a ConvTranspose."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT481",
        "no activation or residual behind the node",
        "Relu, LeakyRelu, PRelu, Elu, Sigmoid, Tanh, Silu, Gelu, Clip and an Add of a tensor of "
        "the same shape are recognised, also as the chains that exporters write.",
    ),
    Reason(
        "CT482",
        "the output has several readers",
        "They do not make up one activation, so the output itself must be written.",
    ),
    Reason(
        "CT483",
        "the output is an output of the graph",
        "Its values before any activation are a result of the model, function or subgraph.",
    ),
    Reason(
        "CT484",
        "the activation's parameters are not constant",
        "A slope or a bound is known at run time only, or is not one value a channel.",
    ),
    Reason(
        "CT485",
        "the summand's shape differs or is not known",
        "A residual is a tensor of exactly the output's shape; broadcasting is not one.",
    ),
)
