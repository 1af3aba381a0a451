"""The search of all states of a small job that one adversary can bring about.

The adversary owns all members but one, knows everything, and orders the calls: the honest member
decides at the start of a block what to call in it, and the adversary says when in the block, before
or after its own calls. States that differ only in how long ago something was are one, so
that the graph is finite; it must have no cycle, or the job could be held up for ever.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

from moot.contracts.model.checks import is_rival, name_job, name_match
from moot.contracts.model.descent import BOTH
from moot.contracts.model.invariants import Step, check_step, copy_store, is_unchanged
from moot.contracts.model.ledger import calculate_debt
from moot.contracts.model.referee import call
from moot.contracts.model.tournament import get_challenge_deadline
from moot.contracts.model.types import (
    ZERO,
    Address,
    Claim,
    Dive,
    Event,
    Job,
    Message,
    Pair,
    Store,
    Terms,
)
from moot.contracts.model.watch import finish, may_play
from moot.contracts.model.words import hash_commitment
from moot.contracts.reasons import Outcome, Phase, Revert, Standing, Status
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.players import Move, find_move, get_tree
from moot.offchain.disputes.referee.board import Board, get_place
from moot.offchain.disputes.referee.port import Call
from moot.offchain.programs.graph import Origin
from moot.sim.synthetic_jobs import SyntheticRun, SyntheticTask
from tests.lockstep.story import decide, follow

SALT = b"\x5a" * 32
JOB = 0
REWARD_WEI = 1001


@dataclass(frozen=True, slots=True)
class Villain:
    """An adversary's member, whose moves follow any of its faces, versions of one history.

    A late one joins after the time for revealing, if at all, and the others need not reveal.
    """

    address: Address
    faces: tuple[SyntheticRun, ...]
    is_late: bool = False

    @property
    def top(self) -> Digest:
        """Its claim."""
        return self.faces[0].history.top


@dataclass(frozen=True, slots=True)
class World:
    """A state: the referee's storage, the matches' boards, and the pending calls.

    `pending` are the honest member's calls of this block that are not yet included, and for
    `delayed` blocks in a row some have been left out.
    """

    store: Store
    boards: dict[Pair, Board]
    block: int
    pending: tuple[Call, ...] = ()
    delayed: int = 0

    @property
    def job(self) -> Job:
        """The job."""
        return self.store.jobs[JOB]


@dataclass(slots=True)
class Found:
    """The results of a search."""

    states: int = 0
    calls: int = 0
    refused: int = 0
    longest_blocks: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"{self.states} states, {self.calls} calls, {self.refused} refused, at most"
            f" {self.longest_blocks} blocks; {dict(self.statuses)} {dict(self.endings)}"
        )


@dataclass
class Search:
    """The search of all states of one job.

    Args:
        task: what is to be computed.
        terms: of the job; the verifier that they name never errs.
        honest: the address and the run of the honest member.
        villains: the adversary's members.
        client: who has opened the job; the adversary's calls that anybody may make are its, too.
        censored_blocks: for how many blocks in a row the adversary can keep the honest member out.
        is_verifier_silent: whether the verifier never rules; else it is never late.
    """

    task: SyntheticTask
    terms: Terms
    honest: tuple[Address, SyntheticRun]
    villains: Sequence[Villain]
    client: Address
    censored_blocks: int = 0
    is_verifier_silent: bool = False
    found: Found = field(default_factory=Found)
    _moves: dict[Any, Move | None] = field(default_factory=dict)

    def run(self) -> Found:
        """Visit every state, check all invariants in each, and return what was seen."""
        start = self._begin()
        numbers = {self._get_key(start): 0}
        edges: list[list[tuple[int, int]]] = [[]]
        stack = [(start, 0)]
        while stack:
            world, number = stack.pop()
            self._visit(world)
            for after in self._list_successors(world):
                key = self._get_key(after)
                if key not in numbers:
                    numbers[key] = len(edges)
                    edges.append([])
                    stack.append((after, numbers[key]))
                edges[number].append((numbers[key], after.block - world.block))
        self.found.states = len(numbers)
        self.found.longest_blocks = get_longest_path(edges)
        return self.found

    def _begin(self) -> World:
        """Open the job and let everybody commit who comes in time."""
        store = Store(1, "0x" + "00" * 18 + "4d07")
        call(store, "open_job", Message(self.client, REWARD_WEI, 0), self.terms)
        tops = {self.honest[0]: self.honest[1].history.top}
        tops |= {villain.address: villain.top for villain in self.villains if not villain.is_late}
        for address, top in tops.items():
            digest = hash_commitment(store, JOB, address, top, SALT)
            args = (JOB, digest, name_job(store, JOB))
            call(store, "commit", Message(address, self.terms.bond_wei, 0), *args)
        block = store.jobs[JOB].commit_deadline + 1
        return self._plan(World(store, {}, block))

    def _visit(self, world: World) -> None:
        """Check that the job can be closed and all be paid, whatever becomes of the players."""
        store = copy_store(world.store)
        finish(store, {p: board.position for p, board in world.boards.items()}, world.block)
        if world.job.status is Status.OPEN:
            return
        self.found.statuses[world.job.status.name] += 1
        address = self.honest[0]
        claim = world.store.claims[JOB, world.store.members[JOB, address].key]
        owed = calculate_debt(world.store, JOB, world.job, address)
        if world.job.is_undecided:
            assert world.job.status is Status.EMPTY
            assert owed >= self.terms.bond_wei
            return
        assert world.job.status is Status.WON
        assert owed >= self.terms.bond_wei + REWARD_WEI // claim.sharers

    def _list_successors(self, world: World) -> Iterator[World]:
        """Yield all states that the adversary can make of one; a closed job goes no further."""
        if world.job.status is not Status.OPEN:
            for attempt in self._list_matters(world):
                self._make(world, attempt)
            return
        if world.pending:
            first, *rest = world.pending
            after = self._make(world, first)
            yield replace(after or world, pending=tuple(rest))
        for attempt in self._list_attempts(world):
            after = self._make(world, attempt)
            if after is not None:
                yield after
        if not world.pending or world.delayed < self.censored_blocks:
            delayed = world.delayed + 1 if world.pending else 0
            yield self._plan(replace(world, block=world.block + 1, delayed=delayed))

    def _make(self, world: World, made: Call) -> World | None:
        """Make a call and check it; None if it is refused."""
        store = copy_store(world.store)
        message = Message(made.sender, made.value_wei, world.block)
        self.found.calls += 1
        try:
            events = call(store, made.name, message, *made.args)
        except Revert:
            self.found.refused += 1
            assert is_unchanged(world.store, store)
            return None
        check_step(Step(world.store, made.name, message, made.args, store, events))
        address = self.honest[0]
        assert store.members[JOB, address].standing is not Standing.DEFEATED
        self.found.accepted[made.name] += 1
        return replace(world, store=store, boards=self._read(world.boards, events))

    def _read(self, boards: dict[Pair, Board], events: Iterable[Event]) -> dict[Pair, Board]:
        boards = dict(boards)
        events = list(events)
        follow(boards, events, self.task.arithmetic)
        for event in events:
            if event.name == "MatchEnded":
                outcome, ending, _ = event.args[3:]
                self.found.endings[f"{ending.name} {outcome.name}"] += 1  # type: ignore[attr-defined]
        return boards

    def _is_live(self, world: World, pair: Pair) -> bool:
        members = world.store.members
        return all(members[JOB, a].is_contender for a in (pair.first, pair.second))

    # What the honest member does.

    def _plan(self, world: World) -> World:
        """Let the honest member decide what to call in a block, from all before it."""
        return replace(world, pending=tuple(self._decide(world)))

    def _decide(self, world: World) -> Iterator[Call]:
        address, run = self.honest
        job, block = world.job, world.block
        if block <= job.reveal_deadline:
            if world.store.members[JOB, address].standing is Standing.COMMITTED:
                yield Call("reveal", address, (JOB, run.history.top, SALT))
            return
        for pair, board in world.boards.items():
            if self._is_live(world, pair):
                yield from self._answer(board, block)
        for pair in self._list_pairs(world):
            yield _start(world, address, pair)
        if job.claims <= 1 and block > job.window_end:
            yield Call("settle", address, (JOB, run.history.top))

    def _answer(self, board: Board, block: int) -> Iterator[Call]:
        address, run = self.honest
        players = board.pair.first, board.pair.second
        position = board.position
        if position.phase is Phase.VERIFIER and not self.is_verifier_silent:
            yield Call("rule", self.terms.verifier, (board.pair, position, self._rule(board)))
        elif block > position.deadline:
            yield Call("timeout", address, (board.pair, position))
        elif address in players and position.phase is not Phase.VERIFIER:
            move = self._find(run, board, players.index(address))
            if move is not None:
                yield Call(move.call, address, (board.pair, position, *move.args))

    def _rule(self, board: Board) -> Outcome:
        """Return what the verifier says, which never errs."""
        place = get_place(board)
        right = self.honest[1].trace(place.step).node(0, place.operator)
        sides = [side for side in Outcome if side < 2 and board.position.nodes[side] == right]
        return sides[0] if sides else Outcome.NEITHER

    def _list_pairs(self, world: World) -> Iterator[Pair]:
        """Yield all matches that may begin."""
        for pair, claims in _list_opponents(world):
            if may_play(world.store, JOB, claims, world.block):
                yield pair

    # What the adversary may do.

    def _list_attempts(self, world: World) -> Iterator[Call]:
        """Yield all calls that the adversary could make now, and some that must be refused."""
        any_one = self.client
        for villain in self.villains:
            yield from self._show(world, villain)
        if world.block <= world.job.reveal_deadline:
            return
        for pair, claims in _list_opponents(world):
            yield from _list_starts(world, any_one, pair, claims)
        yield from self._list_matters(world)
        for top in {claim.top for claim in world.store.claims.values()}:
            yield Call("settle", any_one, (JOB, top))

    def _list_matters(self, world: World) -> Iterator[Call]:
        """Yield all calls that the adversary could make in matches."""
        for board in world.boards.values():
            yield Call("timeout", self.client, (board.pair, board.position))
            yield from self._attack(board)

    def _show(self, world: World, villain: Villain) -> Iterator[Call]:
        if not villain.is_late:
            if world.store.members[JOB, villain.address].standing is Standing.COMMITTED:
                yield Call("reveal", villain.address, (JOB, villain.top, SALT))
            return
        if (JOB, villain.address) not in world.store.members:
            args = (JOB, villain.top, name_job(world.store, JOB))
            yield Call("join", villain.address, args, self.terms.bond_wei)

    def _attack(self, board: Board) -> Iterator[Call]:
        """Yield what any account of the adversary can do in a match, for either side."""
        made = set()
        for side, player in enumerate((board.pair.first, board.pair.second)):
            is_own = player != self.honest[0]
            sender = player if is_own else self.client
            for run in self._get_faces(player):
                best = self._find(run, board, side)
                moves = [best, *(list_detours(run, board, best) if best else ())]
                if board.position.phase in {Phase.LEAF, Phase.SINK}:
                    moves.append(decide(run, board, side))
                for move in moves:
                    if move is not None and (side, move) not in made:
                        made.add((side, move))
                        yield Call(move.call, sender, (board.pair, board.position, *move.args))

    def _get_faces(self, player: Address) -> tuple[SyntheticRun, ...]:
        if player == self.honest[0]:
            return (self.honest[1],)
        return next(villain.faces for villain in self.villains if villain.address == player)

    def _find(self, run: SyntheticRun, board: Board, side: int) -> Move | None:
        """Return a run's next move; it does not depend on the clocks."""
        position = replace(board.position, deadline=0, spare_blocks=0, moves=0)
        key = id(run), board.pair, position, side
        if key not in self._moves:
            self._moves[key] = find_move(run, self.terms, board, side)
        return self._moves[key]

    def _get_key(self, world: World) -> int:
        """Return what tells states apart: what lies in the past is one, however long ago.

        It is a hash of 64 bits, to save memory: among a million states two would be taken for one
        with a probability of 3e-8.
        """
        job, block = world.job, world.block

        def left(deadline: int) -> int:
            return max(deadline - block, -1)

        store = world.store
        parts = (
            (job.claims, job.hidden, job.defeated, job.forfeits, job.meetings, job.status),
            (left(job.window_end), left(job.reveal_deadline), left(get_challenge_deadline(job))),
            frozenset((a, m.standing, m.key, m.prizes) for (_, a), m in store.members.items()),
            frozenset(
                replace(claim, window_end=left(claim.window_end)) for claim in store.claims.values()
            ),
            frozenset(
                (pair, replace(board.position, deadline=left(board.position.deadline)))
                for pair, board in world.boards.items()
            ),
            tuple((c.name, c.sender, c.args[:1]) for c in world.pending),
            world.delayed,
        )
        return hash(parts)


