"""Data-parallel workers, real processes over gloo, come to the state of one that has it all."""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT, is_sum
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cpu import partial_sums
from moot.offchain.backends.cpu.engines import get_engine
from moot.offchain.commitments.tensors import compute_state_root, compute_tensor_root
from moot.offchain.errors import ParallelError, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.capture.captured import Captured
from moot.offchain.frontend.examples.language import LanguageSize, build_gpt2
from moot.offchain.frontend.examples.vision import VisionSize, build_cnn, build_mlp
from moot.offchain.parallel.launch import train
from moot.offchain.parallel.partition import Share, make_cuts, partition, partition_batches
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.wrong_output import WrongOutput
from moot.offchain.providers.task import Task
from tests.end_to_end.fixtures import COURTS, Case, make_game, run
from tests.end_to_end.test_disputes import check_dispute

STEPS = 2
SAMPLES = 5
SPLITS = ((5,), (4, 1), (2, 0, 3), (1, 1, 1, 1, 1, 0, 0, 0))
RECIPES = {
    "mlp": lambda: build_mlp(VisionSize(SAMPLES, (16,)), 0, inference=False),
    "gpt2": lambda: build_gpt2(
        LanguageSize(SAMPLES, tokens=8, layers=2, width=32, heads=4, inner=64),
        0,
        None,
        inference=False,
    ),
    "cnn": lambda: build_cnn(VisionSize(SAMPLES, (4, 8)), 0, inference=False),
}


@cache
def get_captured(name: str, arithmetic: Arithmetic) -> Captured:
    """Return a program with a batch of five samples."""
    return capture(RECIPES[name](), trust=True, arithmetic=arithmetic)


def train_alone(captured: Captured) -> list[bytes]:
    """Return the roots of the states by the executor of a single process."""
    executor, state, roots = Executor(captured.program), captured.initial_state, []
    for step in range(STEPS):
        state = executor.run(state, captured.batch(step), step)
        roots.append(compute_state_root([compute_tensor_root(tensor) for tensor in state]))
    return roots


def train_together(captured: Captured, shares: tuple[int, ...], **others: object) -> list[bytes]:
    """Return the roots of the states by workers."""
    batches = [captured.batch(step) for step in range(STEPS)]
    return train(captured.program, captured.initial_state, batches, shares, **others)  # type: ignore[arg-type]  # the options of a test


@pytest.mark.parametrize("shares", [(3, 2)])
def test_two_workers_come_to_the_root_of_one(shares: tuple[int, ...]) -> None:
    """Workers with uneven parts of the batch come to the state of the executor in one process."""
    captured = get_captured("mlp", EXACT)
    assert train_together(captured, shares) == train_alone(captured)


@pytest.mark.device
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch has no NVIDIA device")
def test_a_worker_on_a_device_comes_to_the_root_of_one() -> None:
    """Over nccl, with as many workers as there are devices, the root is the same."""
    captured, workers = get_captured("mlp", EXACT), min(torch.cuda.device_count(), SAMPLES)
    shares = (SAMPLES - workers + 1, *[1] * (workers - 1))
    assert train_together(captured, shares, exchange="nccl") == train_alone(captured)


