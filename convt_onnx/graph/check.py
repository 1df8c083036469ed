"""onnx.checker on a model, without the bytes of its large tensors."""

from __future__ import annotations

import onnx

from convt_onnx.errors import VerificationError

LARGE_BYTES = 1 << 20


def require_well_formed(original: onnx.ModelProto, rewritten: onnx.ModelProto) -> None:
    """The rewritten model must keep its inputs and outputs, and pass onnx's checker.

    The latter only where the original does.

    Raises:
        VerificationError: It does not.
    """
    if _interface(original) != _interface(rewritten):
        raise VerificationError(
            "the rewritten model has other inputs or outputs",
            where=f"{_interface(original)} became {_interface(rewritten)}",
            help="please report this with the model; nothing was written",
        )
    problem = _problem(rewritten)
    if problem and not _problem(original):
        raise VerificationError(
            "the rewritten model is not well formed",
            where=problem,
            help="please report this with the model; nothing was written",
        )


def _interface(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    return [i.name for i in model.graph.input], [o.name for o in model.graph.output]


def _problem(model: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(_light(model))
    except onnx.checker.ValidationError as error:
        return " ".join(str(error).split())[:400]
    return ""


def _light(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with large and external initializers as inputs: the checker reads only types."""
    light = onnx.ModelProto(
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        functions=model.functions,
        producer_name=model.producer_name,
    )
    graph = light.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    known = {i.name for i in model.graph.input}
    for tensor in model.graph.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if not external and tensor.ByteSize() < LARGE_BYTES:
            graph.initializer.append(tensor)
        elif tensor.name not in known:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.input.append(info)
    return light
