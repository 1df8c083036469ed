"""The GPU kernel and its hosts."""

if __name__ != "convt_onnx.plugins":
    raise ImportError("import convt_onnx.plugins: this folder is a part of that package")
