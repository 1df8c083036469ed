"""The kernels as layers of TensorRT and TensorRT-RTX.

`registering` has the doors: creators for the plugin nodes of a model, one for engines that are
loaded, and one under the standard operator's name for models that must not be changed. `layer` is
the plugin (IPluginV3) for either runtime, `aot` the plugin whose PTX the engine holds, for
TensorRT 10.9 and later. Importing this package imports neither runtime, nor CUDA, nor triton.
"""
