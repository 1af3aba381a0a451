"""Generation a token a step, against stock torch, its definition, and one pass over all tokens."""

import sys
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from moot.offchain.arithmetic.philox import uniform_bits
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.generation import choice
from moot.offchain.frontend.generation.cache import Cache, PrefillCache, StepCache, attend
from moot.offchain.frontend.generation.choice import Greedy, Sampled, find_best, pick
from moot.offchain.frontend.generation.decoding import Generation
from moot.offchain.frontend.generation.huggingface import CausalModel
from moot.offchain.frontend.generation.prefill import Run, find_wrong_token, prefill
from moot.offchain.frontend.load import load_recipe
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.programs.graph import Program
from tests.program_helpers import assert_close, run_function
from tests.quick import only, share
from tests.serving_helpers import make_model
from tests.training_helpers import by_name, encode

WORDS = 11
PROMPTS = ((3, 1, 4), (1,), (5, 9))
LENGTH = 8
NEW = 3


class Speaker(nn.Module):
    """The smallest language model with attention: one layer, two heads."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Embedding(LENGTH, width)
        self.heads = nn.Linear(width, 3 * width)
        self.last = nn.Linear(width, WORDS)

    def forward(self, tokens: Tensor, cache: Cache) -> Tensor:
        """Return the logits of each token."""
        x = self.words(tokens) + self.places(cache.positions)
        heads = self.heads(x).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = heads.unbind()
        keys, values = cache.extend(0, keys, values)
        seen = attend(queries, keys, values, cache.mask)
        logits: Tensor = self.last(x + seen.transpose(1, 2).flatten(2))
        return logits


def make_speaker() -> nn.Module:
    """Return the small model, with weights that make it say different things."""
    torch.manual_seed(1)
    model = Speaker().eval()
    for parameter in model.parameters():
        parameter.data.mul_(2)
    return model


def make_causal(name: str, *, is_training: bool = False) -> nn.Module:
    """Return a tiny model of the transformers library."""
    return CausalModel(make_model(name, vocabulary=WORDS, context=LENGTH).train(is_training))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "speaker": make_speaker,
    "gpt2": lambda: make_causal("gpt2"),
    "llama": lambda: make_causal("llama"),
}
CHOICES: dict[str, Greedy | Sampled] = {
    "greedy": Greedy(),
    "sampled": Sampled(0.7, top_k=4),
    "sampled from all": Sampled(1.5, top_k=0),
}


@cache
def make_generation(name: str, how: str) -> Generation:
    """Return the texts that a model continues."""
    return Generation(MODELS[name](), PROMPTS, LENGTH, CHOICES[how], seed=5)


@cache
def generate(name: str, how: str) -> tuple[Captured, list[list[Array]]]:
    """Return the program and the states after each of its steps."""
    generation = make_generation(name, how)
    captured = capture(generation.make_recipe(), trust=True)  # torch's texts are compared
    executor = Executor(captured.program)
    states = []
    state = captured.initial_state
    for step in range(generation.steps):
        state = executor.run(state, captured.batch(step), step)
        states.append(state)
    return captured, states


def get_tokens(name: str, how: str) -> Array:
    """Return the generated texts."""
    captured, states = generate(name, how)
    return by_name(captured, states[-1])["buffer.tokens"]


def execute(program: Program, state: Any, batch: Any, step: int) -> list[Array]:
    """Run a step by the fast executor."""
    return Executor(program).run(state, batch, step)


QUICK_TEXTS = {("speaker", "greedy")}
"""Texts whose checks are not left to the long suite."""


def mark_texts(quick: AbstractSet[tuple[str, str]]) -> pytest.MarkDecorator:
    """Return the mark of a test of every text, of which all but some are left to the long suite."""
    return pytest.mark.parametrize(("name", "how"), only(quick, product(MODELS, CHOICES)))


each_model = pytest.mark.parametrize("name", MODELS)
each_choice = pytest.mark.parametrize("how", only({"sampled"}, CHOICES))


@mark_texts(QUICK_TEXTS)
def test_one_pass_has_the_bits_of_all_steps(name: str, how: str) -> None:
    """A prefill yields, at every position, the tokens and logits of decoding."""
    captured, states = generate(name, how)
    whole = prefill(make_generation(name, how), get_tokens(name, how), execute)
    for step, state in enumerate(states):
        named = by_name(captured, state)
        assert named["output.0"].tobytes() == whole.chosen[:, step].tobytes()
        assert named["output.1"].tobytes() == whole.logits[:, step].tobytes()


@each_choice
def test_decoding_equals_its_definition(how: str) -> None:
    """Both executors decode, and prefill, the same bits."""
    captured, states = generate("speaker", how)
    defined = captured.initial_state
    for step, state in enumerate(states):
        defined = run_step(captured.program, defined, captured.batch(step), step)
        assert encode(state) == encode(defined)
    tokens = get_tokens("speaker", how)
    generation = make_generation("speaker", how)
    run: Run = run_step
    fast, slow = (prefill(generation, tokens, which) for which in (execute, run))
    assert fast.logits.tobytes() == slow.logits.tobytes()
    assert fast.chosen.tobytes() == slow.chosen.tobytes()


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_greedy_text_is_that_of_the_library(name: str) -> None:
    """Every text is what the library's own generate yields for its prompt."""
    model: Any = make_generation(name, "greedy").model
    for row, prompt in zip(get_tokens(name, "greedy"), PROMPTS, strict=True):
        text = model.model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            max_new_tokens=LENGTH - len(prompt),
            do_sample=False,
        )
        assert row.tolist() == text[0].tolist()


