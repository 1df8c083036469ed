"""The torch operator on the CPU: signature, errors, layouts, gradients, compile and export."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from convt_onnx.plugins import torch_op

OURS = (torch_op.conv_transpose1d, torch_op.conv_transpose2d, torch_op.conv_transpose3d)
THEIRS = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def operands(ndim, groups=2):
    torch.manual_seed(ndim)
    x = torch.randn(2, 4, *(5, 4, 3)[:ndim])
    return x, torch.randn(4, 3, *(3,) * ndim), torch.randn(3 * groups)


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"stride": 2},
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"stride": 3, "dilation": 2, "padding": 2},
    ],
)
def test_the_same_arguments_give_the_same_values(ndim, arguments):
    x, w, b = operands(ndim)
    got = OURS[ndim - 1](x, w, b, groups=2, **arguments)
    torch.testing.assert_close(got, THEIRS[ndim - 1](x, w, b, groups=2, **arguments))


def test_positional_arguments_stand_where_torch_has_them():
    x, w, b = operands(2)
    arguments = ((2, 3), (1, 0), (1, 2), 2, (1, 1))
    torch.testing.assert_close(
        torch_op.conv_transpose2d(x, w, b, *arguments), F.conv_transpose2d(x, w, b, *arguments)
    )


def test_an_input_without_batch():
    x, w, b = operands(2)
    torch.testing.assert_close(
        torch_op.conv_transpose2d(x[0], w, b, 2, groups=2),
        F.conv_transpose2d(x[0], w, b, 2, groups=2),
    )


@pytest.mark.parametrize(
    ("shape", "arguments"),
    [
        ((2, 4), {}),
        ((2, 4, 5, 4, 3), {}),
        ((2, 5, 5, 4), {}),
        ((2, 4, 5, 4), {"groups": 3}),
        ((2, 4, 5, 4), {"groups": 1}),  # the bias has the channels of two groups
        ((2, 4, 5, 4), {"stride": 0}),
        ((2, 4, 5, 4), {"stride": (1, 2, 3)}),
        ((2, 4, 5, 4), {"padding": -1}),
        ((2, 4, 5, 4), {"padding": 50}),
        ((2, 4, 5, 4), {"output_padding": 2, "stride": 2}),
        ((2, 4, 5, 4), {"output_padding": -1}),
        ((2, 4, 5, 4), {"dilation": 0}),
    ],
)
def test_wrong_arguments_raise_what_torch_raises(shape, arguments):
    _, w, b = operands(2)
    x = torch.randn(shape)
    arguments = {"groups": 2} | arguments
    with pytest.raises((RuntimeError, ValueError)) as theirs:
        F.conv_transpose2d(x, w, b, **arguments)
    with pytest.raises(type(theirs.value)) as ours:
        torch_op.conv_transpose2d(x, w, b, **arguments)
    if "padding" not in arguments or arguments["padding"] < 50:
        assert str(ours.value) == str(theirs.value)


def test_different_types_raise_what_torch_raises():
    x, w, b = operands(2)
    with pytest.raises(RuntimeError):
        torch_op.conv_transpose2d(x, w.half(), b, groups=2)


def test_asymmetric_crop_activation_and_residual():
    x, w, b = operands(2)
    full = F.conv_transpose2d(x, w, None, 2, groups=2)
    want = full[:, :, 1:, 1:-2] + b.reshape(-1, 1, 1)
    residual = torch.randn_like(want)
    got = torch_op.conv_transpose2d(
        x,
        w,
        b,
        2,
        1,
        groups=2,
        padding_end=(0, 2),
        activation="leaky_relu",
        alpha=0.2,
        residual=residual,
    )
    torch.testing.assert_close(got, F.leaky_relu(want + residual, 0.2))


@pytest.mark.parametrize("seed", range(6))
def test_gradients_equal_torchs(seed):
    rng = random.Random(seed)
    x, w, b = (t.double().requires_grad_() for t in operands(2))
    arguments = {"stride": rng.choice((1, 2, 3)), "padding": rng.choice((0, 1)), "groups": 2}
    ours = torch_op.conv_transpose2d(x, w, b, activation="silu", **arguments)
    theirs = F.silu(F.conv_transpose2d(x, w, b, **arguments))
    seed_grad = torch.randn_like(theirs)
    got = torch.autograd.grad(ours, (x, w, b), seed_grad)
    want = torch.autograd.grad(theirs, (x, w, b), seed_grad)
    for g, t in zip(got, want, strict=True):
        torch.testing.assert_close(g, t)


def test_gradients_pass_gradcheck_with_an_asymmetric_crop():
    x, w, b = (t.double().requires_grad_() for t in operands(1))
    assert torch.autograd.gradcheck(
        lambda *t: torch_op.conv_transpose1d(*t, 2, 1, groups=2, padding_end=0, activation="tanh"),
        (x, w, b),
    )


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_operator_keeps_to_torchs_rules(layout):
    x, w, b = operands(2)
    x = x.to(memory_format=layout)
    arguments = ([2, 2], [1, 1], [0, 1], [1, 1], [1, 1], 2, "relu", 0.0, 0.0)
    torch.library.opcheck(
        torch_op._operator,
        (x, w, b, None, None, *arguments),
        test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"),
    )
    y = torch_op.conv_transpose2d(x, w, b, 2, 1, groups=2)
    assert y.is_contiguous(memory_format=layout)


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.ConvTranspose2d(4, 6, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(6, 2, 2, 2)
    ).eval()


def test_compiled_and_exported_models_hold_the_operator_once_a_layer():
    net, (x, _, _) = model(), operands(2)
    want = net(x)
    with torch.no_grad(), torch_op.replaced(net):
        compiled = torch.compile(net, backend="aot_eager", fullgraph=True, dynamic=True)
        torch.testing.assert_close(compiled(x), want)
        torch.testing.assert_close(compiled(x[:1, :, :3]), net(x[:1, :, :3]))
        exported = torch.export.export(net, (x,))
    names = [str(n.target) for n in exported.graph.nodes]
    assert sum("convt_onnx.conv_transpose" in n for n in names) == 2
    torch.testing.assert_close(exported.module()(x), want)


def test_replaced_models_are_restored_and_take_output_size():
    net, (x, _, _) = model(), operands(2)
    layer = net[0]
    want = layer(x, output_size=[10, 8])
    with torch_op.replaced(net) as inner:
        assert inner is net
        assert "forward" in layer.__dict__
        torch.testing.assert_close(layer(x, output_size=[10, 8]), want)
    assert "forward" not in layer.__dict__


def test_inference_mode_and_autocast():
    x, w, b = operands(2)
    with torch.inference_mode():
        torch.testing.assert_close(
            torch_op.conv_transpose2d(x, w, b, groups=2), F.conv_transpose2d(x, w, b, groups=2)
        )
    with torch.autocast("cpu", torch.bfloat16):
        assert torch_op.conv_transpose2d(x, w, b, groups=2).dtype == torch.bfloat16
