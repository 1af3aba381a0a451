"""Further models of images and videos of the transformers library."""

from functools import partial
from typing import Any

import torch

from tests.corpus.models_kinds import Inputs, Kind, build, image, mean_square, tokens
from tests.corpus.models_vision import (
    CLASSES,
    SMALL,
    STAGES,
    TEXT,
    _contrastive,
    classifier,
    detect,
    segment,
)

SWIN: dict[str, Any] = {
    "image_size": 16,
    "patch_size": 2,
    "embed_dim": 8,
    "depths": [2, 1],
    "num_heads": [2, 2],
    "window_size": 4,
}


def _film(generator: torch.Generator, frames: int = 2) -> Inputs:
    """Return videos and their classes."""
    return {
        "pixel_values": torch.randn(2, frames, 3, 16, 16, generator=generator),
        "labels": torch.randint(CLASSES, (2,), generator=generator),
    }


def _points(generator: torch.Generator) -> Inputs:
    return {
        "pixel_values": image(generator, 32),
        "input_points": 32 * torch.rand(2, 1, 2, 2, generator=generator),
    }


def _ask(generator: torch.Generator) -> Inputs:
    text = tokens(generator)
    return {"pixel_values": image(generator, 16), "input_ids": text, "labels": text}


def _build_sam() -> torch.nn.Module:
    vision = SMALL | {
        "image_size": 32,
        "output_channels": 8,
        "window_size": 2,
        "global_attn_indexes": [1],
        "mlp_dim": 24,
        "num_pos_feats": 4,
    }
    prompt = {"hidden_size": 8, "image_size": 32, "patch_size": 8, "mask_input_channels": 4}
    mask = {
        "hidden_size": 8,
        "mlp_dim": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "iou_head_hidden_dim": 8,
    }
    return build(
        "sam",
        "SamModel",
        vision_config=vision,
        prompt_encoder_config=prompt,
        mask_decoder_config=mask,
    )


def _build_mask2former() -> torch.nn.Module:
    backbone = {
        "model_type": "swin",
        **SWIN,
        "image_size": 32,
        "depths": [1, 1, 1, 1],
        "num_heads": [1, 1, 2, 2],
        "window_size": 2,
        "out_features": ["stage1", "stage2", "stage3", "stage4"],
    }
    return build(
        "mask2former",
        "Mask2FormerForUniversalSegmentation",
        backbone_config=backbone,
        hidden_dim=32,
        feature_size=32,
        mask_feature_size=32,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        dim_feedforward=16,
        encoder_feedforward_dim=16,
        num_queries=3,
    )


def _build_detector(name: str, head: str, **settings: Any) -> torch.nn.Module:
    backbone = {"model_type": "resnet", "embedding_size": 8, "layer_type": "basic"}
    backbone |= {**STAGES, "out_features": ["stage1", "stage2"]}
    return build(
        name,
        head,
        backbone_config=backbone,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        d_model=32,
        num_queries=3,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        **settings,
    )


def _box_loss(output: Any) -> torch.Tensor:
    return mean_square(output.logits) + mean_square(output.pred_boxes)


