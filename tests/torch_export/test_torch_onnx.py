"""torch models exported with plugin nodes, judged by ONNX Runtime on the CPU through the bodies."""

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("torch", reason="the models are torch's")
pytest.importorskip("onnxscript", reason="torch exports through it")

import torch
from torch import nn

import convt_onnx
from convt_onnx.errors import UsageError
from convt_onnx.plugins import torch_op
from convt_onnx.plugins.torch_onnx import export


class Net(nn.Module):
    """Modules, a fused call, a weight that two calls share and one computed in the graph."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.up = nn.ConvTranspose2d(16, 24, 3, 2, 1, output_padding=1, groups=2)
        self.weight = nn.Parameter(torch.randn(24, 6, 4, 3) / 8)
        self.bias = nn.Parameter(torch.randn(6))
        self.slope = nn.Parameter(torch.rand(6))

    def forward(self, x):
        x = self.up(x)
        call = torch_op.conv_transpose2d
        y = call(x, self.weight, self.bias, 2, 1, padding_end=(0, 2), activation="relu")
        z = call(x, self.weight * 2, None, 2, 1, padding_end=(0, 2), residual=y)
        return call(
            x,
            self.weight,
            self.bias,
            2,
            1,
            padding_end=(0, 2),
            activation="prelu",
            slope=self.slope,
            residual=z,
        )


def run(path, x):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


@pytest.mark.parametrize("target", ["ort-cuda", "tensorrt"])
def test_any_runtime_computes_what_torch_does_at_other_sizes_too(target, tmp_path):
    net = Net().eval()
    program = export(
        net,
        (torch.randn(2, 16, 5, 7),),
        target=target,
        dynamic_shapes=({0: "n", 2: "h", 3: "w"},),
    )
    path = tmp_path / "net.onnx"
    program.save(path)
    for shape in ((2, 16, 5, 7), (1, 16, 3, 4)):
        x = torch.randn(shape)
        want = net(x).detach().numpy()
        got = run(path, x)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    nodes = [n for n in program.model.graph if n.domain == "convt_onnx"]
    assert len(nodes) == 4
    if target == "tensorrt":
        assert all(n.op_type.startswith("ConvT_") and not n.overload for n in nodes)
    else:
        assert {(n.op_type, len(n.overload)) for n in nodes} == {("FusedConvTranspose", 12)}
    assert not any(n.op_type == "ConvTranspose" for n in program.model.graph)
    packed = [n for n in nodes if n.attributes["packed"].value]
    shared = {n.inputs[1].name for n in packed}
    assert len(shared) == len(nodes) - 1  # two calls read one packed weight
    assert net.weight.shape not in {
        tuple(v.shape) for v in program.model.graph.initializers.values() if v.name in shared
    }
    assert "forward" not in net.up.__dict__


def test_a_target_without_plugin_is_refused():
    with pytest.raises(UsageError, match="no plugin runs"):
        export(nn.ConvTranspose1d(16, 8, 4, 2).eval(), (torch.randn(1, 16, 5),), target="portable")


def test_the_functions_are_the_packages_own():
    assert convt_onnx.conv_transpose2d is torch_op.conv_transpose2d
