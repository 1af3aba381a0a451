"""Adapters of the peft library around a tiny Llama: few weights learn."""

from functools import partial
from typing import Any

import torch

from tests.corpus.models_kinds import Kind, build
from tests.corpus.models_language import GROUPED, predict

LINEAR = ["q_proj", "v_proj"]
CAUSAL: dict[str, Any] = {"task_type": "CAUSAL_LM"}


def _adapt(kind: str, **settings: Any) -> torch.nn.Module:
    import peft  # noqa: PLC0415 - heavy, and the table is read without it

    model = build("llama", "LlamaForCausalLM", **GROUPED)
    config = getattr(peft, f"{kind}Config")(**CAUSAL, **settings)
    adapted: torch.nn.Module = peft.get_peft_model(model, config)
    for parameter in adapted.parameters():
        if parameter.requires_grad and not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)  # else half the gradients begin as zeros
    return adapted


def _adapter(
    name: str, kind: str, *, rate: float = 8.0, refusal: str = "", **settings: Any
) -> Kind:
    return Kind(name, partial(_adapt, kind, **settings), predict, rate=rate, refusal=refusal)


KINDS = (
    _adapter("lora", "Lora", r=2, target_modules=LINEAR),
    _adapter("dora", "Lora", r=2, target_modules=LINEAR, use_dora=True),
    _adapter(
        "ia3",
        "IA3",
        rate=512.0,
        target_modules=["k_proj", "down_proj"],
        feedforward_modules=["down_proj"],
    ),
    _adapter("adalora", "AdaLora", init_r=2, target_r=1, total_step=10, target_modules=LINEAR),
    _adapter("prefix-tuning", "PrefixTuning", num_virtual_tokens=2),
    _adapter("prompt-tuning", "PromptTuning", num_virtual_tokens=2),
    _adapter("p-tuning", "PromptEncoder", num_virtual_tokens=2, encoder_hidden_size=8),
    _adapter("loha", "LoHa", r=2, target_modules=LINEAR, refusal="torch.rand(1) > module_dropout"),
)
