"""Networks that nobody here wrote: transformers' and monai's, random weights, few and narrow blocks."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports
    import transformers


@cache
def _monai() -> Any:
    """Imported by who builds one of its networks: that takes longer than most tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        import monai.networks.nets
    return monai.networks.nets


@dataclass(frozen=True, slots=True, kw_only=True)
class ThirdParty:
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]  # of one sample
    others: tuple[tuple[int, ...], ...] = ()  # of its other tensors
    opaque: frozenset[str] = frozenset()  # operators that may be replicated

    def sample(self, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
        return tuple(torch.zeros(2, *shape, dtype=dtype) for shape in (self.shape, *self.others))


def _resnet() -> Any:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], num_labels=5)
    return transformers.ResNetForImageClassification(config)


def _regnet() -> Any:
    config = transformers.RegNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], groups_width=4, num_labels=5
    )
    return transformers.RegNetForImageClassification(config)


def _convnext(drop_path: float = 0.0) -> Any:
    config = transformers.ConvNextConfig(
        hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, drop_path_rate=drop_path, num_labels=5
    )
    return transformers.ConvNextForImageClassification(config)


def _convnext_v2() -> Any:
    config = transformers.ConvNextV2Config(hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, num_labels=5)
    return transformers.ConvNextV2ForImageClassification(config)


def _mobilenet_v1() -> Any:
    config = transformers.MobileNetV1Config(
        depth_multiplier=0.25, min_depth=4, classifier_dropout_prob=0.0, num_labels=5
    )
    return transformers.MobileNetV1ForImageClassification(config)


def _mobilenet_v2() -> Any:
    config = transformers.MobileNetV2Config(
        depth_multiplier=0.25, min_depth=4, classifier_dropout_prob=0.0, num_labels=5
    )
    return transformers.MobileNetV2ForImageClassification(config)


def _mobilenet_v2_segmentation() -> Any:
    """DeepLab v3+'s head: pyramid pooling, atrous convolutions, bilinear upsampling."""
    config = transformers.MobileNetV2Config(depth_multiplier=0.25, min_depth=4, output_stride=16, num_labels=5)
    return transformers.MobileNetV2ForSemanticSegmentation(config)


def _efficientnet() -> Any:
    config = transformers.EfficientNetConfig(
        width_coefficient=0.25, depth_coefficient=0.5, hidden_dim=320, dropout_rate=0.0, num_labels=5
    )
    config.drop_connect_rate = 0.0
    return transformers.EfficientNetForImageClassification(config)


def _bit() -> Any:
    config = transformers.BitConfig(embedding_size=8, hidden_sizes=[32, 64], depths=[1, 1], num_groups=4, num_labels=5)
    return transformers.BitForImageClassification(config)


def _poolformer(drop_path: float = 0.0) -> Any:
    config = transformers.PoolFormerConfig(
        hidden_sizes=[8, 16],
        depths=[1, 1],
        num_encoder_blocks=2,
        patch_sizes=[7, 3],
        strides=[4, 2],
        padding=[2, 1],
        drop_path_rate=drop_path,
        num_labels=5,
    )
    return transformers.PoolFormerForImageClassification(config)


def _focalnet() -> Any:
    config = transformers.FocalNetConfig(
        image_size=32,
        embed_dim=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
        drop_path_rate=0.0,
        num_labels=5,
    )
    return transformers.FocalNetForImageClassification(config)


def _upernet() -> Any:
    stages = ["stage1", "stage2", "stage3", "stage4"]
    backbone = transformers.ConvNextConfig(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], out_features=stages)
    config = transformers.UperNetConfig(
        backbone_config=backbone, hidden_size=8, num_labels=5, auxiliary_in_channels=16, auxiliary_channels=8
    )
    return transformers.UperNetForSemanticSegmentation(config)


def _highresnet() -> Any:
    layers = (
        {"name": "conv_0", "n_features": 4, "kernel_size": 3},
        {"name": "res_1", "n_features": 4, "kernels": (3, 3), "repeat": 1},
        {"name": "res_2", "n_features": 8, "kernels": (3, 3), "repeat": 1},
        {"name": "conv_1", "n_features": 8, "kernel_size": 1},
        {"name": "conv_2", "kernel_size": 1},
    )
    return _monai().HighResNet(3, 1, 2, layer_params=layers)