def make_library_recipe(name: str, **options: Any) -> InferenceRecipe:
    """Return a recipe that calls the library's own generate."""
    model: Any = make_causal(name).model
    model.generation_config.eos_token_id = options.pop("eos", None)

    def forward(model: Any, tokens: Tensor) -> Tensor:
        result: Tensor = model.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=NEW, **options
        )
        return result

    def batch(step: int) -> tuple[Tensor, ...]:
        return (torch.randint(WORDS, (2, 4), generator=torch.Generator().manual_seed(step)),)

    return InferenceRecipe(model, forward, batch)


def repeat_by_hand(model: Any, tokens: Tensor) -> Tensor:
    """Append the best token, again and again."""
    for _ in range(NEW):
        best = model(input_ids=tokens, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, best], 1)
    return tokens


LOOPS: dict[str, Callable[[], InferenceRecipe]] = {
    "gpt2": lambda: make_library_recipe("gpt2", do_sample=False),
    "llama": lambda: make_library_recipe("llama", do_sample=False),
    "without a cache": lambda: make_library_recipe("llama", do_sample=False, use_cache=False),
    "by hand": lambda: replace(make_library_recipe("gpt2"), forward=repeat_by_hand),
}


@pytest.mark.parametrize("name", only((), LOOPS))
def test_generate_of_the_library_is_captured(name: str) -> None:
    """A program of the library's own loop, or of one by hand, says what the library says."""
    recipe = LOOPS[name]()
    captured = capture(recipe)
    for step in range(3):
        state = Executor(captured.program).run(captured.initial_state, captured.batch(step), step)
        expected = recipe.forward(recipe.model, *recipe.batch(step))
        assert expected.shape == (2, 4 + NEW)
        assert state[-1].tolist() == expected.tolist()


REFUSED: dict[str, dict[str, Any]] = {
    "an end": {"do_sample": False, "eos": 1},
    "beams": {"num_beams": 2},
}


@pytest.mark.parametrize("name", only({"an end"}, REFUSED))
def test_generate_that_branches_is_refused(name: str) -> None:
    """Texts that end where data says, and beams, are refused in a line that says what to give."""
    with pytest.raises(
        CaptureError, match=r"set model\.generation_config\.eos_token_id to None"
    ) as it:
        capture(make_library_recipe("gpt2", pad_token_id=0, **REFUSED[name]))
    assert len(str(it.value).splitlines()) == 1


