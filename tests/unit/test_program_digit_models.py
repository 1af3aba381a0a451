"""Tiny digit models against torch, and sampled elements of them against the readable semantics."""

import pytest

from moot.offchain.programs.catalogue import DIGIT_NAMES
from moot.offchain.programs.graph import Kind
from tests.model_helpers import (
    check_encoding,
    check_inference,
    check_semantics,
    check_training,
    get_inference,
    get_plain,
)
from tests.quick import only

LEARNED = only(["mlp", "resnet"], DIGIT_NAMES)


@pytest.mark.parametrize("name", LEARNED)
def test_training_is_torch_s(name: str) -> None:
    """Steps of plain gradient descent have torch's losses, parameters and buffers.

    MobileNet takes one: a rounding that moves a value across a kink of its many rectifiers grows
    from step to step in any arithmetic, torch's in double precision included.
    """
    check_training(name, steps=1 if name == "mobilenet" else 3)


@pytest.mark.parametrize("name", only(["mlp", "cnn", "vit", "whisper"], DIGIT_NAMES))
def test_inference_is_torch_s(name: str) -> None:
    """An inference's logits are torch's."""
    check_inference(name)


@pytest.mark.parametrize("name", LEARNED)
def test_operators_follow_the_semantics(name: str) -> None:
    """Of every operator of a training step, some elements are what the specification says."""
    check_semantics(get_plain(name)[1])


@pytest.mark.parametrize("name", LEARNED)
def test_programs_survive_their_encoding(name: str) -> None:
    """Programs decode to themselves, and no operator is longer than allowed."""
    check_encoding(get_plain(name)[1])
    check_encoding(get_inference(name)[1])


def test_whisper_s_positions_are_frozen() -> None:
    """The sinusoidal positions have no gradient: a step returns what it was given."""
    recipe, captured = get_plain("whisper")
    name = "parameter.encoder.embed_positions.weight"
    state = [slot.name for slot in captured.program.state]
    assert not recipe.model.get_parameter(name.removeprefix("parameter.")).requires_grad
    sink = captured.program.nodes[captured.program.first_sink + state.index(name)]
    source = captured.program.nodes[sink.operands[0].reference]
    assert source.kind is Kind.SOURCE


def test_mobilenet_has_grouped_convolutions() -> None:
    """Depthwise convolutions are contractions over the places of one channel's window alone."""
    program = get_inference("mobilenet")[1].program
    folds = [n.fold_shape for n in program.nodes if n.kind is Kind.CONTRACT]
    assert (1, 3, 3) in folds
