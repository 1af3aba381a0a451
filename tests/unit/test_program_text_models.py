"""Tiny text models against torch, and sampled elements of them against the readable semantics."""

import copy
from functools import cache

import pytest
import torch
from transformers.models.t5.modeling_t5 import T5Attention

from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples import build
from moot.offchain.programs.catalogue import TEXT_NAMES
from moot.offchain.programs.graph import Kind
from tests.model_helpers import (
    check_encoding,
    check_inference,
    check_semantics,
    check_training,
    get_inference,
    get_plain,
)
from tests.program_helpers import assert_close, capture_function
from tests.quick import every, only


@pytest.mark.parametrize("name", only(["gpt2"], TEXT_NAMES))
def test_training_is_torch_s(name: str) -> None:
    """Three steps of plain gradient descent have torch's losses, parameters and buffers."""
    check_training(name)


@pytest.mark.parametrize("name", only(["mixtral", "t5"], TEXT_NAMES))
def test_inference_is_torch_s(name: str) -> None:
    """An inference's logits are torch's."""
    check_inference(name)


@pytest.mark.parametrize("name", every(12, TEXT_NAMES))
def test_operators_follow_the_semantics(name: str) -> None:
    """Of every operator of a training step, some elements are what the specification says."""
    check_semantics(get_plain(name)[1])


@pytest.mark.parametrize("name", every(12, TEXT_NAMES))
def test_programs_survive_their_encoding(name: str) -> None:
    """Programs decode to themselves, and no operator is longer than allowed."""
    check_encoding(get_plain(name)[1])
    check_encoding(get_inference(name)[1])


def test_dense_experts_are_the_sparse_ones() -> None:
    """Mixtral with all experts computed has the library's own sparse logits and gradients."""
    recipe, _ = get_plain("mixtral")
    sparse = copy.deepcopy(recipe.model)
    sparse.config._experts_implementation = "eager"  # type: ignore[union-attr]  # a module's config
    losses = [recipe.loss(model, *recipe.batch(0)) for model in (recipe.model, sparse)]
    assert_close(losses[0].item(), losses[1].item())
    found, expected = (
        torch.autograd.grad(loss, list(model.parameters()))
        for loss, model in zip(losses, (recipe.model, sparse), strict=True)
    )
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y)


def test_experts_are_chosen_by_data() -> None:
    """The routing differs between tokens: each expert is chosen by some and left by others."""
    program = get_inference("mixtral")[1].program
    assert any("topk" in name for name in program.names)


@pytest.mark.parametrize("is_bidirectional", [True, False])
def test_t5_s_buckets_are_torch_s(*, is_bidirectional: bool) -> None:
    """Relative positions fall into exactly the buckets that torch's rounding puts them into."""

    def find_buckets(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = T5Attention._relative_position_bucket(x, is_bidirectional)
        return found

    positions = torch.arange(-700, 701)
    captured = capture_function(find_buckets, positions)
    found = Executor(captured.program).run(captured.initial_state, captured.batch(0), 0)[-1]
    assert (found == find_buckets(positions).numpy()).all()


@cache
def capture_gpt2() -> Captured:
    """Return the tiny GPT-2's own training, which the rehearsal has compared with torch."""
    return capture(build("gpt2"))


@pytest.mark.slow
def test_gpt2_keeps_its_dropout() -> None:
    """GPT-2's seven dropouts of two layers are random operators with streams of their own."""
    program = capture_gpt2().program
    noise = [node for node in program.nodes if node.kind is Kind.RANDOM]
    assert [node.stream for node in noise] == list(range(7))
    assert {node.seed for node in noise} == {0}


def test_gpt2_has_the_operators_that_we_speak_of() -> None:
    """The tiny GPT-2 has about a thousand operators, mm_17 among them, and lines of its model."""
    program = capture_gpt2().program
    assert 700 < len(program.nodes) < 1_300
    assert program.nodes[program.names.index("mm_17")].kind is Kind.CONTRACT
    assert "modeling_gpt2.py" in program.lines[program.names.index("_softmax_1.sum")]