def test_an_exchange_that_is_not_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what nccl needs and what there is; another name is none."""
    captured = get_captured("mlp", EXACT)
    with pytest.raises(UsageError, match="exchange"):
        train_together(captured, (3, 2), exchange="mpi")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    with pytest.raises(ParallelError, match=r"device for each of 2 workers, and there are 1; use"):
        train_together(captured, (3, 2), exchange="nccl")
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(ParallelError, match=r"this torch has no nccl; install .* over gloo$"):
        train_together(captured, (3, 2), exchange="nccl")


@pytest.mark.slow
@pytest.mark.parametrize("shares", SPLITS)
@pytest.mark.parametrize("arithmetic", [EXACT, ORDERED], ids=lambda a: a.name)
@pytest.mark.parametrize("name", RECIPES)
def test_any_split_comes_to_one_root(
    name: str, arithmetic: Arithmetic, shares: tuple[int, ...]
) -> None:
    """One, two, three and eight workers, some without a sample, come to one root."""
    captured = get_captured(name, arithmetic)
    assert train_together(captured, shares) == train_alone(captured)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_the_gradients_sums_are_shared_out(name: str) -> None:
    """With `exact`, workers sum up parts of every contraction over the batch, and gather none."""
    program = get_captured(name, EXACT).program
    parts = partition(program, make_cuts((3, 2), SAMPLES)).parts
    pairs = list(zip(program.nodes, parts, strict=True))
    assert sum(part.share is Share.FOLD for _, part in pairs) > 1
    assert not any(part.whole for node, part in pairs if node.kind is Kind.CONTRACT)


BATCHES = 4


@cache
def get_accumulated(name: str) -> Captured:
    """Return a program in `ordered` whose step has four batches, one after the other."""
    return capture(replace(RECIPES[name](), accumulate=BATCHES), trust=True)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(4,), (2, 2), (2, 1, 1), (0, 4), (1, 1, 1, 1)])
@pytest.mark.parametrize("name", RECIPES)
def test_batches_may_be_anybodys(name: str, shares: tuple[int, ...]) -> None:
    """One, two, three and four workers come to one root, with batch norm and dropout, too."""
    captured = get_accumulated(name)
    assert train_together(captured, shares, accumulated=BATCHES) == train_alone(captured)


@pytest.mark.slow
def test_a_worker_computes_what_depends_on_its_batches() -> None:
    """Nearly all is done by one worker, and only gradients and losses are exchanged."""
    program = get_accumulated("gpt2").program
    division = partition_batches(program, make_cuts((1, 1, 1, 1), BATCHES, "batches"))
    owned = [
        node.elements * node.fold_length
        for node, part in zip(program.nodes, division.parts, strict=True)
        if part.share is Share.OWNED
    ]
    whole = sum(node.elements * node.fold_length for node in program.nodes)
    assert sum(owned) > 0.9 * whole
    assert {part.owner for part in division.parts if part.share is Share.OWNED} == {0, 1, 2, 3}
    exchanged = [place for part in division.parts for place in part.whole]
    assert len(exchanged) < BATCHES * (len(program.state) + 2)


@pytest.mark.slow
def test_a_liar_among_the_workers_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that flips a bit spoils the claim; a dispute finds its operator, and so it."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    captured, shares = get_accumulated("mlp"), (2, 1, 1)
    division = partition_batches(captured.program, make_cuts(shares, BATCHES, "batches"))
    task = Task(captured.program, captured.initial_state, captured.batch, STEPS, 1)
    case = Case(task, run(task, Behaviour(), "honest"))
    products = [i for i, n in enumerate(captured.program.nodes) if n.kind is Kind.CONTRACT]
    lie = next(index for index in products if division.find_owner(index) == 1)
    elements = range(captured.program.nodes[lie].elements)
    lies = (WrongOutput(1, lie, element, 30, 0) for element in elements)
    runs = ((each.element, run(task, each, "lying")) for each in lies)
    top = case.honest.history.top  # an element may not matter: rectified, it is 0 in any case
    element, lying = next((e, r) for e, r in runs if r.history.top != top)
    code = (
        "from moot.offchain.parallel import execution\n"
        "from moot.offchain.providers.cheats.drawing import flip_bit\n"
        "compute = execution.ParallelExecutor._compute\n"
        "def lie(self, index, tensors, step):\n"
        "    output = compute(self, index, tensors, step)\n"
        f"    is_lie = (index, step) == ({lie}, 1)\n"
        f"    return flip_bit(output, {element}, 30) if is_lie else output\n"
        "execution.ParallelExecutor._compute = lie\n"
    )
    cheat = {1: write_worker(tmp_path / "liar.py", code)}
    roots = train_together(captured, shares, accumulated=BATCHES, commands=cheat)
    assert roots[0] == train_alone(captured)[0]
    assert roots[1] not in train_alone(captured)
    game = make_game(COURTS["model"](), case, {"workers-1": lying, "honest-1": case.honest})
    located = check_dispute(game, case, lying)
    assert located.operator is not None
    assert division.find_owner(located.operator) == 1


@pytest.mark.slow
def test_a_worker_that_sends_other_shapes_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that exchange more or less than the others are told apart, with one error."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    code = (
        "from moot.offchain.parallel import worker\n"
        "add_up = worker.Group.add_up\n"
        "worker.Group.add_up = lambda self, array: add_up(self, array[:-1].copy())\n"
    )
    cheat = {1: write_worker(tmp_path / "short.py", code)}
    with pytest.raises(ParallelError, match=r"worker \d ended: "):
        train_together(get_captured("mlp", EXACT), (3, 2), commands=cheat, patience_s=60)


def test_batches_that_a_step_does_not_have_are_not_shared_out() -> None:
    """The line says what to do."""
    captured = get_captured("mlp", ORDERED)
    with pytest.raises(ParallelError, match="not those of 3 batches; capture a recipe that"):
        train_together(captured, (2, 1), accumulated=3)
    with pytest.raises(ParallelError, match="no split of the batch's 4 batches"):
        train_together(get_accumulated("mlp"), (2, 1), accumulated=BATCHES)


def write_worker(path: Path, code: str) -> list[str]:
    """Return the command of a worker that runs some code first."""
    path.write_text(f"{code}\nfrom moot.offchain.parallel import worker\nworker.main()\n")
    return [sys.executable, str(path)]


@pytest.mark.slow
def test_a_sum_that_is_left_out_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that adds nothing to the others' sums spoils the root."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    code = (
        "from moot.offchain.backends.cpu import partial_sums\n"
        "add_terms = partial_sums.add_terms\n"
        "partial_sums.add_terms = lambda *given: 0 * add_terms(*given)"
    )
    captured = get_captured("mlp", EXACT)
    cheat = {1: write_worker(tmp_path / "cheat.py", code)}
    assert train_together(captured, (3, 2), commands=cheat)[0] != train_alone(captured)[0]


def test_a_worker_that_dies_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a worker ends, so do all, with one error that says which and why."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    dead = {1: write_worker(tmp_path / "dead.py", "raise SystemExit('out of patience')")}
    with pytest.raises(ParallelError, match="worker 1 ended: out of patience"):
        train_together(get_captured("mlp", EXACT), (3, 2), commands=dead)


@pytest.mark.parametrize("shares", [(3, 3), (6, -1), ()])
def test_shares_are_a_split(shares: tuple[int, ...]) -> None:
    """Shares that are no split of the batch are refused before anything starts."""
    with pytest.raises(ParallelError, match="no split of the batch's 5 samples"):
        train_together(get_captured("mlp", EXACT), shares)


HOSTILE = np.array(
    [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 3.4e38, -3.4e38, 1.5e-39, np.inf, -np.inf, np.nan],
    np.float32,
)


@pytest.mark.parametrize("seed", range(20))
def test_parts_add_up_to_the_definition_s(seed: int) -> None:
    """Parts of hostile sums, in whole numbers, make what the engine makes of the whole sum."""
    rng = np.random.default_rng(seed)
    m, k, n = rng.integers(1, 6, 3)
    pool = HOSTILE if seed % 2 else HOSTILE[:9]
    a, b = (rng.choice(pool, size) for size in ((m, k), (k, n)))
    init = rng.choice(pool, (m, n))
    node = make_product(int(m), int(k), int(n))
    expected = get_engine(EXACT).plan(node).run([init, a, b], 0)
    cut = int(rng.integers(0, k + 1))
    limbs = sum(
        partial_sums.add_terms(
            make_product(int(m), stop - first, int(n)),
            [None, a[:, first:stop].copy(), b[first:stop]],
        )
        for first, stop in ((0, cut), (cut, int(k)))
        if stop > first
    )
    assert isinstance(limbs, np.ndarray)
    found = partial_sums.finish(node, init, limbs)
    np.testing.assert_array_equal(found.view(np.uint32), canonical(expected).view(np.uint32))


def canonical(array: np.ndarray) -> np.ndarray:
    """Return the array with one pattern for all NaN."""
    return np.where(np.isnan(array), np.uint32(float32.NAN).view(np.float32), array)


def make_product(m: int, k: int, n: int) -> Node:
    """Return the product of two matrices."""
    f32 = DType.FLOAT32
    rows = (
        (Row(m, terms=((0, 1),)), Row(n, terms=((1, 1),))),
        (Row(m, terms=((0, 1),)), Row(k, terms=((2, 1),))),
        (Row(k, terms=((2, 1),)), Row(n, terms=((1, 1),))),
    )
    operands = tuple(Operand(Origin.NODE, f32, place, rows=r) for place, r in enumerate(rows))
    assert is_sum(Function.FMA, f32)
    return Node(Kind.CONTRACT, Function.FMA, f32, (m, n), operands, (k,))