def _se_resnet() -> Any:
    nets = _monai()
    return nets.SENet(2, 3, nets.senet.SEResNetBottleneck, [1, 1, 1, 1], 1, 16, None, num_classes=5)


def _dynunet() -> Any:
    return _monai().DynUNet(
        3,
        1,
        2,
        [3, 3, 3],
        [1, 2, 2],
        [2, 2],
        filters=[4, 8, 16],
        res_block=True,
        deep_supervision=True,
        deep_supr_num=1,
    )


def _vit() -> Any:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=32, patch_size=8,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=5
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


def _swin() -> Any:
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 4], window_size=4, drop_path_rate=0.0,
        num_labels=5
    )  # fmt: skip
    return transformers.SwinForImageClassification(config)


_TOKENS: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
_WINDOWS: dict[str, Any] = {
    "image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4,
}  # fmt: skip
_STAGES: dict[str, Any] = {"depths": [1] * 4, "hidden_sizes": [8, 16, 16, 32], "num_attention_heads": [1, 2, 2, 4]}


def _still(model: Any) -> Any:
    """What drops at random does not: one device would drop others."""
    for module in model.modules():
        for name in ("p", "dropout", "drop_prob", "attention_dropout", "dropout_prob"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def _of(name: str, **config: Any) -> Callable[[], Any]:
    """`_of("Beit.ForImageClassification", ...)`: a configuration of transformers, and the model made of it."""
    family, kind = name.split(".")

    def build() -> Any:
        made = getattr(transformers, f"{family}Config")(**config)
        return _still(getattr(transformers, family + kind)(made))

    return build


def _detr() -> Any:
    backbone = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"])
    return _of(
        "Detr.ForObjectDetection", backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False,
        backbone=None, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=6, num_labels=3
    )()  # fmt: skip


def _dpt() -> Any:
    layers = {**_TOKENS, "num_hidden_layers": 4}
    return _of(
        "DPT.ForDepthEstimation", **layers, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8] * 4,
        fusion_hidden_size=8
    )()  # fmt: skip


def _perceiver() -> Any:
    return _of(
        "Perceiver.ForImageClassificationLearned", num_latents=8, d_latents=16, d_model=16, num_blocks=1,
        num_self_attends_per_block=2, num_self_attention_heads=2, num_cross_attention_heads=1, image_size=16
    )()  # fmt: skip


def _levit() -> Any:
    return _of(
        "Levit.ForImageClassification", image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 4],
        depths=[1, 1, 1], key_dim=[8, 8, 8]
    )()  # fmt: skip


def _vitdet() -> Any:
    return _of(
        "VitDet.Model", hidden_size=16, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=4,
        window_size=4, window_block_indices=[0], use_relative_position_embeddings=True, pretrain_image_size=32
    )()  # fmt: skip


def _mobilevit() -> Any:
    return _of(
        "MobileViT.ForImageClassification", image_size=64, hidden_sizes=[16, 16, 16], num_attention_heads=2,
        neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 32]
    )()  # fmt: skip


def _swin2sr() -> Any:
    return _of(
        "Swin2SR.ForImageSuperResolution", image_size=16, patch_size=1, embed_dim=8, depths=[2, 1], num_heads=[2, 2],
        window_size=4, upscale=2
    )()  # fmt: skip


def _diffusion() -> Any:
    return _still(
        _monai().DiffusionModelUNet(
            2, 1, 1, channels=(8, 8, 16), attention_levels=(False, True, True), num_res_blocks=1, num_head_channels=8,
            norm_num_groups=4
        )
    )  # fmt: skip


IMAGE, VOLUME = (3, 32, 32), (1, 16, 16, 16)

