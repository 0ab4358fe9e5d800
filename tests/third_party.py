"""Networks that nobody here wrote: transformers' and monai's, random weights, few and narrow blocks."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what these packages import
    import monai.networks.nets as monai
    import transformers
    from monai.networks.nets.senet import SEResNetBottleneck


@dataclass(frozen=True, slots=True, kw_only=True)
class ThirdParty:
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]  # of one sample
    opaque: frozenset[str] = frozenset()  # operators that may be replicated


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
    return monai.HighResNet(3, 1, 2, layer_params=layers)


def _dynunet() -> Any:
    return monai.DynUNet(
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
    "UNet": ThirdParty(build=lambda: monai.UNet(3, 1, 2, (4, 8, 16), (2, 2), num_res_units=2), shape=VOLUME),
    "BasicUNet": ThirdParty(build=lambda: monai.BasicUNet(3, 1, 2, features=(4, 4, 8, 8, 8, 4)), shape=(1, 32, 32, 32)),
    "AttentionUNet": ThirdParty(build=lambda: monai.AttentionUnet(3, 1, 2, (4, 8, 16), (2, 2)), shape=VOLUME),
    "DenseNet": ThirdParty(
        build=lambda: monai.DenseNet(3, 1, 3, init_features=8, growth_rate=4, block_config=(2, 2), bn_size=2),
        shape=VOLUME,
    ),
    "SegResNet": ThirdParty(
        build=lambda: monai.SegResNet(3, 8, 1, 2, blocks_down=(1, 1), blocks_up=(1,)), shape=VOLUME
    ),
    "VNet": ThirdParty(build=lambda: monai.VNet(3, 1, 2), shape=VOLUME),
    "DynUNet": ThirdParty(build=_dynunet, shape=VOLUME),
    "SE-ResNet": ThirdParty(
        build=lambda: monai.SENet(2, 3, SEResNetBottleneck, [1, 1, 1, 1], 1, 16, None, num_classes=5),
        shape=(3, 64, 64),
    ),
    "EfficientNetBN": ThirdParty(
        build=lambda: monai.EfficientNetBN("efficientnet-b0", False, spatial_dims=2, num_classes=5),
        shape=(3, 64, 64),
    ),
    "HighResNet": ThirdParty(build=_highresnet, shape=VOLUME),
    "ResNet 3-D": ThirdParty(
        build=lambda: monai.ResNet(
            "basic", [1, 1, 1, 1], [4, 8, 8, 8], spatial_dims=3, n_input_channels=1, num_classes=3
        ),
        shape=(1, 32, 32, 32),
    ),
    "Classifier": ThirdParty(build=lambda: monai.Classifier((1, 32, 32), 3, (4, 8), (2, 2)), shape=(1, 32, 32)),
    "Regressor": ThirdParty(build=lambda: monai.Regressor((1, 32, 32), (1,), (4, 8), (2, 2)), shape=(1, 32, 32)),
    "AutoEncoder": ThirdParty(build=lambda: monai.AutoEncoder(3, 1, 1, (4, 8), (2, 2)), shape=VOLUME),
    "QuickNAT": ThirdParty(
        build=lambda: monai.Quicknat(num_classes=3, num_channels=1, num_filters=8, se_block="CSE"),
        shape=(1, 32, 32),
        opaque=frozenset({"max_pool2d_with_indices", "max_unpool2d"}),  # positions of maxima, and their way back
    ),
}

# With attention: queries, keys and values apart; in windows; packed, and spelled out in einsums; beside convolutions.
ATTENTION: dict[str, ThirdParty] = {
    "ViT": ThirdParty(build=_vit, shape=IMAGE),
    "Swin": ThirdParty(build=_swin, shape=IMAGE),
    "ViT of monai": ThirdParty(
        build=lambda: monai.ViT(3, (32, 32), (8, 8), 16, 32, 2, 4, classification=True, num_classes=5, spatial_dims=2),
        shape=IMAGE,
    ),
    "UNETR": ThirdParty(
        build=lambda: monai.UNETR(1, 2, (32, 32, 32), feature_size=4, hidden_size=16, mlp_dim=32, num_heads=4),
        shape=(1, 32, 32, 32),
    ),
}
