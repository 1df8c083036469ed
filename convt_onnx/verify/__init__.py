"""Proof that a rewritten model computes what the original computes."""

from convt_onnx.verify.compare import Comparison, Tolerance
from convt_onnx.verify.nodes import NodeCheck
from convt_onnx.verify.session import Source
from convt_onnx.verify.verification import Verification, VerifyOptions, verify

__all__ = [
    "Comparison",
    "NodeCheck",
    "Source",
    "Tolerance",
    "Verification",
    "VerifyOptions",
    "verify",
]
