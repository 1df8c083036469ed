"""Decoders and upsamplers of public libraries, at the sizes that they were published with.

Inputs are short; widths, depths and kernels are the library's defaults or those of the checkpoint
named. Nothing is downloaded: weights are drawn by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from full_size_export import Adapted, Built

BATCH = ("batch", 1)


def speecht5_hifigan() -> Built:
    """microsoft/speecht5_hifigan, weight-normed as in training."""
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    module = SpeechT5HifiGan(SpeechT5HifiGanConfig())
    module.apply_weight_norm()
    axes = {"spectrogram": {0: BATCH, 1: ("frames", 4)}}
    return Built(Adapted(module), {"spectrogram": (2, 5, 80)}, axes)


def fastspeech2_hifigan() -> Built:
    """espnet/fastspeech2_conformer_hifigan, as it is saved: no weight_norm."""
    from transformers import FastSpeech2ConformerHifiGan, FastSpeech2ConformerHifiGanConfig

    module = FastSpeech2ConformerHifiGan(FastSpeech2ConformerHifiGanConfig())
    axes = {"spectrogram": {0: BATCH, 1: ("frames", 4)}}
    return Built(Adapted(module), {"spectrogram": (2, 5, 80)}, axes)


def vits_decoder() -> Built:
    """The HiFi-GAN of facebook/mms-tts-eng, weight-normed."""
    from transformers import VitsConfig, VitsModel

    module = VitsModel(VitsConfig()).decoder
    module.apply_weight_norm()
    return Built(Adapted(module), {"z": (2, 192, 5)}, {"z": {0: BATCH, 2: ("frames", 4)}})


def encodec_decoder() -> Built:
    """facebook/encodec_24khz."""
    from transformers import EncodecConfig, EncodecModel

    module = EncodecModel(EncodecConfig()).decoder
    return Built(Adapted(module), {"z": (2, 128, 10)}, {"z": {0: BATCH, 2: ("frames", 8)}})


def dac_decoder() -> Built:
    """descript/dac_44khz, weight-normed."""
    from transformers import DacConfig, DacModel

    model = DacModel(DacConfig())
    model.apply_weight_norm()
    module = Adapted(model.decoder, gain=0.7)
    return Built(module, {"z": (2, 1024, 3)}, {"z": {0: BATCH, 2: ("frames", 2)}})


def mimi_decoder() -> Built:
    """kyutai/mimi: upsampling, transformer and SEANet."""
    from transformers import MimiConfig, MimiModel

    module = MimiModel(MimiConfig(use_cache=False)).decoder
    call: Any = lambda model, z: model(z, use_cache=False).audio_values  # noqa: E731
    return Built(Adapted(module, call), {"z": (2, 512, 3)}, {"z": {0: BATCH, 2: ("frames", 5)}})


def mimi_seanet() -> Built:
    """The convolutional half of kyutai/mimi."""
    from transformers import MimiConfig, MimiModel

    module = MimiModel(MimiConfig()).decoder.decoder_seanet
    return Built(Adapted(module), {"z": (2, 512, 3)}, {"z": {0: BATCH, 2: ("frames", 4)}})


def sam_mask_decoder() -> Built:
    """facebook/sam-vit-base, on the 64 x 64 embeddings of a 1024 x 1024 image."""
    from transformers import SamConfig
    from transformers.models.sam.modeling_sam import SamMaskDecoder

    config = SamConfig().mask_decoder_config
    config._attn_implementation = "eager"
    inputs = {
        "image": (1, 256, 64, 64),
        "positions": (1, 256, 64, 64),
        "points": (1, 2, 3, 256),
        "dense": (1, 256, 64, 64),
    }
    axes = {"points": {1: ("prompts", 3), 2: ("points", 5)}}
    module = Adapted(SamMaskDecoder(config), lambda model, *x: model(*x, multimask_output=True))
    return Built(module, inputs, axes)


def sam2_mask_decoder() -> Built:
    """facebook/sam2.1-hiera-tiny: high-resolution features are added to each upsampling."""
    from transformers import Sam2Config
    from transformers.models.sam2.modeling_sam2 import Sam2MaskDecoder

    def call(decoder: Any, image: Any, points: Any, fine: Any, finer: Any) -> Any:
        positions, dense = image * 0.5, image * 0.25
        features = [finer, fine]
        return decoder(image, positions, points, dense, True, features)[:2]

    config = Sam2Config().mask_decoder_config
    config._attn_implementation = "eager"
    inputs = {
        "image": (1, 256, 64, 64),
        "points": (1, 2, 3, 256),
        "fine": (1, 64, 128, 128),
        "finer": (1, 32, 256, 256),
    }
    axes = {"points": {1: ("prompts", 3), 2: ("points", 5)}}
    return Built(Adapted(Sam2MaskDecoder(config), call), inputs, axes)


def dpt_head() -> Built:
    """Neck and depth head of Intel/dpt-large, on the hidden states of a 384 x 384 image."""
    from transformers import DPTConfig, DPTForDepthEstimation

    config = DPTConfig(
        hidden_size=1024,
        num_hidden_layers=1,
        num_attention_heads=16,
        intermediate_size=4096,
        neck_hidden_sizes=(256, 512, 1024, 1024),
    )

    def call(model: Any, *states: Any) -> Any:
        return model.head(model.neck(list(states), 24, 24))

    module = DPTForDepthEstimation(config)
    del module.dpt
    names = [f"state{i}" for i in range(4)]
    axes = {name: {0: BATCH} for name in names}
    return Built(Adapted(module, call), dict.fromkeys(names, (2, 577, 1024)), axes)


def depth_anything() -> Built:
    """The whole of LiheYoung/depth-anything-small-hf, for a small image."""
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation

    model = DepthAnythingForDepthEstimation(DepthAnythingConfig())
    module = Adapted(model, lambda model, x: model(x).predicted_depth)
    axes = {"image": {0: BATCH, 2: ("height", 70), 3: ("width", 112)}}
    return Built(module, {"image": (2, 3, 98, 126)}, axes)


def vitpose_decoder() -> Built:
    """The classic heatmap head of usyd-community/vitpose-base: ConvTranspose, BatchNorm, twice."""
    from transformers import VitPoseConfig
    from transformers.models.vitpose.modeling_vitpose import VitPoseClassicDecoder

    config = VitPoseConfig(num_labels=17)
    config.backbone_config.hidden_size = 768
    axes = {"x": {0: BATCH, 2: ("height", 9), 3: ("width", 7)}}
    return Built(Adapted(VitPoseClassicDecoder(config)), {"x": (2, 768, 16, 12)}, axes)


def ppocr_detector() -> Built:
    """The whole of PaddlePaddle/PP-OCRv5_mobile_det, for a small page."""
    from transformers import PPOCRV5MobileDetConfig, PPOCRV5MobileDetForObjectDetection

    model = PPOCRV5MobileDetForObjectDetection(PPOCRV5MobileDetConfig())
    module = Adapted(model, lambda model, x: model(x).last_hidden_state)
    axes = {"page": {0: BATCH, 2: ("height", 96), 3: ("width", 64)}}
    return Built(module, {"page": (2, 3, 64, 96)}, axes)


def vits() -> Built:
    """The whole of facebook/mms-tts-eng: text in, sound out."""
    from transformers import VitsConfig, VitsModel

    model = VitsModel(VitsConfig())
    model.noise_scale = model.noise_scale_duration = 0.0
    module = Adapted(model, lambda model, ids: model((ids.abs() * 8).long()).waveform)
    return Built(module, {"ids": (1, 12)}, {"ids": {1: ("characters", 9)}})


def unet_2d() -> Built:
    """MONAI's U-Net in two dimensions, instance norm."""
    from monai.networks.nets import UNet

    channels, strides = (16, 32, 64, 128, 256), (2, 2, 2, 2)
    module = UNet(2, 1, 2, channels=channels, strides=strides, num_res_units=2)
    axes = {"image": {0: BATCH, 2: ("height", 96), 3: ("width", 80)}}
    return Built(Adapted(module), {"image": (2, 1, 64, 96)}, axes)


