"""Serving: requests that are answered at once, and what their claims cost.

Stock is the transformers library's own `generate` on all prompts as one batch, which nobody joins
and nobody leaves. Ours is the engine of `moot serve`, which makes no use of that: requests come one
by one, and each answer has its roots. Of `claims`, stock is the same engine without roots.
"""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from moot.bench import ggml
from moot.bench.shapes import TINY_SERVING, ServingSizes
from moot.bench.sides import Comparison
from moot.bench.timing import Side
from moot.offchain.commitments.tensors import Array
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.generation.answering import Question
from moot.offchain.frontend.generation.reading import Reader
from moot.offchain.serving.engine import Engine
from moot.offchain.serving.programs import Programs
from moot.offchain.serving.requests import Limits, Request

GROUP = "serving"


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the answers of every model and number of requests, and what claims cost."""
    sizes = TINY_SERVING if is_tiny else ServingSizes()
    for name, size in sizes.models:
        stock, programs = make_programs(name, size, sizes.context)
        generator = torch.Generator().manual_seed(0)
        loaded = ggml.Loaded(stock) if ggml.is_here() else None
        for count in sizes.requests:
            shape = (count, sizes.prompt)
            prompts = torch.randint(programs.vocabulary, shape, generator=generator)
            kind = f"{count} x {sizes.prompt} + {sizes.tokens}"
            ours = _make_ours(programs, prompts, sizes.tokens, has_claims=True)
            theirs = _make_stock(stock, prompts, sizes.tokens)
            others = {}
            if loaded is not None:
                others["llama.cpp"] = ggml.make_answers(loaded, prompts, sizes.tokens)
            yield Comparison(GROUP, f"{name} {size}, answers", kind, ours, theirs, others)
            plain = _make_ours(programs, prompts, sizes.tokens, has_claims=False)
            yield Comparison(GROUP, f"{name} {size}, claims", kind, ours, plain)


def make_programs(name: str, size: str, context: int) -> tuple[Any, Programs]:
    """Return an example as the transformers library has it, and its programs."""
    model: Any = build(name, size, inference=True).model
    model.config.max_position_embeddings = max(context, model.config.max_position_embeddings)
    return copy.deepcopy(model), Programs(Reader(model), f"bench {name} {size}", context)


def _make_ours(programs: Programs, prompts: Tensor, tokens: int, *, has_claims: bool) -> Side:
    """Return the answers of an engine, of which the first logits are looked at."""
    limits = Limits(slots=len(prompts), prefix_bytes=0)
    engine = Engine(programs, limits, has_claims=has_claims)
    questions = [Question(prompt, tokens) for prompt in prompts.tolist()]
    programs.find_program(questions[0])

    def run() -> Array:
        first: list[list[Array]] = [[] for _ in questions]
        ended: list[Any] = []
        for question, seen in zip(questions, first, strict=True):
            engine.submit(Request(question, _make_look(seen), ended.append))
        while len(ended) < len(questions):
            engine.turn()
        return np.stack([seen[0] for seen in first])

    return run


def _make_look(seen: list[Array]) -> Any:
    """Return what keeps the logits of the first token, and ends nothing."""

    def look(_token: int, logits: Array) -> bool:
        if not seen:
            seen.append(logits.copy())
        return False

    return look


def _make_stock(model: Any, prompts: Tensor, tokens: int) -> Side:
    model.set_attn_implementation("sdpa")
    model.generation_config.pad_token_id = 0

    @torch.no_grad()
    def run() -> Tensor:
        found = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            use_cache=True,
            output_logits=True,
            return_dict_in_generate=True,
        )
        logits: Tensor = found.logits[0]
        return logits

    return run
