"""Says what of the names that builds and runs use one binding wheel lacks; run as a script.

    python names_in_wheel.py WHEEL STUBS

The bindings are NVIDIA's; their libraries are stubs without any function behind their symbols.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

NAMES = """
Builder Builder.create_network Builder.create_builder_config Builder.create_optimization_profile
Builder.build_serialized_network Runtime Runtime.deserialize_cuda_engine ILogger
OnnxParser OnnxParser.parse_from_file OnnxParser.num_errors OnnxParser.get_error
OnnxParser.supports_operator OnnxParser.set_flag
ParserError.desc ParserError.node_name ParserError.node_operator
INetworkDefinition.num_layers INetworkDefinition.get_layer INetworkDefinition.num_inputs
INetworkDefinition.get_input INetworkDefinition.num_outputs INetworkDefinition.get_output
ILayer.type ILayer.name ILayer.metadata ILayer.num_inputs ILayer.get_input ILayer.get_output
ITensor.is_shape_tensor ITensor.shape ITensor.dtype ITensor.name
IDeconvolutionLayer.pre_padding IDeconvolutionLayer.post_padding IDeconvolutionLayer.padding_mode
IDeconvolutionLayer.stride_nd IDeconvolutionLayer.dilation_nd IDeconvolutionLayer.kernel_size_nd
IDeconvolutionLayer.num_groups IDeconvolutionLayer.num_output_maps IConvolutionLayer.pre_padding
IBuilderConfig.add_optimization_profile IBuilderConfig.profiling_verbosity
IBuilderConfig.set_memory_pool_limit IBuilderConfig.builder_optimization_level
IBuilderConfig.set_flag IBuilderConfig.hardware_compatibility_level
IBuilderConfig.create_timing_cache IBuilderConfig.set_timing_cache IBuilderConfig.get_timing_cache
IBuilderConfig.progress_monitor ITimingCache.serialize IProgressMonitor
IOptimizationProfile.set_shape IOptimizationProfile.set_shape_input
BuilderFlag.VERSION_COMPATIBLE MemoryPoolType.WORKSPACE ProfilingVerbosity.DETAILED
HardwareCompatibilityLevel.AMPERE_PLUS LayerInformationFormat.JSON
NetworkDefinitionCreationFlag.STRONGLY_TYPED TensorIOMode.INPUT TensorLocation.HOST
ICudaEngine.num_io_tensors ICudaEngine.get_tensor_name ICudaEngine.get_tensor_mode
ICudaEngine.get_tensor_dtype ICudaEngine.get_tensor_shape ICudaEngine.get_tensor_location
ICudaEngine.get_tensor_profile_shape ICudaEngine.num_optimization_profiles
ICudaEngine.create_execution_context ICudaEngine.create_engine_inspector
EngineInspector.get_engine_information
IExecutionContext.set_optimization_profile_async IExecutionContext.set_input_shape
IExecutionContext.set_tensor_address IExecutionContext.get_tensor_shape
IExecutionContext.execute_async_v3
""".split()


def missing(module) -> list[str]:
    """Names that a module does not have."""

    def has(dotted: str) -> bool:
        found = module
        for part in dotted.split("."):
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True

    return [name for name in NAMES if not has(name)]


def main(wheel: str, stubs: str) -> None:
    for library in sorted(Path(stubs).iterdir()):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    sys.path.insert(0, wheel)
    from convt_onnx.engine.backend import load_backend
    from convt_onnx.engine.network import parse
    from convt_onnx.errors import MissingPartError

    backend = load_backend("tensorrt")
    try:
        parse(backend, Path("absent.onnx"))
        refusal = None
    except MissingPartError as error:
        refusal = error.what
    strongly = int(backend.module.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    print(
        json.dumps(
            {
                "title": backend.title,
                "missing": missing(backend.module),
                "typed": bool(backend.network_flags() >> strongly & 1),
                "refusal": refusal,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
