"""What a build is asked for, and what it tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from convt_onnx.decision import Decision
from convt_onnx.engine.check import LayerCheck
from convt_onnx.engine.config import Settings
from convt_onnx.engine.layers import Layer
from convt_onnx.engine.profiles import Profile
from convt_onnx.engine.proof import Proof
from convt_onnx.verify import Verification


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Everything that `build_engine` takes besides the files.

    Attributes:
        backend: "tensorrt", "tensorrt-rtx", or "auto" for what is installed.
        optimize: Whether to rewrite the ConvTranspose nodes first.
        verify: Whether to prove the rewritten model and the parsed network.
        profiles: Ranges for open inputs.
        settings: The builder's.
        plugin: Whether ConvTranspose nodes may become plugin layers, and of which kind: "off",
            "python" (the engine runs where this package is), "aot" (the engine holds the kernels),
            or "auto" for the better one that the backend has.
        override: Put the plugin in place of ConvTranspose while parsing; the model is parsed as
            it is.
        inputs: An .npz file to verify with.
        force: Whether to replace files that exist.
        echo: Called with each line of TensorRT's log.
    """

    backend: str = "auto"
    optimize: bool = True
    verify: bool = True
    plugin: str = "off"
    override: bool = False
    profiles: tuple[Profile, ...] = ()
    settings: Settings = field(default_factory=Settings)
    inputs: Path | None = None
    force: bool = False
    echo: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What was built.

    Attributes:
        source, engine: The files.
        backend: Title and version of the builder.
        target: What the model was optimised for.
        plugin: The kind of plugin, "off" where none may be used.
        decisions: What became of each ConvTranspose; empty where nothing was optimised.
        verification: Of the rewritten model; None where nothing was rewritten.
        layers: The network's layers.
        kinds: How many of each kind.
        checks: Each deconvolution against its node.
        proof: The network computed in NumPy against ONNX Runtime.
        profiles: The ranges that the engine takes.
        engine_layers: What the engine consists of, where an inspector runs: a device is needed.
        warnings: From TensorRT's log.
        bytes: Size of the engine.
        parse_seconds, build_seconds, seconds: Wall times; `seconds` is that of all.
    """

    source: Path
    engine: Path
    backend: str
    target: str
    plugin: str
    decisions: tuple[Decision, ...]
    verification: Verification | None
    layers: tuple[Layer, ...]
    kinds: Mapping[str, int]
    checks: tuple[LayerCheck, ...]
    proof: Proof
    profiles: tuple[Profile, ...]
    engine_layers: tuple[str, ...] | None
    warnings: tuple[str, ...]
    bytes: int
    parse_seconds: float
    build_seconds: float
    seconds: float
