"""Real disputes on real models: the right claim wins, and the lie is found where it was told."""

from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

from moot.contracts.reasons import Ending, LeafMode, Outcome, Phase, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import AMPERE, HOPPER
from moot.offchain.arithmetic.tensor.blocks import BLOCKS
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.disputes.evidence.rulings import rule_for
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.play.locate import Located, Scalar, locate
from moot.offchain.programs.graph import Kind, Node
from moot.offchain.programs.semantics import count_links, get_fold
from moot.offchain.providers.catalogue import CHEATS
from moot.offchain.providers.cheats.reading import make_cheat
from moot.offchain.providers.cheats.wrong_output import WrongOutput
from moot.offchain.providers.run import Run
from tests import oracle
from tests.end_to_end.fixtures import (
    COURTS,
    NAMES,
    STEPS,
    Case,
    draw_cheat,
    get_case,
    make_game,
    operators_of,
    programs,
    run,
)
from tests.quick import every, only

SOMETHING_TAMPERED = sorted(set(CHEATS) - {"garbage-root", "silent", "false-flag"})
QUICKEST = frozenset({"mlp"})
WIDE = (EXACT, HOPPER, AMPERE)
PRECISIONS = {ORDERED: "fp32", EXACT: "fp32", HOPPER: "bf16", AMPERE: "bf16"}
QUICK_PLACES = frozenset({("mlp", "chain")})
TAMPERED = only({"wrong-output"}, SOMETHING_TAMPERED)
DRAWS_PER_PROGRAM = 34
QUICK_DRAWS = frozenset({(0, "model")})
"""Draws that are not left to the long suite; on the chain the verifier is asked as well."""

PLACES = only(QUICK_PLACES, product(NAMES, COURTS))
DRAWS = only(QUICK_DRAWS, product(range(DRAWS_PER_PROGRAM), COURTS))


def first_difference(honest: Run, cheating: Run) -> tuple[int, int, int]:
    """Return the step, operator and element at which two runs first differ, by brute force."""
    for step in range(honest.task.steps):
        mine, theirs = honest.trace(step), cheating.trace(step)
        for operator in range(mine.count - 1):
            if mine.node(0, operator) != theirs.node(0, operator):
                pair = [
                    encode_elements(run.outputs(step, [operator])[operator])
                    for run in (honest, cheating)
                ]
                width = honest.task.program.nodes[operator].dtype.width
                return step, operator, int(np.flatnonzero(pair[0] != pair[1])[0]) // width
    raise AssertionError("the runs do not differ")


def check_with_oracle(node: Node, located: Located, scalar: Scalar) -> None:
    """Compare a scalar operation's right result with the independent oracle's."""
    assert located.step is not None
    assert located.element is not None
    if node.function is Function.UNIFORM:
        expected = oracle.philox_uniform(node.seed, located.step, node.stream, located.element)
    elif node.kind in {Kind.MAP, Kind.CONTRACT} or (
        node.kind in {Kind.REDUCE, Kind.SCATTER}
        and node.function not in {Function.ARGMAX, Function.ARGMIN, Function.COPY}
        and len(scalar.operands) > 1
    ):
        types = [operand.dtype.name.lower() for operand in node.operands]
        if node.kind is not Kind.MAP:
            types = [node.dtype.name.lower()] * len(scalar.operands)
        expected = oracle.compute(scalar.function, types, node.dtype.name.lower(), scalar.operands)
    else:
        return
    assert scalar.correct == expected


def check_dispute(game: Game, case: Case, cheating: Run) -> Located:
    """Play a game of two to its end and check the verdict, the place and the oracle."""
    moves = list(game.play())
    assert moves
    assert all(name.startswith("honest") for name in game.get_winners())
    (ended,) = game.ended
    (loser,) = ended.losing_sides
    located = locate(game, ended, loser)
    step, operator, element = first_difference(case.honest, cheating)
    assert (located.step, located.operator, located.element) == (step, operator, element)
    assert located.scalar is not None
    if game.referee.arithmetic == ORDERED:
        check_with_oracle(case.task.program.nodes[operator], located, located.scalar)
    is_scalar = game.leaf_mode is LeafMode.SCALAR
    assert ended.ending is (Ending.SCALAR if is_scalar else Ending.VERIFIER)
    assert ended.board.position.phase is (Phase.LEAF if is_scalar else Phase.VERIFIER)
    return located


def ask_the_verifier(game: Game) -> Outcome:
    """Ask the bounded verifier about the whole operator that the game's only match was about."""
    (ended,) = game.ended
    board, facts = ended.board, ended.board.facts
    sides = [game.find_player(member) for member in (board.pair.first, board.pair.second)]
    first, second = (s.run.trace(facts.step).node(0, facts.operator) for s in sides if s)
    position = replace(
        board.position,
        phase=Phase.VERIFIER,
        index=facts.operator,
        entered=0,
        nodes=(first, second),
    )
    return rule_for(game.terms, replace(board, position=position), game)


