# ruff: noqa: INP001 - a file of the user's is not part of a package
"""Generation as a program: a small Llama of the transformers library continues two texts of bytes.

A step is a token, so a dispute about a text is first narrowed to one token of it.
"""

from typing import Any

import torch

from moot.offchain.frontend.generation.choice import Sampled
from moot.offchain.frontend.generation.decoding import Generation
from moot.offchain.frontend.generation.huggingface import CausalModel
from moot.offchain.frontend.recipe import InferenceRecipe

PROMPTS = ("Once upon a time", "def ")
LENGTH = 32


def make_texts(seed: int) -> Generation:
    """Return the texts and how they continue; everything random in it comes from the seed."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 - heavy

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        bos_token_id=None,
        eos_token_id=None,
    )
    model: Any = LlamaForCausalLM(config)
    prompts = [list(prompt.encode()) for prompt in PROMPTS]
    choice = Sampled(temperature=0.9, top_k=40)
    return Generation(CausalModel(model.eval()), prompts, LENGTH, choice, seed)


def build(seed: int) -> InferenceRecipe:
    """Return the recipe of one token a step."""
    return make_texts(seed).make_recipe()
