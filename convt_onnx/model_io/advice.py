"""Help lines that several checks of a file share."""

from __future__ import annotations

EXPORT_AGAIN = "onnx.checker.check_model tells more; export the model again"
DAMAGED = "the file is damaged; export or download it again"