NETWORKS: dict[str, ThirdParty] = {
    "ResNet": ThirdParty(build=_resnet, shape=IMAGE),
    "RegNet": ThirdParty(build=_regnet, shape=IMAGE),
    "ConvNeXt": ThirdParty(build=_convnext, shape=IMAGE),
    "ConvNeXt with stochastic depth": ThirdParty(build=lambda: _convnext(0.1), shape=IMAGE),
    "ConvNeXt V2": ThirdParty(build=_convnext_v2, shape=IMAGE),
    "MobileNet V1": ThirdParty(build=_mobilenet_v1, shape=(3, 64, 64)),
    "MobileNet V2": ThirdParty(build=_mobilenet_v2, shape=(3, 64, 64)),
    "MobileNet V2 segmentation": ThirdParty(build=_mobilenet_v2_segmentation, shape=(3, 64, 64)),
    "EfficientNet": ThirdParty(build=_efficientnet, shape=(3, 64, 64)),
    "BiT": ThirdParty(build=_bit, shape=IMAGE),
    "PoolFormer": ThirdParty(build=_poolformer, shape=IMAGE),
    "PoolFormer with stochastic depth": ThirdParty(build=lambda: _poolformer(0.1), shape=IMAGE),
    "FocalNet": ThirdParty(build=_focalnet, shape=IMAGE),
    "UPerNet": ThirdParty(build=_upernet, shape=(3, 64, 64)),
    "UNet": ThirdParty(build=lambda: _monai().UNet(3, 1, 2, (4, 8, 16), (2, 2), num_res_units=2), shape=VOLUME),
    "BasicUNet": ThirdParty(
        build=lambda: _monai().BasicUNet(3, 1, 2, features=(4, 4, 8, 8, 8, 4)), shape=(1, 32, 32, 32)
    ),
    "AttentionUNet": ThirdParty(build=lambda: _monai().AttentionUnet(3, 1, 2, (4, 8, 16), (2, 2)), shape=VOLUME),
    "DenseNet": ThirdParty(
        build=lambda: _monai().DenseNet(3, 1, 3, init_features=8, growth_rate=4, block_config=(2, 2), bn_size=2),
        shape=VOLUME,
    ),
    "SegResNet": ThirdParty(
        build=lambda: _monai().SegResNet(3, 8, 1, 2, blocks_down=(1, 1), blocks_up=(1,)), shape=VOLUME
    ),
    "VNet": ThirdParty(build=lambda: _monai().VNet(3, 1, 2), shape=VOLUME),
    "DynUNet": ThirdParty(build=_dynunet, shape=VOLUME),
    "SE-ResNet": ThirdParty(build=_se_resnet, shape=(3, 64, 64)),
    "EfficientNetBN": ThirdParty(
        build=lambda: _monai().EfficientNetBN("efficientnet-b0", False, spatial_dims=2, num_classes=5),
        shape=(3, 64, 64),
    ),
    "HighResNet": ThirdParty(build=_highresnet, shape=VOLUME),
    "ResNet 3-D": ThirdParty(
        build=lambda: _monai().ResNet(
            "basic", [1, 1, 1, 1], [4, 8, 8, 8], spatial_dims=3, n_input_channels=1, num_classes=3
        ),
        shape=(1, 32, 32, 32),
    ),
    "Classifier": ThirdParty(build=lambda: _monai().Classifier((1, 32, 32), 3, (4, 8), (2, 2)), shape=(1, 32, 32)),
    "Regressor": ThirdParty(build=lambda: _monai().Regressor((1, 32, 32), (1,), (4, 8), (2, 2)), shape=(1, 32, 32)),
    "AutoEncoder": ThirdParty(build=lambda: _monai().AutoEncoder(3, 1, 1, (4, 8), (2, 2)), shape=VOLUME),
    "QuickNAT": ThirdParty(
        build=lambda: _monai().Quicknat(num_classes=3, num_channels=1, num_filters=8, se_block="CSE"),
        shape=(1, 32, 32),
        opaque=frozenset({"max_pool2d_with_indices", "max_unpool2d"}),  # positions of maxima, and their way back
    ),
}

# With attention: queries, keys and values apart; in windows; packed, and spelled out in einsums; beside convolutions.
ATTENTION: dict[str, ThirdParty] = {
    "ViT": ThirdParty(build=_vit, shape=IMAGE),
    "Swin": ThirdParty(build=_swin, shape=IMAGE),
    "ViT of monai": ThirdParty(
        build=lambda: _monai().ViT(
            3, (32, 32), (8, 8), 16, 32, 2, 4, classification=True, num_classes=5, spatial_dims=2
        ),
        shape=IMAGE,
    ),
    "UNETR": ThirdParty(
        build=lambda: _monai().UNETR(1, 2, (32, 32, 32), feature_size=4, hidden_size=16, mlp_dim=32, num_heads=4),
        shape=(1, 32, 32, 32),
    ),
    "DETR": ThirdParty(build=_detr, shape=(3, 64, 64)),  # branches on infinities; learned queries
    # without gradients and autocast for a while; positions that turn queries and keys
    "DINOv3": ThirdParty(
        build=_of("DINOv3ViT.Model", **_TOKENS, num_register_tokens=2, pos_embed_rescale=None), shape=IMAGE
    ),
}