KINDS: tuple[Kind, ...] = (
    classifier("swinv2", "Swinv2", **SWIN),
    classifier("convnextv2", "ConvNextV2", num_stages=2, **STAGES, image_size=16),
    classifier("regnet", "RegNet", 32, embedding_size=8, **STAGES, groups_width=8),
    classifier("dinov2_with_registers", "Dinov2WithRegisters", **SMALL, mlp_ratio=2),
    classifier("data2vec-vision", "Data2VecVision", **SMALL),
    classifier("vit_msn", "ViTMSN", **SMALL),
    classifier("ijepa", "IJepa", **SMALL),
    classifier(
        "poolformer",
        "PoolFormer",
        32,
        **STAGES,
        num_encoder_blocks=2,
        patch_sizes=[7, 3],
        strides=[4, 2],
        padding=[2, 1],
    ),
    classifier(
        "pvt",
        "Pvt",
        32,
        image_size=32,
        num_encoder_blocks=2,
        depths=[1, 1],
        sequence_reduction_ratios=[2, 1],
        hidden_sizes=[8, 16],
        patch_sizes=[4, 2],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
    ),
    classifier(
        "levit",
        "Levit",
        32,
        image_size=32,
        hidden_sizes=[16, 16, 16],
        num_attention_heads=[2, 2, 2],
        depths=[1, 1, 1],
        key_dim=[4, 4, 4],
    ),
    classifier(
        "cvt",
        "Cvt",
        32,
        embed_dim=[8, 8],
        num_heads=[1, 2],
        depth=[1, 2],
        patch_sizes=[7, 3],
        patch_stride=[4, 2],
        patch_padding=[2, 1],
        cls_token=[False, True],
        drop_path_rate=[0.0, 0.0],
        mlp_ratio=[2.0, 2.0],
    ),
    classifier(
        "efficientnet",
        "EfficientNet",
        32,
        image_size=32,
        width_coefficient=0.25,
        depth_coefficient=0.2,
        in_channels=[8, 8],
        out_channels=[8, 8],
        kernel_sizes=[3, 3],
        strides=[1, 2],
        num_block_repeats=[1, 1],
        expand_ratios=[1, 2],
        hidden_dim=320,
        rate=1e-2,
    ),
    classifier("mobilenet_v1", "MobileNetV1", 32, rate=1e-3, depth_multiplier=0.25, image_size=32),
    classifier(
        "mobilevitv2",
        "MobileViTV2",
        64,
        image_size=64,
        width_multiplier=0.25,
        n_attn_blocks=[1, 1, 1],
    ),
    classifier("bit", "Bit", 32, embedding_size=8, **STAGES, num_groups=4),
    classifier(
        "focalnet",
        "FocalNet",
        16,
        image_size=16,
        patch_size=2,
        embed_dim=8,
        depths=[1, 1],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
    ),
    classifier(
        "swiftformer",
        "SwiftFormer",
        32,
        image_size=32,
        depths=[1, 1, 1, 1],
        embed_dims=[8, 8, 8, 8],
        mlp_ratio=2,
    ),
    classifier(
        "hiera",
        "Hiera",
        32,
        image_size=[32, 32],
        num_query_pool=2,
        query_stride=[2, 2],
        embed_dim=8,
        depths=[1, 1, 1],
        num_heads=[1, 1, 2],
        patch_kernel=[7, 7],
        patch_stride=[4, 4],
        patch_padding=[3, 3],
        masked_unit_size=[8, 8],
    ),
    Kind(
        "dinov3_vit",
        partial(build, "dinov3_vit", "DINOv3ViTModel", **SMALL),
        lambda g: {"pixel_values": image(g, 16)},
        lambda o: mean_square(o.last_hidden_state),
    ),
    Kind(
        "timesformer",
        partial(
            build,
            "timesformer",
            "TimesformerForVideoClassification",
            **SMALL,
            num_frames=2,
            num_labels=CLASSES,
        ),
        _film,
    ),
    Kind(
        "videomae",
        partial(
            build,
            "videomae",
            "VideoMAEForVideoClassification",
            **SMALL,
            num_frames=2,
            tubelet_size=2,
            num_labels=CLASSES,
        ),
        _film,
    ),
    Kind(
        "vivit",
        partial(
            build,
            "vivit",
            "VivitForVideoClassification",
            **SMALL | {"patch_size": 8},
            num_frames=2,
            tubelet_size=[2, 8, 8],
            num_labels=CLASSES,
        ),
        _film,
    ),
    Kind(
        "sam",
        _build_sam,
        _points,
        lambda o: mean_square(o.pred_masks) + mean_square(o.iou_scores),
        {"multimask_output": True},
    ),
    Kind(
        "mask2former",
        _build_mask2former,
        lambda g: {"pixel_values": image(g, 32)},
        lambda o: mean_square(o.class_queries_logits) + mean_square(o.masks_queries_logits),
    ),
    Kind(
        "conditional_detr",
        partial(_build_detector, "conditional_detr", "ConditionalDetrForObjectDetection"),
        detect,
        _box_loss,
    ),
    Kind(
        "deformable_detr",
        partial(
            _build_detector,
            "deformable_detr",
            "DeformableDetrForObjectDetection",
            num_feature_levels=2,
        ),
        detect,
        _box_loss,
    ),
    Kind(
        "yolos",
        partial(
            build,
            "yolos",
            "YolosForObjectDetection",
            **SMALL | {"image_size": [16, 16]},
            num_detection_tokens=3,
        ),
        lambda g: {"pixel_values": image(g, 16)},
        _box_loss,
    ),
    Kind(
        "dpt",
        partial(
            build,
            "dpt",
            "DPTForDepthEstimation",
            **SMALL,
            backbone_out_indices=[0, 1],
            reassemble_factors=[2, 1],
            neck_hidden_sizes=[8, 8],
            fusion_hidden_size=8,
            neck_ignore_stages=[],
        ),
        lambda g: {"pixel_values": image(g, 16)},
        lambda o: mean_square(o.predicted_depth),
    ),
    Kind(
        "glpn",
        partial(
            build,
            "glpn",
            "GLPNForDepthEstimation",
            **STAGES,
            num_encoder_blocks=2,
            sr_ratios=[2, 1],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[1, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=8,
        ),
        lambda g: {"pixel_values": image(g, 32)},
        lambda o: mean_square(o.predicted_depth),
    ),
    Kind(
        "upernet",
        partial(
            build,
            "upernet",
            "UperNetForSemanticSegmentation",
            backbone_config={
                "model_type": "convnext",
                "num_stages": 2,
                **STAGES,
                "out_features": ["stage1", "stage2"],
            },
            hidden_size=8,
            pool_scales=[1, 2],
            use_auxiliary_head=False,
            num_labels=CLASSES,
        ),
        segment,
    ),
    Kind("vilt", partial(build, "vilt", "ViltForMaskedLM", **TEXT | SMALL), _ask),
    Kind("git", partial(build, "git", "GitForCausalLM", **TEXT, vision_config=SMALL), _ask),
    _contrastive("metaclip_2", "MetaClip2Model", projection_dim=8),
    _contrastive("clipseg", "CLIPSegModel", projection_dim=8),
    _contrastive("chinese_clip", "ChineseCLIPModel", projection_dim=8),
    _contrastive("owlvit", "OwlViTModel", projection_dim=8),
)