def list_detours(run: SyntheticRun, board: Board, move: Move) -> Iterator[Move]:
    """Yield how a side could leave a tree by another call than the one for what a leaf stands for.

    The referee has to refuse them all: the pick is right, and so is what an operator is.
    """
    position, facts = board.position, board.facts
    if position.entered != BOTH or position.level > position.span or position.span == 0:
        return
    dive = next(arg for arg in move.args if isinstance(arg, Dive))
    index, tree = (
        (position.index << position.span) + dive.child,
        get_tree(run, position.phase, facts),
    )
    assert tree is not None
    leaf, task = tree.node(0, index), run.task
    operator = min(index, len(task.program.nodes) - 1)
    tensor = run.tensor(facts.step, Origin.NODE, operator)
    shown = (task.commitment.encodings[operator], tuple(task.commitment.tree.proof(operator)))
    pick = replace(dive, nodes=(leaf,))
    for other in (
        Move("descend", (pick,)),
        Move("enter_claimed", (facts, leaf, leaf, (), pick)),
        Move("enter_tensor", (facts, *shown, tensor.top, pick)),
        Move("enter_state", (leaf, pick)),
        Move("reach_chunk", (facts, pick, tensor.chunk(0))),
    ):
        if other.call != move.call:
            yield other


def _start(world: World, sender: Address, pair: Pair) -> Call:
    """Return the call that begins a match."""
    return Call("start_match", sender, name_match(world.store, pair))