def unet_3d() -> Built:
    """MONAI's U-Net as its spleen bundle configures it: three dimensions, batch norm."""
    from monai.networks.nets import UNet

    channels, strides = (16, 32, 64, 128, 256), (2, 2, 2, 2)
    module = UNet(3, 1, 2, channels=channels, strides=strides, num_res_units=2, norm="batch")
    axes = {"volume": {0: BATCH, 2: ("depth", 32), 3: ("height", 48), 4: ("width", 16)}}
    return Built(Adapted(module), {"volume": (2, 1, 16, 32, 48)}, axes)


def unetr() -> Built:
    """MONAI's UNETR, its size of volume smaller than the published 96."""
    from monai.networks.nets import UNETR

    module = UNETR(in_channels=1, out_channels=14, img_size=(48, 32, 32), feature_size=16)
    return Built(Adapted(module), {"volume": (2, 1, 48, 32, 32)}, {"volume": {0: BATCH}})


def dynunet() -> Built:
    """MONAI's DynUNet, as nnU-Net plans it for an anisotropic volume."""
    from monai.networks.nets import DynUNet

    strides = [1, (1, 2, 2), 2, 2, 2]
    kernels = [(1, 3, 3), 3, 3, 3, 3]
    module = DynUNet(3, 1, 3, kernels, strides, strides[1:], filters=(32, 64, 128, 256, 320))
    axes = {"volume": {0: BATCH, 2: ("depth", 8), 3: ("height", 32), 4: ("width", 48)}}
    return Built(Adapted(module), {"volume": (2, 1, 16, 48, 32)}, axes)