@pytest.mark.parametrize("cheat", every(6, SOMETHING_TAMPERED))
@pytest.mark.parametrize(("program", "court"), PLACES)
def test_every_cheat_is_found_in_every_program(program: str, cheat: str, court: str) -> None:
    """The referee upholds the honest claim, and located is where the runs first differ."""
    check_cheat(court, program, cheat, LeafMode.SCALAR)


@pytest.mark.parametrize("cheat", TAMPERED)
@pytest.mark.parametrize("program", programs(quick=QUICKEST))
def test_the_verifier_finds_every_cheat_in_every_program(program: str, cheat: str) -> None:
    """The bounded verifier upholds the honest claim, and located is where the runs differ."""
    check_cheat("chain", program, cheat, LeafMode.OPERATOR)


@pytest.mark.parametrize("arithmetic", only({EXACT}, WIDE), ids=str)
@pytest.mark.parametrize("cheat", TAMPERED)
@pytest.mark.parametrize("program", programs(quick=QUICKEST))
def test_every_cheat_is_found_among_wide_accumulators(
    program: str, cheat: str, arithmetic: Arithmetic
) -> None:
    """The contract upholds the honest claim, too, by one term or by what finishes a fold."""
    check_cheat("chain", program, cheat, LeafMode.SCALAR, arithmetic)


def list_narrow(case: Case) -> list[int]:
    """Return an operator of each kind that reads or yields bfloat16 numbers."""
    found: dict[object, int] = {}
    for index, node in enumerate(case.task.program.nodes):
        types = (node.dtype, *(operand.dtype for operand in node.operands))
        if DType.BFLOAT16 in types and node.elements:
            found.setdefault((node.kind, node.function, types), index)
    return list(found.values())


@pytest.mark.parametrize("court", COURTS)
@pytest.mark.parametrize("program", programs(quick=QUICKEST))
def test_wrong_bits_of_mixed_precision_are_found(program: str, court: str) -> None:
    """A bit that is wrong where a number is rounded to bfloat16, or read again, loses its claim."""
    case = get_case(program, precision="bf16")
    operators = list_narrow(case)
    assert len(operators) > 1
    for index in operators:
        lie = WrongOutput(STEPS - 1, index, case.task.program.nodes[index].elements - 1, 3, 0)
        cheating = run(case.task, lie, "narrow")
        if cheating.history.top == case.honest.history.top:
            continue
        players = {"wrong-output-1": cheating, "honest-1": case.honest}
        game = make_game(COURTS[court](), case, players)
        assert check_dispute(game, case, cheating).operator == index


def list_folds(case: Case) -> list[tuple[int, int]]:
    """Return an operator of each kind of fold, with its number of steps."""
    found, arithmetic = {}, case.task.program.arithmetic
    for index, node in enumerate(case.task.program.nodes):
        if node.kind.folds and node.elements:
            types = node.dtype, node.operands[1].dtype
            kind = (node.kind, node.function, *types, node.fold_length > 17)
            found.setdefault(kind, (index, count_links(arithmetic, node)))
    return list(found.values())


@pytest.mark.parametrize("arithmetic", only({HOPPER}, WIDE), ids=str)
@pytest.mark.parametrize("program", programs(quick=QUICKEST))
def test_no_step_of_a_fold_can_be_told_wrong(program: str, arithmetic: Arithmetic) -> None:
    """A wrong fold loses, whether its first step, or its last one, is told wrong.

    The last step of a sum finishes it. Other folds are played on the chain, whose leaf hands them
    on to that of `ordered`; and of chains of blocks so is the step that fills one.
    """
    case = get_case(program, arithmetic=arithmetic.name, precision=PRECISIONS[arithmetic])
    for index, links in list_folds(case):
        node = case.task.program.nodes[index]
        is_exact = not get_fold(arithmetic, node).is_finished and not node.has_short_factors
        element, court = node.elements - 1, "model" if is_exact else "chain"
        full = {BLOCKS[arithmetic.name].pairs - 1} if node.has_short_factors else set()
        for position in sorted(place for place in {0, links - 1} | full if place < links):
            lie = WrongOutput(STEPS - 1, index, element, 3, position)
            cheating = run(case.task, lie, "fold")
            if cheating.history.top == case.honest.history.top:
                continue
            players = {"wrong-output-1": cheating, "honest-1": case.honest}
            game = make_game(COURTS[court](arithmetic), case, players)
            assert check_dispute(game, case, cheating).fold_index == position


def check_cheat(
    court: str, program: str, cheat: str, leaf: LeafMode, arithmetic: Arithmetic = ORDERED
) -> None:
    """Play a cheat against an honest provider."""
    case = get_case(program, arithmetic=arithmetic.name, precision=PRECISIONS[arithmetic])
    cheating = draw_cheat(case, cheat, seed=11)
    players = {f"{cheat}-1": cheating, "honest-1": case.honest}
    check_dispute(make_game(COURTS[court](arithmetic), case, players, leaf), case, cheating)