@each_choice
@each_model
def test_the_state_after_each_step(name: str, how: str) -> None:
    """The prompts stay, every step writes one token, and the position counts to the last one."""
    captured, states = generate(name, how)
    last = get_tokens(name, how)
    for step, state in enumerate(states):
        named = by_name(captured, state)
        assert named["buffer.position"] == step + 1
        for row, prompt in enumerate(PROMPTS):
            known = max(len(prompt), step + 2)
            assert named["buffer.tokens"][row, :known].tolist() == last[row, :known].tolist()
            assert not named["buffer.tokens"][row, known:].any()
            assert last[row, : len(prompt)].tolist() == list(prompt)
        keys = named["buffer.keys_0"]
        assert keys[:, :, : step + 1].any(axis=(1, 3)).all()
        assert not keys[:, :, step + 1 :].any()
    again = execute(captured.program, states[-1], [], LENGTH - 1)
    assert by_name(captured, again)["buffer.tokens"].tolist() == last.tolist()


@each_choice
def test_texts_do_not_see_each_other(how: str) -> None:
    """A greedy text generated alone has the same logits as in a batch."""
    generation = replace(make_generation("gpt2", how), prompts=PROMPTS[:1])
    captured = capture(generation.make_recipe(), trust=True)
    state = captured.initial_state
    batched, states = generate("gpt2", how)
    for step in range(generation.steps):
        state = execute(captured.program, state, [], step)
        alone = by_name(captured, state)["output.1"]
        assert alone.tobytes() == by_name(batched, states[step])["output.1"][:1].tobytes()


@mark_texts(QUICK_TEXTS - {("gpt2", "sampled")})
def test_a_changed_token_is_found(name: str, how: str) -> None:
    """All tokens that were generated pass; the first one that was changed is named."""
    generation, tokens = make_generation(name, how), get_tokens(name, how)
    assert find_wrong_token(generation, tokens, execute) is None
    assert find_wrong_token(generation, tokens[:, :5], execute) is None
    for row, position in ((0, 3), (1, LENGTH - 1), (2, 4)):
        forged = tokens.copy()
        forged[row, position] = (forged[row, position] + 1) % WORDS
        forged[row, position + 1 :] = 0
        assert find_wrong_token(generation, forged, execute) == (row, position)


def test_another_seed_is_found() -> None:
    """Tokens drawn with other random numbers are not accepted."""
    other = replace(make_generation("speaker", "sampled from all"), seed=6)
    assert find_wrong_token(other, get_tokens("speaker", "sampled from all"), execute) is not None


def test_draws_are_philox() -> None:
    """Step s draws the numbers of stream 0 of step s, one for each text."""
    captured, states = generate("speaker", "sampled from all")
    for step, state in enumerate(states):
        named = by_name(captured, state)
        logits = named["output.1"].astype(np.float64) / 1.5
        weights = np.exp(logits - logits.max(1, keepdims=True))
        for row in range(len(PROMPTS)):
            bits = np.array(uniform_bits(5, step, 0, row), np.uint32)
            target = float(bits.view(np.float32)) * weights[row].sum()
            expected = int(np.argmax(weights[row].cumsum() > target))
            assert named["output.0"][row] == expected


def test_attention_hides_what_the_mask_hides() -> None:
    """Whatever finite value is hidden, attention has the same bits, even when a sum is -0."""
    queries, keys = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 3, 1)
    mask = torch.tensor([[True, True, False]])

    def see(hidden: float) -> float:
        values = torch.tensor([-1e-45, -1e-45, hidden]).reshape(1, 1, 3, 1)
        (seen,) = run_function(lambda q, k, v: attend(q, k, v, mask), queries, keys, values)
        return float(seen.item())

    assert [str(see(hidden)) for hidden in (0, -5, 7)] == ["0.0"] * 3


