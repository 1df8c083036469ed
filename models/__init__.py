"""Decoders and upsamplers that export themselves to ONNX."""

if __name__ != "convt_onnx.models":
    raise ImportError("import convt_onnx.models: this folder is a part of that package")
