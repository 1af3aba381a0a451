"""Leaves and matches of a case: shown by an honest run, computed by model and bytecode."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from moot.contracts.model.leaf import Context, compute_leaf
from moot.contracts.model.types import Address, Facts
from moot.contracts.reasons import Revert
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.play.openings import make_leaf
from moot.offchain.disputes.referee.port import ModelReferee
from moot.offchain.programs.graph import Origin
from moot.offchain.programs.semantics import (
    compute_element,
    compute_partials,
    count_links,
    finish,
)
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.drawing import get_bits
from moot.offchain.providers.cheats.wrong_output import WrongOutput
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from tests.fuzz.compare import DifferenceError, fetcher
from tests.fuzz.draws import Case
from tests.referee.leaf_contract import get_leaf


@contextmanager
def running(case: Case, behaviour: Behaviour) -> Iterator[Run]:
    """Run a case for two steps from its state, which are then agreed."""
    with tempfile.TemporaryDirectory(prefix="moot-fuzz-") as directory:
        yield _start(case, behaviour, Path(directory))


def _start(case: Case, behaviour: Behaviour, directory: Path) -> Run:
    task = Task(case.program, case.state, lambda _: case.batch, steps=2, checkpoint_every=2)
    run = Run(task, behaviour, Store(directory), threads=1)
    run.compute()
    return run


def check_leaves(case: Case, rng: Random, count: int) -> int:
    """Compare leaves of a case with the definition; return how many.

    Raises:
        DifferenceError: the evidence, the model or the bytecode does not lead to what is defined.
    """
    program = case.program
    places = [i for i, node in enumerate(program.nodes) if node.elements]
    if not places:
        return 0
    with running(case, Behaviour()) as run:
        for _ in range(count):
            index, step = rng.choice(places), rng.randrange(2)
            _check_leaf(run, step, index, rng)
    return count


def _check_leaf(run: Run, step: int, index: int, rng: Random) -> None:
    task, node = run.task, run.task.program.nodes[index]
    element = rng.choice((0, node.elements - 1, rng.randrange(node.elements)))
    pools: dict[Origin, Any] = {
        Origin.NODE: run.outputs(step, node.inputs),
        Origin.STATE: run.state(step),
        Origin.BATCH: task.batch(step),
    }
    low = low_bits = 0
    arithmetic = task.program.arithmetic
    if node.kind.folds:
        chain = compute_partials(arithmetic, node, element, step, fetcher(pools))
        last = max(count_links(arithmetic, node) - 1, 0)
        if last == node.fold_length:
            chain.append(finish(arithmetic, node, chain[-1]))
        low = rng.choice((0, last, rng.randrange(last + 1)))
        low_bits = chain[low] if low else 0
        right = chain[min(low + 1, len(chain) - 1)]
    else:
        right = compute_element(arithmetic, node, element, step, fetcher(pools))
    facts = Facts(step=step, operator=index, element=element, low=low, low_bits=low_bits)
    leaf = make_leaf(run, facts)
    context = Context(
        trace_top=run.trace(step).top,
        operators=len(task.program.nodes),
        before=task.start_root if step == 0 else run.interval(0).node(0, 0),
        state_slots=len(task.program.state),
        data_top=task.data_tree.top if task.data_tree else bytes(32),
        batch_slots=len(task.program.batch),
        steps=task.steps,
        step=step,
        element=element,
        position=low,
        accumulator=low_bits,
    )
    try:
        modelled: int | str = compute_leaf(arithmetic, context, node, leaf.evidence)
    except Revert as refusal:
        modelled = str(refusal)
    encoding = task.commitment.encodings[index]
    found = get_leaf(arithmetic).compute(context, encoding, leaf.evidence)
    if not leaf.result == modelled == found == right:
        raise DifferenceError(
            f"leaf: operator {index}, element {element}, fold step {low}: the evidence's "
            f"{leaf.result}, the model's {modelled}, the contract's {found} for {right}"
        )


def check_match(case: Case, rng: Random) -> bool:
    """Play a match about one wrong bit on the model, and return whether there was one.

    Raises:
        DifferenceError: the honest side does not win, or the game comes to no end.
    """
    program = case.program
    places = [i for i, node in enumerate(program.nodes) if node.elements]
    if not places:
        return False
    index = rng.choice(places)
    node = program.nodes[index]
    lie = WrongOutput(
        step=rng.randrange(2),
        operator=index,
        element=rng.randrange(node.elements),
        bit=rng.randrange(get_bits(node.dtype)),
        position=rng.randrange(max(1, count_links(program.arithmetic, node))),
    )
    with running(case, Behaviour()) as honest, running(case, lie) as liar:
        if honest.history_root == liar.history_root:
            return False
        runs = (honest, liar) if rng.random() < 0.5 else (liar, honest)
        try:
            winners = list_winners(*runs)
        except Exception as error:
            raise DifferenceError(f"match: no end: {error!r}") from error
        if winners != [("first", "second")[runs.index(honest)]]:
            raise DifferenceError(f"match: {winners} won about operator {index}")
    return True


def list_winners(first: Run, second: Run) -> list[str]:
    """Play a game of two on the model, and return who is left with the winning claim."""
    client, *accounts = [Address(f"0x{number:040x}") for number in (1, 2, 3)]
    arithmetic = first.task.program.arithmetic
    balances = dict.fromkeys((client, *accounts), 10**21)
    referee = ModelReferee(balances, arithmetic=arithmetic)
    pairs = zip(("first", "second"), accounts, (first, second), strict=True)
    game = Game(referee, first.task, client, [Player(*each) for each in pairs])
    for _ in game.play():
        pass
    return game.get_winners()