@pytest.mark.parametrize("court", COURTS)
@pytest.mark.parametrize("leaf", list(LeafMode))
@pytest.mark.parametrize("cheat", ["garbage-root", "silent"])
@pytest.mark.parametrize("program", programs(quick=QUICKEST))
def test_claims_without_a_run_lose_on_the_clock(
    program: str, cheat: str, leaf: LeafMode, court: str
) -> None:
    """Who cannot or will not move loses."""
    case = get_case(program)
    cheating = draw_cheat(case, cheat, seed=3)
    players = {f"{cheat}-1": cheating, "honest-1": case.honest}
    game = make_game(COURTS[court](), case, players, leaf)
    assert list(game.play())
    assert game.get_winners() == ["honest-1"]
    assert game.ended[-1].ending is Ending.CLOCK


@pytest.mark.parametrize("court", only(["chain"], COURTS))
@pytest.mark.parametrize("leaf", only({LeafMode.SCALAR}, LeafMode))
@pytest.mark.parametrize("program", programs(quick=QUICKEST))
def test_a_false_flag_does_not_bring_its_claim_down(
    program: str, leaf: LeafMode, court: str
) -> None:
    """The honest claim wins, and its honest member, when another one defends it badly."""
    case = get_case(program)
    flag = draw_cheat(case, "false-flag", seed=3)
    accomplice = draw_cheat(case, "wrong-output", seed=4)
    players = {"false-flag-1": flag, "honest-1": case.honest, "wrong-output-1": accomplice}
    game = make_game(COURTS[court](), case, players, leaf)
    assert list(game.play())
    assert "honest-1" in game.get_winners()
    assert "wrong-output-1" not in game.get_winners()


@lru_cache(maxsize=1)
def draw_wrong_output(program: str, draw: int) -> Run:
    """Run a lie about one bit of an operator's output; each kind of operator gets its turn."""
    case = get_case(program)
    rng = np.random.default_rng([draw, *program.encode()])
    kinds = [kind for kind in Kind if operators_of(case.task, kind)]
    operators = operators_of(case.task, kinds[draw % len(kinds)])
    for attempt in range(64):
        operator = int(rng.choice(operators))
        step = int(rng.integers(case.task.steps))
        text = f"wrong-output:step={step},operator={operator}"
        behaviour = make_cheat(text, case.task, np.random.default_rng(attempt))
        cheating = run(case.task, behaviour, "cheat")
        if cheating.history.top != case.honest.history.top:
            return cheating
    raise AssertionError("no lie changes anything")


@pytest.mark.parametrize(("draw", "court"), DRAWS)
@pytest.mark.parametrize("program", programs(quick=frozenset({"mlp"})))
def test_random_cheats_are_found(program: str, draw: int, court: str) -> None:
    """Whatever bit of whatever element of whatever operator is flipped, the referee finds it.

    Every operator kind of the program gets its turn; honest and dishonest side take turns at
    opening first.
    """
    case = get_case(program)
    cheating = draw_wrong_output(program, draw)
    sides = {"wrong-output-1": cheating, "honest-1": case.honest}
    players = sides if draw % 2 else dict(reversed(sides.items()))
    game = make_game(COURTS[court](), case, players, seed=draw)
    located = check_dispute(game, case, cheating)
    if court == "chain":
        assert ask_the_verifier(game) is game.ended[0].outcome
    behaviour = cheating.behaviour
    assert isinstance(behaviour, WrongOutput)
    assert (located.step, located.operator) == (behaviour.step, behaviour.operator)
    assert located.element == behaviour.element
    if located.fold_index is not None:
        assert located.fold_index == behaviour.position


def make_worthless(step: int, operator: int) -> list[Array | None]:
    """Return tensors that nobody has claimed, in place of an operator's operands."""
    node = get_case("mlp").task.program.nodes[operator]
    return [np.full(3, step, np.float32) for _ in node.operands]


@pytest.mark.parametrize("court", COURTS)
def test_two_that_show_the_verifier_nothing_do_not_void_the_job(
    court: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two liars meet and show the bounded verifier nothing of worth: both lose, honesty is paid."""
    case = get_case("mlp")
    players = {f"wrong-output-{seed}": draw_cheat(case, "wrong-output", seed) for seed in (3, 4)}
    for liar in players.values():
        monkeypatch.setattr(liar, "operands", make_worthless)
    players["honest-1"] = case.honest
    game = make_game(COURTS[court](), case, players, LeafMode.OPERATOR)
    assert list(game.play())
    assert (game.ended[0].ending, game.ended[0].outcome) == (Ending.VERIFIER, Outcome.NEITHER)
    assert game.get_winners() == ["honest-1"]
    assert game.referee.job(game.job_id).status is Status.WON
