"""The decoders as torch modules: published sizes, sensible scale, and what each one computes."""

from __future__ import annotations

import importlib

import onnxruntime as ort
import pytest

from convt_onnx.models import build, get, names

torch = pytest.importorskip("torch", reason="the decoders are torch modules")

# Bilinear kernels, Fourier bases, and weights that are made in the graph.
WITHOUT_MODULES = {"fcn8s", "istft", "stylegan2"}
TINY_SIZES = [(name, size) for name in names() for size in get(name).sizes if "tiny" in size]


def outputs(built, **changes):
    """What the module makes of its example inputs, as a tuple, without gradients."""
    with torch.no_grad():
        made = built.module(*{**built.inputs, **changes}.values())
    return made if isinstance(made, tuple) else (made,)


def resized(name, **changes):
    return build(name, {**get(name).size("tiny"), **changes})


@pytest.mark.parametrize(
    ("name", "size", "parameters"),
    [
        ("dcgan", "full", 3_576_704),
        ("fcn8s", "full", 134_362_751),
        # 12,464 as the paper counts, plus biases and PReLU.
        ("fsrcnn", "full", 12_464 + 173 + 172),
        # With one norm per filter beyond the 13,926,017 of the plain generator.
        ("hifigan", "full", 13_926_017 + 10_113),
        ("unet", "full", 31_037_698),
    ],
)
def test_the_full_size_is_the_published_one(name, size, parameters):
    file = importlib.import_module(f"convt_onnx.models.{get(name).module}")
    with torch.device("meta"):
        module = file.build(**get(name).size(size))
    assert sum(weight.numel() for weight in module.parameters()) == parameters


@pytest.mark.parametrize(("name", "size"), TINY_SIZES)
def test_outputs_have_a_scale_worth_comparing(name, size):
    built = build(name, size)
    for seed in (0, 1):
        made = outputs(build(name, size, seed=seed))
        assert len(made) == len(built.outputs)
        for output in made:
            assert 0.05 < output.std() < 10


def test_a_seed_decides_the_weights_and_leaves_torch_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, again, other = (build("hifigan", seed=seed) for seed in (3, 3, 4))
    pairs = list(zip(first.module.parameters(), again.module.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(outputs(first)[0], outputs(other)[0])
    torch.manual_seed(7)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", sorted({*names()} - WITHOUT_MODULES))
def test_weights_of_transposed_convolutions_are_not_symmetric(name):
    kind = torch.nn.modules.conv._ConvTransposeNd
    weights = [part.weight for part in build(name).module.modules() if isinstance(part, kind)]
    assert weights
    for weight in weights:
        assert not torch.allclose(weight, weight.flip(-1), atol=1e-3)


def test_a_trained_weight_norm_scales_its_direction():
    up = build("hifigan").module.ups[0]
    direction = up.parametrizations.weight.original1
    norm = torch.linalg.vector_norm(direction, dim=(1, 2), keepdim=True)
    assert not torch.allclose(up.parametrizations.weight.original0, norm, rtol=0.01)


@pytest.mark.parametrize("name", ["fcn8s", "hifigan", "unet"])
def test_the_tiny_files_are_up_to_date(name):
    built = build(name)
    path = importlib.import_module("convt_onnx.models").__path__[0] + f"/{name}_tiny.onnx"
    feed = {key: tensor.numpy() for key, tensor in built.inputs.items()}
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (made,) = session.run(list(built.outputs), feed)
    torch.testing.assert_close(torch.from_numpy(made), outputs(built)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("frames", [2, 9, 30])
def test_istft_is_torch_istft(frames):
    built = resized("istft", frames=frames)
    size = get("istft").size("tiny")
    expected = torch.istft(
        torch.complex(*built.inputs.values()),
        size["fft"],
        size["hop"],
        window=torch.hann_window(size["fft"]),
    )
    torch.testing.assert_close(outputs(built)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", ["tiny", "tiny-encodec"])
def test_codec_sees_no_future(size):
    # EnCodec's padding reflects the first six frames, so these must not include the last.
    built = build("codec", {**get("codec").size(size), "frames": 12})
    latents = built.inputs["latents"]
    changed = latents.clone()
    changed[..., -1] += 1
    before, after = outputs(built)[0], outputs(built, latents=changed)[0]
    samples_per_frame = before.shape[-1] // latents.shape[-1]
    past = samples_per_frame * (latents.shape[-1] - 1)
    torch.testing.assert_close(before[..., :past], after[..., :past])
    assert not torch.allclose(before[..., past:], after[..., past:])


def test_codec_upsampler_is_depthwise():
    up = build("codec").module.layers[0].up
    assert up.groups == up.in_channels == up.out_channels
    assert (up.kernel_size, up.stride) == ((4,), (2,))


def test_fcn_interpolates_constants_to_constants():
    for size in ("tiny", "tiny-32s"):
        up = build("fcn8s", size).module.head.up
        made = up(torch.ones(1, 21, 3, 3))
        inside = made[..., up.stride : -up.stride, up.stride : -up.stride]
        torch.testing.assert_close(inside, torch.ones_like(inside))


@pytest.mark.parametrize("head", ["tiny", "tiny-32s"])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (33, 70), (95, 64)])
def test_fcn_scores_every_pixel(head, height, width):
    built = build("fcn8s", {**get("fcn8s").size(head), "height": height, "width": width})
    assert outputs(built)[0].shape == (1, 21, height, width)


@pytest.mark.parametrize(("size", "scale"), [("tiny-x2", 2), ("tiny", 3), ("tiny-x4", 4)])
def test_fsrcnn_multiplies_the_size(size, scale):
    built = build("fsrcnn", size)
    luma = built.inputs["luma"]
    assert outputs(built)[0].shape[2:] == tuple(scale * n for n in luma.shape[2:])


@pytest.mark.parametrize(("height", "width"), [(8, 8), (23, 41)])
def test_unet_keeps_any_size(height, width):
    built = resized("unet", height=height, width=width)
    assert outputs(built)[0].shape == (1, 2, height, width)


def test_stylegan_modulates_each_sample_alone():
    built = build("stylegan2")
    together = outputs(built)
    for index in range(2):
        sample = {key: tensor[index : index + 1] for key, tensor in built.inputs.items()}
        alone = outputs(built, **sample)
        for one, all_of_them in zip(alone, together, strict=True):
            torch.testing.assert_close(one, all_of_them[index : index + 1], rtol=1e-4, atol=1e-5)


def test_stylegan_demodulates_to_unit_scale():
    block = build("stylegan2").module
    noise = torch.randn(2, 8, 32, 32, generator=torch.Generator().manual_seed(0))
    style = torch.randn(2, 10, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        made = block.plain.convolution(100 * noise, style)
    assert 80 < made.std() < 120