def mednext() -> Built:
    """MONAI's MedNeXt-S: depthwise ConvTranspose with a Pad behind it."""
    from monai.networks.nets import MedNeXtS

    axes = {"volume": {0: BATCH, 2: ("depth", 16), 3: ("height", 16), 4: ("width", 32)}}
    return Built(Adapted(MedNeXtS(spatial_dims=3)), {"volume": (2, 1, 16, 32, 16)}, axes)


def oobleck_decoder() -> Built:
    """The decoder of stabilityai/stable-audio-open-1.0, weight-normed in torch's old form."""
    from diffusers.models.autoencoders.autoencoder_oobleck import OobleckDecoder

    module = OobleckDecoder(128, 64, 2, [8, 8, 4, 4, 2], [1, 2, 4, 8, 16])
    axes = {"latents": {0: BATCH, 2: ("frames", 3)}}
    return Built(Adapted(module, gain=0.7), {"latents": (2, 64, 2)}, axes)


MODELS: dict[str, tuple[str, Callable[[], Built]]] = {
    "speecht5-hifigan": ("transformers", speecht5_hifigan),
    "fastspeech2-hifigan": ("transformers", fastspeech2_hifigan),
    "vits": ("transformers", vits),
    "vits-decoder": ("transformers", vits_decoder),
    "encodec-decoder": ("transformers", encodec_decoder),
    "dac-decoder": ("transformers", dac_decoder),
    "mimi-decoder": ("transformers", mimi_decoder),
    "mimi-seanet": ("transformers", mimi_seanet),
    "sam-mask-decoder": ("transformers", sam_mask_decoder),
    "sam2-mask-decoder": ("transformers", sam2_mask_decoder),
    "dpt-head": ("transformers", dpt_head),
    "depth-anything-small": ("transformers", depth_anything),
    "vitpose-decoder": ("transformers", vitpose_decoder),
    "ppocr-detector": ("transformers", ppocr_detector),
    "unet-2d": ("monai", unet_2d),
    "unet-3d": ("monai", unet_3d),
    "unetr": ("monai", unetr),
    "dynunet": ("monai", dynunet),
    "mednext-s": ("monai", mednext),
    "oobleck-decoder": ("diffusers", oobleck_decoder),
}
