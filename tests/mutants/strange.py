"""Stories of members who present data that contradict their claim, or that no run can produce."""

from collections.abc import Iterator
from dataclasses import replace

from moot.contracts.model.types import ZERO, Dive, Pair
from moot.contracts.reasons import Phase
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Tree, hash_root
from moot.offchain.disputes.play.descents import make_dive, open_top
from moot.offchain.disputes.referee.board import Board
from moot.sim.synthetic.operators import OperatorRun
from moot.sim.synthetic.products import Lie
from moot.sim.synthetic.run_length import RunLengthTensor
from tests.mutants import operators
from tests.mutants.operators import BATCH, EMPTY, F32, Table
from tests.mutants.plans import SIZE, make_table
from tests.mutants.replay import Call
from tests.mutants.tape import CLIENT, SALT

MAX_SIBLINGS = 8


def tell_strange() -> Iterator[list[Call]]:
    """Yield the stories."""
    in_state = [Lie(2, SIZE.operators, mask=mask) for mask in (1, 2)]
    for lies in ([None, *in_state], [in_state[0], None, in_state[1]]):
        yield _enter_another(lies)
    yield _enter_twice()
    yield _show_without_proof()
    for number in (0, 1):
        yield _enter_from_an_operator(number)
        yield _show_a_long_chunk(number)
    yield _give_most_siblings()
    yield _come_too_early()
    yield _decide_alone()


def _play_to(phase: Phase, *lies: Lie | None) -> Table:
    """Return a job whose first match has come to a phase."""
    table = make_table(*lies)
    table.begin()
    table.play(phase, is_bent=False)
    return table


def _enter_another(lies: list[Lie | None]) -> list[Call]:
    """The second to enter the state shows a third member's, well opened."""
    table = _play_to(Phase.STATE, *lies)
    (pair, board), *_ = table.boards.items()
    _, sender, _ = table.find(board)
    tree = list(table.seats.values())[2].state_tree(board.facts.step + 1)
    dive = open_top(tree)
    if board.position.level > board.position.span:
        below = make_dive(tree, board.position, board.nodes)
        assert below is not None
        dive = below
    table.try_in_vain("enter_state", sender, pair, board.position, tree.top, dive)
    return table.tape.calls


def _walk(table: Table) -> Iterator[tuple[Pair, Board]]:
    """Yield a match, and how it stands, before each of its moves; these are made meanwhile."""
    while table.boards:
        (pair, board), *_ = table.boards.items()
        yield pair, board
        name, sender, args = table.find(board)
        assert table.call(name, sender, *args) is None


def _enter_twice() -> list[Call]:
    """Nobody enters the state once both have."""
    table = _play_to(Phase.STATE, None, Lie(2, SIZE.operators))
    for pair, board in _walk(table):
        if board.position.entered == 2:
            _, sender, _ = table.find(board)
            tree = table.seats[sender].state_tree(board.facts.step + 1)
            dive = open_top(tree)
            table.try_in_vain("enter_state", sender, pair, board.position, tree.top, dive)
            break
    return table.tape.calls


def _show_without_proof() -> list[Call]:
    """A program whose top is nothing is led to by no proof, not even by one that ends early."""
    table = make_table(None, Lie(2), program_top=ZERO)
    table.begin()
    for _, board in _walk(table):
        name, sender, args = table.find(board)
        if name == "enter_tensor":
            table.try_in_vain(name, sender, *args[:4], (), *args[5:])
            break
    return table.tape.calls


class _Strange(OperatorRun):
    """A member in whose trace a state stands where the operator's output should."""

    def trace(self, step: int) -> Tree:
        """Return the tree over the outputs of the last step, and the state after it."""
        tree, state = super().trace(step), self.state_tree(step)
        leaves = [tree.node(0, index) for index in range(tree.count)]
        leaves[1 + len(BATCH)] = hash_root(Tag.STATE_ROOT, state.count, state.top)
        return Tree(Tag.TRACE_NODE, leaves)


def _enter_from_an_operator(place: int) -> list[Call]:
    """Who has a state for an operator's output can't make it what is disputed."""
    task, output = operators.make_task(EMPTY, 2, 1), RunLengthTensor(F32, EMPTY.shape, {0: 0})
    kinds = [OperatorRun, OperatorRun]
    kinds[place] = _Strange
    runs = [kind(task, output, after=bytes([n]) * 32) for n, kind in enumerate(kinds, 2)]
    table = Table(task, runs)
    table.begin()
    table.play(Phase.TRACE, is_bent=False)
    for pair, board in _walk(table):
        if board.position.entered == 2:
            sender = (pair.first, pair.second)[board.position.mover]
            run = table.seats[sender]
            dive = make_dive(run.trace(1), board.position, board.nodes)
            assert dive is not None
            state = run.state_tree(2)
            dive = replace(dive, nodes=open_top(state).nodes)
            table.try_in_vain("enter_state", sender, pair, board.position, state.top, dive)
            break
    return table.tape.calls


class _LongChunk(RunLengthTensor):
    """A tensor whose only chunk has more bytes than its elements."""

    def chunk(self, index: int) -> bytes:
        """Return the bytes of one chunk."""
        return super().chunk(index) + bytes(4)


def _show_a_long_chunk(place: int) -> list[Call]:
    """Who has committed to a chunk that is too long can't show it."""
    node = next(iter(operators.list_cases(ORDERED))).node
    task, kinds = operators.make_task(node, 2, 1), [RunLengthTensor, RunLengthTensor]
    kinds[place] = _LongChunk
    runs = [
        OperatorRun(task, kind(node.dtype, node.shape, {0: n}), after=bytes([n]) * 32)
        for n, kind in enumerate(kinds, 2)
    ]
    table = Table(task, runs)
    table.begin()
    for _, board in _walk(table):
        name, sender, args = table.find(board)
        if name in {"reach_chunk", "pick_element"} and sender == list(table.seats)[place]:
            table.try_in_vain(name, sender, *args)
            break
    return table.tape.calls


def _give_most_siblings() -> list[Call]:
    """As many siblings as a call has room for tie nothing, where fewer are needed."""
    table = _play_to(Phase.HISTORY, None, Lie(2))
    while table.boards:
        board, *_ = table.boards.values()
        name, sender, args = table.find(board)
        if name in {"descend", "reach_chunk"} and board.position.span:
            place = 2 if name == "descend" else 3
            dive = args[place]
            padded = (*dive.siblings, *[ZERO] * MAX_SIBLINGS)[:MAX_SIBLINGS]
            bent = replace(dive, siblings=padded)
            table.try_in_vain(name, sender, *args[:place], bent, *args[place + 1 :])
        assert table.call(name, sender, *args) is None
        table.tape.block += 1
    return table.tape.calls


def _come_too_early() -> list[Call]:
    """Nobody reaches a chunk before both have entered the tensor."""
    table = _play_to(Phase.TENSOR, None, Lie(2))
    (pair, board), *_ = table.boards.items()
    _, sender, _ = table.find(board)
    dive = Dive(0, SALT, (), ())
    table.try_in_vain("reach_chunk", sender, pair, board.position, board.facts, dive, b"")
    return table.tape.calls


def _decide_alone() -> list[Call]:
    """Nobody but the contract of leaves says what a leaf should be."""
    table = _play_to(Phase.LEAF, None, Lie(2))
    (pair, board), *_ = table.boards.items()
    first, second = board.facts.bits
    for sender in (*table.seats, CLIENT):
        table.tape.note("decide_leaf", sender, pair, first | second << 64, first)
    return table.tape.calls