LONGER = (3, 64, 64)

# More of them, for the campaign.
MORE: dict[str, ThirdParty] = {
    "Swin V2": ThirdParty(
        build=_of(
            "Swinv2.ForImageClassification",
            image_size=32,
            patch_size=2,
            embed_dim=8,
            depths=[2, 1],
            num_heads=[2, 4],
            window_size=4,
        ),
        shape=IMAGE,
    ),
    "SegFormer": ThirdParty(
        build=_of("Segformer.ForSemanticSegmentation", **_STAGES, decoder_hidden_size=16), shape=LONGER
    ),
    "GLPN": ThirdParty(build=_of("GLPN.ForDepthEstimation", **_STAGES, decoder_hidden_size=16), shape=LONGER),
    "PVT": ThirdParty(build=_of("Pvt.ForImageClassification", **_STAGES, image_size=64), shape=LONGER),
    "MobileViT V2": ThirdParty(
        build=_of("MobileViTV2.ForImageClassification", image_size=64, width_multiplier=0.25), shape=LONGER
    ),
    "BEiT": ThirdParty(build=_of("Beit.ForImageClassification", **_TOKENS), shape=IMAGE),
    "Data2Vec": ThirdParty(
        build=_of("Data2VecVision.ForImageClassification", **_TOKENS, use_relative_position_bias=True), shape=IMAGE
    ),
    "DINOv2": ThirdParty(build=_of("Dinov2.ForImageClassification", **_TOKENS), shape=IMAGE),
    "CLIP": ThirdParty(
        build=lambda: transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**_TOKENS)), shape=IMAGE
    ),
    "SigLIP": ThirdParty(
        build=lambda: transformers.SiglipVisionModel(transformers.SiglipVisionConfig(**_TOKENS)), shape=IMAGE
    ),
    "DPT": ThirdParty(build=_dpt, shape=IMAGE),
    "YOLOS": ThirdParty(
        build=_of("Yolos.ForObjectDetection", **{**_TOKENS, "image_size": [32, 32]}, num_detection_tokens=5),
        shape=IMAGE,
    ),
    "Perceiver": ThirdParty(build=_perceiver, shape=(3, 16, 16)),
    "LeViT": ThirdParty(build=_levit, shape=LONGER),
    "Hiera": ThirdParty(
        build=_of(
            "Hiera.ForImageClassification",
            image_size=[64, 64],
            embed_dim=16,
            depths=[1, 1, 2, 1],
            num_heads=[1, 2, 4, 8],
        ),
        shape=LONGER,
    ),
    "ViTDet": ThirdParty(build=_vitdet, shape=IMAGE),
    "SwinUNETR": ThirdParty(
        build=lambda: _monai().SwinUNETR(
            1,
            2,
            feature_size=12,
            window_size=4,
            depths=(2, 1, 1, 1),
            num_heads=(3, 3, 3, 3),
            spatial_dims=2,
            use_v2=True,
        ),
        shape=(1, 64, 64),
    ),
    "DeiT": ThirdParty(build=_of("DeiT.ForImageClassification", **_TOKENS), shape=IMAGE),
    "PVT V2": ThirdParty(build=_of("PvtV2.ForImageClassification", **_STAGES, image_size=64), shape=LONGER),
    "CvT": ThirdParty(
        build=_of("Cvt.ForImageClassification", embed_dim=[8, 16, 16], num_heads=[1, 2, 4], depth=[1, 2, 3]),
        shape=LONGER,
    ),
    "MobileViT": ThirdParty(build=_mobilevit, shape=LONGER),
    "Donut Swin": ThirdParty(build=_of("DonutSwin.Model", **_WINDOWS), shape=IMAGE),
    "Swin2SR": ThirdParty(build=_swin2sr, shape=(3, 16, 16)),
    "DINOv2 with registers": ThirdParty(
        build=_of("Dinov2WithRegisters.ForImageClassification", **_TOKENS), shape=IMAGE
    ),
    "I-JEPA": ThirdParty(build=_of("IJepa.ForImageClassification", **_TOKENS), shape=IMAGE),
    "Diffusion U-Net": ThirdParty(build=_diffusion, shape=(1, 16, 16), others=((),)),
}
