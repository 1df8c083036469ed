"""The plugin node in ONNX Runtime: a custom-op library in C, and what builds it.

`c/` holds the library: RegisterCustomOps, a kernel of convt_onnx::FusedConvTranspose for the CUDA
provider, which launches kernels that were compiled ahead of time through the CUDA driver, and one
for the CPU provider. `build` compiles it with the system's C compiler; `wanted` says which kernels
a model needs, `kernel_file` writes them down, `store` keeps them in the user's cache folder.
"""
