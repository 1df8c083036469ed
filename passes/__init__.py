"""Graph passes over an onnx-ir model, one a file; `convt_onnx.pipeline` lists their order."""

if __name__ != "convt_onnx.passes":
    raise ImportError("import convt_onnx.passes: this folder is a part of that package")