def _list_opponents(world: World) -> Iterator[tuple[Pair, tuple[Claim, Claim]]]:
    """Yield all contenders of different claims that have no match, with these claims."""
    members = [
        (address, world.store.claims[JOB, member.key])
        for (_, address), member in sorted(world.store.members.items())
        if member.is_contender
    ]
    for (first, claim), (second, opposed) in combinations(members, 2):
        pair = Pair(JOB, first, second)
        if claim.top != opposed.top and pair not in world.boards:
            yield pair, (claim, opposed)


def _list_starts(
    world: World, sender: Address, pair: Pair, claims: tuple[Claim, Claim]
) -> Iterator[Call]:
    """Yield all calls that could begin a match: whichever claims are shown as those met last."""
    *args, rivals = name_match(world.store, pair)
    shown = [rivals]
    if not is_rival(*claims):
        tops = sorted(claim.top for claim in world.store.claims.values())
        shown = list(product(*(tops if claim.meeting else [ZERO] for claim in claims)))
    for tops_met in shown:
        yield Call("start_match", sender, (*args, tops_met))


def get_longest_path(edges: Sequence[Sequence[tuple[int, int]]]) -> int:
    """Return the length of the longest path from node 0 of an acyclic graph.

    Raises:
        AssertionError: the graph has a cycle.
    """
    degrees = Counter(target for targets in edges for target, _ in targets)
    longest, ready, seen = [0] * len(edges), [0], 0
    assert degrees[0] == 0, "a cycle"
    while ready:
        node = ready.pop()
        seen += 1
        for target, length in edges[node]:
            longest[target] = max(longest[target], longest[node] + length)
            degrees[target] -= 1
            if not degrees[target]:
                ready.append(target)
    assert seen == len(edges), "a cycle: the job can be held up for ever"
    return max(longest)
