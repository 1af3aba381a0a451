"""Tiny models that answer, and answers computed alone, step by step."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from moot.offchain.commitments.tensors import (
    Array,
    commit_tensors,
    compute_state_root,
    compute_tensor_root,
)
from moot.offchain.frontend.generation.answering import Question, Sampling
from moot.offchain.frontend.generation.reading import Reader
from moot.offchain.serving.answered import Answered
from moot.offchain.serving.programs import Programs
from moot.offchain.serving.requests import Request

WORDS = 23
CONTEXT = 64


def make_model(name: str, *, vocabulary: int = WORDS, context: int = CONTEXT) -> Any:
    """Return a tiny causal model whose answers differ."""
    import transformers as hf  # noqa: PLC0415 - heavy

    torch.manual_seed(5)
    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    if name == "gpt2":
        sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": context}
        model: Any = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=vocabulary, **sizes, **ends))
    else:
        config = hf.LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=context,
            **ends,
        )
        model = hf.LlamaForCausalLM(config)
    for parameter in model.parameters():
        parameter.data.mul_(3)
    return model.eval()


@cache
def make_programs(name: str) -> Programs:
    """Return the programs of a tiny model."""
    return Programs(Reader(make_model(name)))


def answer_alone(programs: Programs, question: Question, steps: int) -> list[Array]:
    """Return the state after so many steps of the program of one text."""
    program = programs.find_program(question)
    state = program.make_start(question)
    for step in range(steps):
        state = program.executor.run(state, (), step)
    return state


def is_that_of_the_program(programs: Programs, answered: Answered) -> bool:
    """Whether an answer's tokens and roots are those of its program, run alone."""
    program = programs.find_answer(answered.length)
    state = answer_alone(programs, answered.question, answered.steps)
    tokens: Any = state[answered.answer_slot]
    prompt = len(answered.question.prompt)
    start = program.make_start(answered.question)
    roots = [it.root for it in commit_tensors(state)]
    return (
        tuple(tokens[0, prompt : prompt + len(answered.tokens)].tolist()) == answered.tokens
        and not tokens[0, prompt + len(answered.tokens) :].any()
        and compute_tensor_root(tokens) == answered.answer_root
        and compute_state_root(roots) == answered.end_root
        and compute_state_root([it.root for it in commit_tensors(start)]) == answered.start_root
    )


def draw_sampling(generator: np.random.Generator) -> Sampling:
    """Return drawn settings, every kind of which comes."""
    seed = int(generator.integers(1 << 40))
    kind = generator.integers(4)
    if kind == 0:
        return Sampling()
    top_k = int(generator.integers(1, 9)) if kind == 1 else 0
    top_p = float(generator.uniform(0.3, 0.99)) if kind == 2 else 1.0
    return Sampling(float(generator.uniform(0.3, 1.6)), top_k, top_p, seed)


def draw_question(generator: np.random.Generator, stems: list[list[int]]) -> Question:
    """Return a drawn question; half of them begin as others do."""
    prompt = generator.integers(WORDS, size=int(generator.integers(1, 14))).tolist()
    if generator.integers(2):
        stem = stems[int(generator.integers(len(stems)))]
        prompt = stem[: int(generator.integers(1, len(stem) + 1))] + prompt[:6]
    most = int(generator.integers(1, 1 + min(12, CONTEXT - len(prompt))))
    return Question(prompt, most, draw_sampling(generator))


class Asked:
    """A request, and what became of it.

    Args:
        question: what is asked.
        stop_after: tokens after which a stop string is found; never if 0.
    """

    def __init__(self, question: Question, stop_after: int = 0, ends: tuple[int, ...] = ()) -> None:
        self.tokens: list[int] = []
        self.results: list[Any] = []
        self._stop_after = stop_after
        done: Callable[[Any], None] = self.results.append
        self.request = Request(question, self._take, done, frozenset(ends))

    def _take(self, token: int, _logits: Array) -> bool:
        self.tokens.append(token)
        return len(self.tokens) == self._stop_after
