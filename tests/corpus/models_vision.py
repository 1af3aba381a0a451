"""Models of images, and of images beside text, of the transformers library."""

from functools import partial
from typing import Any

import torch

from tests.corpus.models_kinds import TOKENS, Inputs, Kind, build, image, tokens

TRANSFORMER: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
SMALL = TRANSFORMER | {"image_size": 16, "patch_size": 8}
STAGES: dict[str, Any] = {"depths": [1, 1], "hidden_sizes": [8, 16]}
TEXT = TRANSFORMER | {
    "vocab_size": TOKENS,
    "max_position_embeddings": 8,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "projection_dim": 8,
}
CLASSES = 3


def classify(generator: torch.Generator, side: int = 16) -> Inputs:
    """Return images and their classes."""
    labels = torch.randint(CLASSES, (2,), generator=generator)
    return {"pixel_values": image(generator, side), "labels": labels}


def classifier(
    name: str, head: str, side: int = 16, *, rate: float = 0.125, **settings: Any
) -> Kind:
    """Return a kind that classifies images."""
    make = partial(build, name, f"{head}ForImageClassification", num_labels=CLASSES, **settings)
    return Kind(name, make, partial(classify, side=side), rate=rate)


def segment(generator: torch.Generator) -> Inputs:
    """Return images and a class for each pixel, some of which are ignored."""
    labels = torch.randint(CLASSES, (2, 32, 32), generator=generator)
    labels[0, :3] = 255
    return {"pixel_values": image(generator, 32), "labels": labels}


def reconstruct(generator: torch.Generator) -> Inputs:
    """Return images, and the noise that chooses which patches are hidden."""
    return {"pixel_values": image(generator, 16), "noise": torch.rand(2, 4, generator=generator)}


def detect(generator: torch.Generator) -> Inputs:
    """Return images and which of their pixels are padding."""
    mask = torch.ones(2, 32, 32, dtype=torch.int64)
    mask[0, :, 24:] = 0
    return {"pixel_values": image(generator, 32), "pixel_mask": mask}


def describe(generator: torch.Generator) -> Inputs:
    """Return images and texts that end as texts do."""
    text = tokens(generator)
    text[:, -1] = 1
    return {"input_ids": text, "pixel_values": image(generator, 16)}


def _box_loss(output: Any) -> torch.Tensor:
    loss: torch.Tensor = output.logits.square().mean() + output.pred_boxes.square().mean()
    return loss


def _build_detr() -> torch.nn.Module:
    backbone = {"model_type": "resnet", "embedding_size": 8, "layer_type": "basic"}
    backbone |= {**STAGES, "out_features": ["stage2"]}
    return build(
        "detr",
        "DetrForObjectDetection",
        backbone_config=backbone,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        d_model=16,
        num_queries=3,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
    )


def _contrastive(name: str, head: str, **settings: Any) -> Kind:
    parts = {"text_config": TEXT, "vision_config": SMALL | {"projection_dim": 8}}
    make = partial(build, name, head, **parts, **settings)
    return Kind(name, make, describe, options={"return_loss": True})


KINDS = (
    classifier("vit", "ViT", **SMALL),
    classifier("deit", "DeiT", **SMALL),
    classifier("beit", "Beit", **SMALL, use_relative_position_bias=True),
    classifier(
        "swin",
        "Swin",
        image_size=16,
        patch_size=2,
        embed_dim=8,
        depths=[2, 1],
        num_heads=[2, 2],
        window_size=4,
    ),
    classifier("convnext", "ConvNext", num_stages=2, **STAGES, image_size=16),
    classifier("resnet", "ResNet", 32, embedding_size=8, **STAGES, layer_type="basic"),
    Kind("detr", _build_detr, detect, _box_loss),
    Kind(
        "segformer",
        partial(
            build,
            "segformer",
            "SegformerForSemanticSegmentation",
            num_labels=CLASSES,
            **STAGES,
            num_encoder_blocks=2,
            sr_ratios=[2, 1],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[1, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=8,
        ),
        segment,
    ),
    classifier("dinov2", "Dinov2", **SMALL, mlp_ratio=2),
    classifier("mobilenet_v2", "MobileNetV2", 64, rate=1e-3, depth_multiplier=0.25, image_size=64),
    classifier(
        "mobilevit",
        "MobileViT",
        32,
        image_size=32,
        hidden_sizes=[8, 8, 8],
        neck_hidden_sizes=[4, 4, 8, 8, 8, 8, 16],
        num_attention_heads=2,
    ),
    Kind(
        "vit_mae",
        partial(
            build,
            "vit_mae",
            "ViTMAEForPreTraining",
            **SMALL,
            decoder_hidden_size=8,
            decoder_num_hidden_layers=1,
            decoder_num_attention_heads=2,
            decoder_intermediate_size=16,
        ),
        reconstruct,
    ),
    _contrastive("clip", "CLIPModel", projection_dim=8),
    _contrastive("siglip", "SiglipModel"),
    _contrastive("blip", "BlipModel"),
)
