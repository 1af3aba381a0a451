"""Models of the diffusers library: noise is predicted, or an image is coded and decoded."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.corpus.models_kinds import Inputs, Kind, image, mean_square

UNET: dict[str, Any] = {
    "sample_size": 8,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
}


def _denoise(generator: torch.Generator, side: int, channels: int, **shapes: Any) -> Inputs:
    inputs = {
        "timestep": torch.randint(1000, (2,), generator=generator),
        **{name: torch.randn(2, *shape, generator=generator) for name, shape in shapes.items()},
    }
    return {"sample": image(generator, side, channels)} | inputs


def _build(name: str, **settings: Any) -> torch.nn.Module:
    import diffusers  # noqa: PLC0415 - heavy, and the table is read without it

    model: torch.nn.Module = getattr(diffusers, name)(**settings)
    for part in model.modules():
        if hasattr(part, "dropout_prob"):
            part.dropout_prob = 0.0  # type: ignore[assignment]  # a number, not a module
    return model


def _loss(output: Any) -> torch.Tensor:
    return mean_square(output.sample - 0.5)


POSITIONS = {
    "img_ids": torch.cartesian_prod(torch.zeros(1), torch.arange(2.0), torch.arange(2.0)),
    "txt_ids": torch.zeros(3, 3),
}
"""Where the patches and the tokens of Flux are, which never changes."""


def _kind(
    name: str,
    inputs: Callable[[torch.Generator], Inputs],
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> Kind:
    return Kind(name, partial(_build, name, **settings), inputs, _loss, options or {})


def _rename(generator: torch.Generator, **shapes: Any) -> Inputs:
    inputs = _denoise(generator, 4, 4, **shapes)
    inputs["hidden_states"] = inputs.pop("sample")
    return inputs


def _label(generator: torch.Generator) -> Inputs:
    classes = torch.randint(10, (2,), generator=generator)
    return _rename(generator) | {"class_labels": classes}


def _flow(generator: torch.Generator) -> Inputs:
    shapes = {"hidden_states": (4, 8), "encoder_hidden_states": (3, 8), "pooled_projections": (8,)}
    inputs = {k: torch.randn(2, *shape, generator=generator) for k, shape in shapes.items()}
    return inputs | {"timestep": torch.rand(2, generator=generator)}


KINDS = (
    _kind(
        "UNet2DModel",
        partial(_denoise, side=8, channels=3),
        **UNET,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    ),
    _kind(
        "UNet2DConditionModel",
        partial(_denoise, side=8, channels=4, encoder_hidden_states=(3, 8)),
        **UNET,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=8,
        attention_head_dim=2,
    ),
    _kind(
        "AutoencoderKL",
        lambda generator: {"sample": image(generator, 8)},
        block_out_channels=(4, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=2,
        latent_channels=2,
    ),
    _kind(
        "VQModel",
        lambda generator: {"sample": image(generator, 8)},
        block_out_channels=(4, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=2,
        latent_channels=2,
        num_vq_embeddings=8,
    ),
    _kind(
        "DiTTransformer2DModel",
        _label,
        sample_size=4,
        in_channels=4,
        num_attention_heads=2,
        attention_head_dim=8,
        num_layers=1,
        num_embeds_ada_norm=10,
        patch_size=2,
        norm_num_groups=4,
    ),
    _kind(
        "SD3Transformer2DModel",
        partial(_rename, encoder_hidden_states=(3, 8), pooled_projections=(8,)),
        sample_size=4,
        in_channels=4,
        out_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=8,
        caption_projection_dim=16,
        pooled_projection_dim=8,
        pos_embed_max_size=4,
    ),
    _kind(
        "FluxTransformer2DModel",
        _flow,
        POSITIONS,
        in_channels=8,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=8,
        pooled_projection_dim=8,
        axes_dims_rope=(2, 2, 4),
    ),
    _kind(
        "PixArtTransformer2DModel",
        partial(_rename, encoder_hidden_states=(3, 8)),
        sample_size=4,
        in_channels=4,
        out_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        cross_attention_dim=16,
        caption_channels=8,
        norm_num_groups=4,
    ),
)
