"""From an ONNX file to a network definition."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convt_onnx.engine.backend import Backend
from convt_onnx.engine.log import cause, make_log
from convt_onnx.engine.plugins import problem
from convt_onnx.errors import MissingPartError, ModelError, UsageError


@dataclass(frozen=True, slots=True)
class Network:
    """A parsed model. The parser owns the weights, so it lives as long as the definition.

    Attributes:
        backend: Who parsed it.
        definition: The backend's INetworkDefinition.
        builder, parser, log: What belongs to it.
        keep: What else must not be collected before the engine is built: plugin creators.
        override: Whether plugins go before the parser's own operators of the same name.
    """

    backend: Backend
    definition: Any
    builder: Any
    parser: Any
    log: Any
    keep: Any = None
    override: bool = False

    @property
    def inputs(self) -> list[Any]:
        """Input tensors."""
        return [self.definition.get_input(i) for i in range(self.definition.num_inputs)]

    @property
    def outputs(self) -> list[Any]:
        """Output tensors."""
        return [self.definition.get_output(i) for i in range(self.definition.num_outputs)]


def parse(
    backend: Backend,
    path: Path,
    *,
    override: bool = False,
    aot: bool = False,
    keep: Any = None,
    echo: Any = None,
) -> Network:
    """Read an ONNX file, with its external data, as a network.

    Args:
        backend: Whose parser.
        path: The file.
        override: Whether plugins go before the parser's own operators of the same name.
        aot: Whether plugins that exist in both kinds are taken ahead of time.
        keep: Registered creators.
        echo: Called with each message of the log.

    Raises:
        MissingPartError: The builder does not start here.
        UsageError: This version has no override.
        ModelError: The parser refuses the model; `where` names the node.
    """
    log = make_log(backend, echo)
    builder = _builder(backend, log)
    definition = builder.create_network(backend.network_flags(aot=aot))
    parser = backend.module.OnnxParser(definition, log)
    if override:
        _put_plugins_first(backend, parser)
    if not parser.parse_from_file(str(path)):
        raise problem(keep) or _refusal(backend, parser, log)
    return Network(backend, definition, builder, parser, log, keep, override)


def _builder(backend: Backend, log: Any) -> Any:
    try:
        return backend.module.Builder(log)
    except (RuntimeError, TypeError) as error:
        raise MissingPartError(
            f"{backend.title} cannot build here",
            where=cause(log) or str(error),
            help="TensorRT builds on a machine with a GPU; TensorRT-RTX builds on any",
        ) from error


def _put_plugins_first(backend: Backend, parser: Any) -> None:
    flag = getattr(backend.module.OnnxParserFlag, "ENABLE_PLUGIN_OVERRIDE", None)
    if flag is None:
        raise UsageError(
            f"{backend.title} cannot put a plugin in a standard operator's place",
            where="--override",
            help="TensorRT 10.15 and TensorRT-RTX can; or leave --override out",
        )
    parser.set_flag(flag)


def reparse(network: Network, path: Path) -> Network:
    """Read another file as the network was read, with the same plugins."""
    return parse(network.backend, path, override=network.override, keep=network.keep)


def _refusal(backend: Backend, parser: Any, log: Any) -> ModelError:
    error = parser.get_error(0) if parser.num_errors else None
    if error is None:
        return ModelError(
            f"{backend.title} does not read the model",
            where=cause(log),
            help="-v shows its log; convt-onnx inspect --target " + backend.target,
        )
    op, name = error.node_operator(), error.node_name()
    node = f"node {name!r} ({op})" if op else "the model's inputs, outputs or weights"
    text = " ".join(error.desc().split())
    if op and not parser.supports_operator(op):
        what, help = f"{backend.title} has no operator {op}", "replace that node"
    else:
        what = f"{backend.title} refuses the model"
        help = "export that part another way; -v shows what the parser says"
        if op == "ConvTranspose":
            help = "convt-onnx inspect --target " + backend.target
    return ModelError(what, where=f"{node}: {text[:300]}", help=help)
