"""Parse or build a model and compute what its network means."""

from __future__ import annotations

import numpy as np
import onnx

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.engine.check import check_layers, read_nodes
from convt_onnx.engine.layers import layers
from convt_onnx.engine.network import parse
from convt_onnx.engine.simulate import simulate

from ..graph.building import write
from ..verify.judging import assert_close, run


def problems(backend, path):
    """What the checker says about each deconvolution of a file."""
    found = check_layers(layers(parse(backend, path)), read_nodes(path))
    return [problem for check in found for problem in check.problems]


def means(backend, path, feeds):
    """Outputs of the parsed network."""
    return simulate(parse(backend, path), feeds)


def builds(backend, path, shapes=None):
    """Whether an engine can be built; open inputs get the shapes given."""
    network = parse(backend, path)
    config = network.builder.create_builder_config()
    if shapes:
        profile = network.builder.create_optimization_profile()
        for name, shape in shapes.items():
            profile.set_shape(name, shape, shape, shape)
        config.add_optimization_profile(profile)
    return network.builder.build_serialized_network(network.definition, config) is not None


def optimised(proto, folder, target="tensorrt-rtx", **options):
    """Path and result of a model that was optimised for a target, with verification."""
    source = write(proto, folder, "source.onnx")
    out = folder / "optimised.onnx"
    result = optimize(source, out, OptimizeOptions(target=target, force=True, **options))
    assert result.verification is None or result.verification.ok
    return out, result


def assert_means(backend, path, proto, feeds, tolerance=1e-5):
    """The network of a file computes what ONNX Runtime computes for a model."""
    got = means(backend, path, feeds)
    wanted = run(proto, feeds)
    assert_close({k: np.asarray(v, np.float64) for k, v in got.items()}, wanted, tolerance)


def node_types(path):
    return [n.op_type for n in onnx.load(path).graph.node]