def test_caches_agree() -> None:
    """After the last step, the step's cache holds what a pass over all positions computes."""
    generation, tokens = make_generation("gpt2", "greedy"), get_tokens("gpt2", "greedy")
    captured, states = generate("gpt2", "greedy")
    last = execute(captured.program, states[-1], [], LENGTH - 1)
    whole = PrefillCache(LENGTH)
    with torch.no_grad():
        generation.model(torch.from_numpy(tokens), whole)
    for layer, (keys, values) in whole.layers.items():
        named = by_name(captured, last)
        assert_close(named[f"buffer.keys_{layer}"], keys, 1e-4, 1e-5)
        assert_close(named[f"buffer.values_{layer}"], values, 1e-4, 1e-5)
    step = StepCache(whole.layers, torch.tensor(2), LENGTH)
    assert step.mask.tolist() == [[True] * 3 + [False] * 5]
    assert whole.mask[2].tolist() == step.mask[0].tolist()


@pytest.mark.slow
def test_the_example_tells_stories() -> None:
    """The example's recipe is a program whose texts pass the check of its own function."""
    path = Path(__file__).parents[2] / "examples" / "storyteller.py"
    captured = capture(load_recipe(f"{path}:build", seed=4))
    executor, state = Executor(captured.program), captured.initial_state
    for step in range(20):
        state = executor.run(state, captured.batch(step), step)
    tokens = by_name(captured, state)["buffer.tokens"][:, :21]
    assert bytes(tokens[0].astype(np.uint8)).startswith(b"Once upon a time")
    texts = sys.modules["moot_user_storyteller"].make_texts(4)
    assert find_wrong_token(texts, tokens, execute) is None
    tokens[1, 20] ^= 1
    assert find_wrong_token(texts, tokens, execute) == (1, 20)


@settings(max_examples=share(60), deadline=None)
@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=40).filter(any),
    st.integers(0, (1 << 24) - 1),
    st.integers(1, 12),
)
def test_pick_is_the_inverse_of_the_distribution(
    weights: list[float], word: int, block: int
) -> None:
    """In one block or several, the first index whose cumulative sum exceeds the draw is picked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "BLOCK", block)
        draw = torch.tensor(word / (1 << 24))
        found = int(pick(torch.tensor(weights), draw))
    sums = np.cumsum(np.array(weights, np.float64))
    margin = 1e-5 * sums[-1]
    target = float(draw) * sums[-1]
    assert 0 <= found < len(weights)
    assert sums[found] > target - margin
    assert found == 0 or sums[found - 1] <= target + margin


@pytest.mark.parametrize("draw", [0.0, 1 - 2.0**-24])
def test_extreme_draws_pick_what_may_be_drawn(draw: float) -> None:
    """The smallest and the largest draw pick the first and the last weight that are not 0."""
    weights = torch.zeros(700)
    weights[300] = weights[600] = weights[333] = 0.1
    assert int(pick(weights, torch.tensor(draw))) == (600 if draw else 300)


def test_frequencies() -> None:
    """Over many draws tokens come as often as their probabilities say, at any number of them."""
    logits = torch.randn(300, generator=torch.Generator().manual_seed(3)) * 2
    draws = (torch.arange(4096) + 0.5) / 4096
    found = Sampled(1.3, top_k=0)(logits.expand(4096, 300), draws)
    shares = torch.bincount(found, minlength=300) / 4096
    torch.testing.assert_close(shares, (logits / 1.3).softmax(0), rtol=0, atol=3e-4)


def test_find_best_is_topk() -> None:
    """Repeated argmax finds what topk finds, the first of equals first."""
    logits = torch.tensor([[1.0, 5.0, 5.0, -torch.inf, 2.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    best, tokens = find_best(logits, 3)
    assert tokens.tolist() == [[1, 2, 4], [0, 1, 2]]
    assert best.tolist() == [[5, 5, 2], [0, 0, 0]]


def test_low_temperatures_and_one_choice_are_greedy() -> None:
    """A temperature near 0, or the one likeliest token, leaves nothing to draw."""
    logits = torch.randn(4, 30, generator=torch.Generator().manual_seed(4))
    draws = torch.tensor([0.0, 0.3, 0.6, 0.99])
    greedy = Greedy()(logits, None)
    assert Sampled(1e-4, top_k=0)(logits, draws).tolist() == greedy.tolist()
    assert Sampled(9.0, top_k=1)(logits, draws).tolist() == greedy.tolist()


def _generate(**changes: Any) -> Generation:
    return replace(make_generation("gpt2", "greedy"), **changes)


def _wrap(name: str, **sizes: Any) -> nn.Module:
    """Return a tiny model of another kind."""
    import transformers as hf  # noqa: PLC0415 - heavy

    common = {"vocab_size": 5, "hidden_size": 8, "num_attention_heads": 2, **sizes}
    config = getattr(hf, f"{name}Config")(**common)
    return CausalModel(getattr(hf, f"{name}ForCausalLM")(config).eval())


def _slide(length: int) -> Generation:
    """Return texts of a model that sees few tokens."""
    sizes = {"num_key_value_heads": 1, "intermediate_size": 8, "num_hidden_layers": 1}
    model = _wrap("Mistral", sliding_window=6, **sizes)
    return Generation(model, ((1, 2),), length)


def test_a_text_inside_the_window_is_generated() -> None:
    """A model whose layers slide a window is a causal model up to the window's length."""
    assert len(capture(_slide(6).make_recipe()).program.state)


