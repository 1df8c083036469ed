"""Models in ONNX Runtime: the custom-op library, sessions, proof of where nodes ran."""
