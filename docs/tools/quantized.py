"""Perplexities of small language models in three precisions: the table of `arithmetic.md`.

`python docs/tools/quantized.py` trains a small GPT-2 and a small Llama by stock torch, on source
code, and prints what each knows of the last part of the text in float32, under autocast in
bfloat16, and with linear layers of int8 weights.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from docs.tools.curves import GPT2, RATE, find_perplexity, make_gpt2, train_stock
from moot.offchain.frontend.data import read_text
from moot.offchain.frontend.examples.language import build_llama
from moot.offchain.frontend.quantization import quantize
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.subject import Subject

STEPS = 1000


def make_llama(folder: Path) -> TrainingRecipe:
    """Return a small Llama on the batches of the small GPT-2."""
    recipe = build_llama(replace(GPT2, key_heads=2), 1, None, inference=False)
    assert isinstance(recipe, TrainingRecipe)
    return replace(recipe, batch=make_gpt2(folder)[0].batch)


MODELS: Mapping[str, Callable[[Path], TrainingRecipe]] = {
    "GPT-2": lambda folder: make_gpt2(folder)[0],
    "Llama": make_llama,
}


@torch.no_grad()
def measure(model: nn.Module) -> tuple[float, float, float]:
    """Return a model's perplexity in float32, in bfloat16 and in int8."""
    text = read_text()
    single = find_perplexity(text, model)
    with torch.autocast("cpu", torch.bfloat16):
        half = find_perplexity(text, model)
    return single, half, find_perplexity(text, quantize(model))


def main() -> None:
    """Train, measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| model | float32 | bfloat16, autocast | int8 |\n|---|---:|---:|---:|")
    for name, make in MODELS.items():
        torch.manual_seed(1)
        with tempfile.TemporaryDirectory() as folder:
            recipe = make(Path(folder))
            steps = train_stock(recipe, lambda p: torch.optim.AdamW(p, RATE))
            *_, (_, trained) = islice(steps, STEPS)
            with torch.no_grad():
                for key, tensor in Subject.of(recipe).tensors.items():
                    tensor.copy_(trained[key])
            found = measure(recipe.model.eval())
        print(f"| {name} | {' | '.join(f'{each:.4f}' for each in found)} |", flush=True)


if __name__ == "__main__":
    main()
