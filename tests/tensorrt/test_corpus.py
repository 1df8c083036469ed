"""Every model of the shared corpus and cases with plugin nodes, verified and built."""

from __future__ import annotations

import zlib

import onnx
import pytest

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.engine.network import parse
from convt_onnx.plugins.tensorrt.registering import register_nodes
from convt_onnx.tuning.options import TuneOptions
from convt_onnx.verify import VerifyOptions

from ..engine.shared_models import IMPOSSIBLE, SLOW, profile
from ..plugin_node.plugging import plugin_nodes
from ..shared_models import INVALID, MODELS, inputs_beside, label

# One model in this many is built for every change.
SPREAD = 12

pytestmark = pytest.mark.skipif(not MODELS, reason="the shared corpus is not beside the checkout")


def parameters():
    """The models that ONNX Runtime and TensorRT can take at all."""
    paths = [p.values[0] for p in MODELS]
    paths = [p for p in paths if p.stem not in IMPOSSIBLE and not p.parent.name.startswith(INVALID)]
    return [
        pytest.param(p, marks=[pytest.mark.long] if is_long(p) else [], id=label(p)) for p in paths
    ]


def is_long(path) -> bool:
    return path.stem in SLOW or bool(zlib.crc32(str(label(path)).encode()) % SPREAD)


@pytest.mark.parametrize("path", parameters())
def test_it_builds_with_plugin_nodes(rtx, path, tmp_path):
    ranges = profile(path)
    shapes = {} if inputs_beside(path) else {n: r.opt for n, r in ranges.items()}
    options = OptimizeOptions(
        target="tensorrt-rtx",
        plugin=True,
        checks=VerifyOptions(inputs_beside(path), shapes),
        tune=TuneOptions(enabled=False),
    )
    result = optimize(path, tmp_path / "plugged.onnx", options)
    assert result.verification is None or result.verification.ok
    forms = [d.form for d in result.decisions]
    proto = onnx.load(result.output, load_external_data=False)
    assert len(plugin_nodes(proto)) == forms.count("plugin")
    creators = register_nodes(rtx.module, result.output)
    try:
        network = parse(rtx, result.output, keep=creators)
        assert not creators.problems
        definition = network.definition
        kinds = [definition.get_layer(i).type.name for i in range(definition.num_layers)]
        in_main = sum(n.domain == "convt_onnx" for n in proto.graph.node)
        assert kinds.count("PLUGIN_V3") >= in_main
        config = network.builder.create_builder_config()
        add_profile(network, config, ranges)
        assert network.builder.build_serialized_network(definition, config) is not None
    finally:
        creators.close()


def add_profile(network, config, ranges) -> None:
    if ranges:
        made = network.builder.create_optimization_profile()
        for name, r in ranges.items():
            made.set_shape(name, r.min, r.opt, r.max)
        config.add_optimization_profile(made)