NONSENSE: dict[str, tuple[Callable[[], object], str]] = {
    "no prompt": (lambda: _generate(prompts=((1,), ())), "give each one token at least"),
    "no texts": (lambda: _generate(prompts=()), "give each one token"),
    "long prompt": (lambda: _generate(prompts=((1,) * 9,)), "choose a greater length"),
    "short": (lambda: _generate(length=1), "choose an integer of at least 2"),
    "training": (lambda: _generate(model=Speaker()), r"call model.eval\(\)"),
    "token": (lambda: _generate(prompts=((WORDS,),)).make_recipe(), "are 0 to 10"),
    "negative": (lambda: _generate(prompts=((-1,),)).make_recipe(), "the token -1"),
    "positions": (lambda: _generate(length=9).make_recipe(), "generate fewer"),
    "window": (lambda: _slide(7).make_recipe(), "longer than the 6 that the model sees"),
    "sliding": (
        lambda: _wrap("Gemma2", intermediate_size=8, num_hidden_layers=1, head_dim=4),
        "some layers do not attend",
    ),
    "another cache": (
        lambda: _wrap("OPT", ffn_dim=8, num_hidden_layers=1, word_embed_proj_dim=8),
        "more than its cache: .*get_seq_length.*; write a module",
    ),
    "another mask": (lambda: _wrap("Bloom", n_layer=1), "write a module"),
    "training model": (lambda: make_causal("gpt2", is_training=True), r"call model.eval\(\)"),
    "temperature": (lambda: Sampled(0.0), r"above 0, or Greedy\(\)"),
    "top": (lambda: Sampled(top_k=-1), "0 for all"),
    "other prompt": (
        lambda: prefill(_generate(), np.zeros((3, 4), np.int64), execute),
        "text 0 does not begin with its prompt",
    ),
    "other texts": (lambda: prefill(_generate(), np.zeros((2, 4), np.int64), execute), "give 3"),
    "too much": (lambda: prefill(_generate(), np.zeros((3, 9), np.int64), execute), "at most 8"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(name: str) -> None:
    """What cannot be generated or checked is refused, with what to do instead."""
    make, message = NONSENSE[name]
    with pytest.raises(UsageError, match=message):
        make()
