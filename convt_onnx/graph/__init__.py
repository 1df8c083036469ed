"""Reading ConvTranspose nodes from an onnx-ir graph, and writing the nodes that replace them."""
