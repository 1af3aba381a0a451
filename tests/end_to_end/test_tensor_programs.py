"""Programs whose products tensor cores compute: captured, refused, run, and told by the command."""

import json
from collections.abc import Callable

import pytest
import torch

import moot
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.tensor import HOPPER, TENSOR
from moot.offchain.errors import UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.programs.catalogue import NAMES
from moot.offchain.programs.graph import Kind
from tests.end_to_end.command import complaint
from tests.end_to_end.command import moot as run_moot
from tests.quick import only


@pytest.mark.parametrize("name", only({"mlp", "gpt2"}, NAMES))
def test_products_under_autocast_are_of_bfloat16(name: str) -> None:
    """Every product of an example is captured as a chain of blocks, and agrees with eager torch."""
    captured = capture(set_precision(build(name), "bf16"), arithmetic=HOPPER)
    assert captured.is_rehearsed
    products = [node for node in captured.program.nodes if node.kind is Kind.CONTRACT]
    assert products
    assert all(node.has_short_factors for node in products)


WIDENINGS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "float": torch.Tensor.float,
    "a column of it": lambda x: x.float()[:, :6],
    "copied": lambda x: torch.zeros(x.shape).copy_(x),
    "joined": lambda x: torch.cat([x, torch.zeros(0, x.shape[1])]),
    "summed": lambda x: x[None].sum(0, dtype=torch.float32),
}


@pytest.mark.parametrize("name", WIDENINGS)
def test_what_a_model_widens_is_multiplied_in_binary32(name: str) -> None:
    """Numbers of bfloat16 that the model itself has in float32 are no factors of a chain."""
    widen = WIDENINGS[name]
    factors = torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(4)).bfloat16()

    def forward(_: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [widen(x) @ widen(y), widen(x) @ torch.ones(6, 2), x @ y]

    recipe = InferenceRecipe(torch.nn.Module(), forward, lambda _: (*factors,))
    program = capture(recipe, arithmetic=HOPPER).program
    products = [node for node in program.nodes if node.kind is Kind.CONTRACT]
    assert [node.has_short_factors for node in products] == [False, False, True]


@pytest.mark.parametrize("arithmetic", TENSOR, ids=str)
def test_a_program_is_computed_as_it_is_defined(arithmetic: Arithmetic) -> None:
    """Kernels and definition make the same of a step, and another than the other generation's."""
    captured = capture(set_precision(build("mlp"), "bf16"), trust=True, arithmetic=arithmetic)
    program, state, batch = captured.program, captured.initial_state, captured.batch(0)
    found = Executor(program).run(state, batch, 0)
    defined = run_step(program, state, batch, 0)
    assert [a.tobytes() for a in found] == [a.tobytes() for a in defined]


def test_a_program_that_gains_nothing_is_refused() -> None:
    """In binary32 it would compute what `ordered` does: one line says what to choose."""
    with pytest.raises(UsageError, match="hopper brings nothing; choose ordered, or bf16"):
        moot.capture("mlp", arithmetic="hopper")
    line = complaint(run_moot("dispute", "--program", "mlp", "--arithmetic", "ampere"), status=2)
    assert "brings nothing; choose ordered" in line


def test_a_dispute_names_the_block() -> None:
    """The command finds a lie in a block's sum, and tells how many of its products wait."""
    words = ("dispute", "--program", "mlp", "--precision", "bf16", "--arithmetic", "hopper")
    lie = ("--cheat", "wrong-output:operator=addmm.mm,position=9")
    told = json.loads(run_moot(*words, *lie, "--json").stdout)
    scalar = told["located"]["scalar"]
    assert scalar["function"] == "fma"
    assert scalar["words"][1].endswith("before a block of 10 products")
