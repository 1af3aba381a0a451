"""Plays matches: what each side should do next, and whole games to their end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from contracts.model.checks import is_challengers_turn
from contracts.model.leaf import is_known
from contracts.model.moves import NODE_TAGS, get_boundary, get_segments
from contracts.model.referee import compute_commitment
from contracts.model.types import NO_OPENING, Event, Job, Match, Opening
from contracts.reasons import Ending, Phase
from offchain.commitments.tags import CHUNK_BYTES
from offchain.commitments.tensors import TensorTree
from offchain.commitments.tree import MAX_ARITY_LOG2, Digest, Tree
from offchain.programs.graph import Node, Operand
from offchain.programs.semantics import compute_initial, compute_partials, compute_step
from tests.lockstep.claims import Claim, Task, to_bits
from tests.lockstep.harness import Lockstep

SALT = b"\x5a" * 32


@dataclass(frozen=True)
class Move:
    """A call that somebody could make."""

    name: str
    sender: str
    args: tuple[Any, ...]


@dataclass
class Game:
    """A job on both referees, with one claim for each seat."""

    referee: Lockstep
    task: Task
    claims: list[Claim]
    terms: dict[str, Any] = field(default_factory=dict)
    job_id: int = 0
    target: tuple[int, int] | None = None
    """The operator and the element that the challenger disputes, if not the first that differ."""
    shown: Any = None
    """What the defender has opened last: nodes, a chunk or accumulators."""

    def __post_init__(self) -> None:
        """Open the job."""
        accounts = self.referee.chain.accounts
        self.client, self.members = accounts[0], accounts[1 : 1 + len(self.claims)]
        self.job_id = len(self.referee.store.jobs)
        self.referee.call("open_job", self.client, self.task.terms(**self.terms), value_wei=1001)

    @property
    def job(self) -> Job:
        """The job, as the model remembers it."""
        return self.referee.store.jobs[self.job_id]

    @property
    def is_playing(self) -> bool:
        """Whether a match is being played."""
        return self.job.match is not None

    @property
    def match(self) -> Match:
        """The match that is being played."""
        assert self.job.match is not None
        return self.job.match

    def commit(self, seat: int) -> None:
        """Let a member join."""
        top = self.claims[seat].history.top
        member = self.members[seat]
        digest = compute_commitment(self.referee.store, self.job_id, member, top, SALT)
        bond_wei = self.job.terms.bond_wei
        self.referee.call("commit", member, self.job_id, digest, value_wei=bond_wei)

    def reveal(self, seat: int) -> None:
        """Let a member show its claim."""
        top = self.claims[seat].history.top
        self.referee.call("reveal", self.members[seat], self.job_id, top, SALT)

    def assemble(self) -> "Game":
        """Bring all members to the end of the time for revealing."""
        for seat in range(len(self.claims)):
            self.commit(seat)
        self.referee.mine_to(self.job.commit_deadline + 1)
        for seat in range(len(self.claims)):
            self.reveal(seat)
        self.referee.mine_to(self.job.reveal_deadline + 1)
        return self

    def start(self) -> "Game":
        """Begin the next match."""
        self.referee.call("start_match", self.client, self.job_id)
        return self

    def next_move(self) -> Move:
        """Return what the side to move should do."""
        match = self.match
        if is_challengers_turn(match):
            name, args = answer(match, self.claims[match.challenger], self.shown, self.defender)
            if self.target is not None:
                args = aim(match, self.shown, self.target, args)
            sender = self.members[match.challenger]
        else:
            name, args = defend(match, self.claims[match.defender])
            sender = self.members[match.defender]
        return Move(name, sender, (self.job_id, self.referee.position(self.job_id), *args))

    @property
    def defender(self) -> Claim:
        """The claim of the defender."""
        return self.claims[self.match.defender]

    def make(self, move: Move) -> tuple[Event, ...]:
        """Make a move."""
        events = self.referee.call(move.name, move.sender, *move.args)
        if move.name in {"open", "open_chunk", "open_fold"}:
            self.shown = move.args[2]
        return events

    def play(self, until: Callable[[Match], bool] = lambda _: False) -> "Game":
        """Play on until the match has come to a place, or has ended."""
        while self.job.match is not None and not until(self.job.match):
            self.events = self.make(self.next_move())
        return self

    def play_to(self, phase: Phase, *, opened: bool = False) -> "Game":
        """Play on until a phase begins, or until the defender has opened in it."""
        self.play(lambda match: (match.phase, match.opened) == (phase, opened))
        assert self.job.match is not None, f"the match never came to {phase.name}"
        return self

    def finish(self) -> tuple[int, Ending]:
        """Play to the end of the match; return the winner's seat and the ending."""
        self.play()
        ended = self.events[-1]
        assert ended.name == "MatchEnded"
        return ended.args[2], Ending(ended.args[4])  # type: ignore[return-value,arg-type]


def get_tree(match: Match, claim: Claim) -> Tree:
    """Return a claim's tree that is being descended."""
    if match.phase is Phase.HISTORY:
        return claim.history
    if match.phase is Phase.INTERVAL:
        return claim.interval(match.first_step)
    if match.phase is Phase.TRACE:
        return claim.trace(match.step)
    if match.phase is Phase.STATE:
        return claim.state(match.step + 1)
    tree = TensorTree(claim.traces[match.step][match.operator]).tree
    assert tree is not None
    return tree


def get_node(match: Match, claim: Claim) -> Node:
    """Return the disputed operator."""
    return claim.task.program.nodes[match.operator]


def get_partials(match: Match, claim: Claim) -> list[int]:
    """Return a claim's accumulators of the disputed element.

    A claimant whose output is not what its own program gives invents the last ones.
    """
    node = get_node(match, claim)

    def fetch(place: int, operand: Operand, index: int) -> int:  # noqa: ARG001 - see Fetch
        return int.from_bytes(_read(claim.tensor(match.step, operand), operand, index), "little")

    partials = compute_partials(node, match.element, match.step, fetch)
    claimed = to_bits(claim.traces[match.step][match.operator])[match.element]
    invented = len(partials) // 2
    return partials if partials[-1] == claimed else partials[:-invented] + [claimed] * invented


def _read(tensor: TensorTree, operand: Operand, index: int) -> bytes:
    chunk, start = divmod(index * operand.dtype.width, CHUNK_BYTES)
    return tensor.chunk(chunk)[start : start + operand.dtype.width]


def get_before(match: Match, claim: Claim) -> tuple[Digest, list[Digest]]:
    """Return the agreed state left of the disputed one, and its proof."""
    is_interval = match.tree_top != claim.history.top
    tree = claim.interval(match.first_step) if is_interval else claim.history
    return tree.node(0, match.tree_index - 1), tree.proof(match.tree_index - 1)


def defend(match: Match, claim: Claim) -> tuple[str, tuple[Any, ...]]:
    """Return the defender's next call and its arguments after the position."""
    if match.phase in NODE_TAGS:
        return "open", (tuple(get_tree(match, claim).children(match.level, match.index)),)
    return _DEFENCES[match.phase](match, claim)


def _enter_interval(match: Match, claim: Claim) -> tuple[str, tuple[Any, ...]]:
    before, proof = get_before(match, claim)
    tree = claim.interval(match.first_step)
    ends = (tree.proof(0), tree.proof(tree.count - 1))
    return "enter_interval", (before, proof, tree.top, *ends)


def _enter_trace(match: Match, claim: Claim) -> tuple[str, tuple[Any, ...]]:
    tree = claim.trace(match.step)
    return "enter_trace", (*get_before(match, claim), tree.top, tree.proof(tree.count - 1))


def _enter_operator(match: Match, claim: Claim) -> tuple[str, tuple[Any, ...]]:
    program = claim.task.commitment
    top = TensorTree(claim.traces[match.step][match.operator]).top
    proof = program.tree.proof(match.operator)
    return "enter_operator", (program.encodings[match.operator], proof, top)


def _enter_state(match: Match, claim: Claim) -> tuple[str, tuple[Any, ...]]:
    return "enter_state", (claim.state(match.step + 1).top,)


def _open_chunk(match: Match, claim: Claim) -> tuple[str, tuple[Any, ...]]:
    return "open_chunk", (TensorTree(claim.traces[match.step][match.operator]).chunk(match.index),)


def _open_fold(match: Match, claim: Claim) -> tuple[str, tuple[Any, ...]]:
    partials = get_partials(match, claim)
    bounds = [get_boundary(match, s) for s in range(1, get_segments(match))]
    return "open_fold", (b"".join(partials[b].to_bytes(match.width, "little") for b in bounds),)


_DEFENCES = {
    Phase.ENTER_INTERVAL: _enter_interval,
    Phase.ENTER_TRACE: _enter_trace,
    Phase.ENTER_OPERATOR: _enter_operator,
    Phase.ENTER_STATE: _enter_state,
    Phase.CHUNK: _open_chunk,
    Phase.FOLD: _open_fold,
}


def answer(match: Match, claim: Claim, shown: Any, defender: Claim) -> tuple[str, tuple[Any, ...]]:
    """Return the challenger's next call and its arguments after the position.

    The proofs of a leaf are taken from the defender's own trees.
    """
    if match.phase in NODE_TAGS:
        own = get_tree(match, claim).children(match.level, match.index)
        return "pick", pick(match, shown, first_difference(shown, own))
    if match.phase is Phase.CHUNK:
        own_chunk = TensorTree(claim.traces[match.step][match.operator]).chunk(match.index)
        return "pick_element", (shown, first_difference(shown, own_chunk) // match.width)
    if match.phase is Phase.FOLD:
        return "pick_segment", (shown, _pick_segment(match, get_partials(match, claim), shown))
    if match.phase is Phase.SINK:
        sink = claim.task.program.first_sink + match.index
        tree = defender.trace(match.step)
        return "prove_sink", (tree.node(0, sink), tree.proof(sink))
    encoding = claim.task.commitment.encodings[match.operator]
    if not is_known(get_node(match, claim)):
        return "refer", (encoding,)
    return "leaf", (encoding, get_openings(match, defender))


def aim(
    match: Match, shown: Any, target: tuple[int, int], args: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return the challenger's arguments that lead to an operator and to one of its elements."""
    operator, element = target
    if match.phase is Phase.TRACE:
        return pick(match, shown, _get_child(match, operator))
    if match.phase is Phase.TENSOR:
        return pick(match, shown, _get_child(match, element * match.width // CHUNK_BYTES))
    if match.phase is Phase.CHUNK:
        return shown, element - match.index * (CHUNK_BYTES // match.width)
    return args


def _get_child(match: Match, leaf: int) -> int:
    down = min(match.level, MAX_ARITY_LOG2)
    return (leaf >> (match.level - down)) - (match.index << down)


def pick(match: Match, shown: Any, child: int) -> tuple[Any, ...]:
    """Return a pick's arguments after the position."""
    return child, shown[child], Tree(NODE_TAGS[match.phase], shown).proof(child)


def first_difference(shown: Any, own: Any) -> int:
    """Return the first place at which two sequences differ, or 0 if they do not."""
    return next((i for i, pair in enumerate(zip(shown, own, strict=True)) if pair[0] != pair[1]), 0)


def _pick_segment(match: Match, partials: list[int], values: bytes) -> int:
    segments = get_segments(match)
    for segment in range(segments - 1):
        posted = values[segment * match.width :][: match.width]
        if int.from_bytes(posted, "little") != partials[get_boundary(match, segment + 1)]:
            return segment
    return segments - 1


def get_openings(match: Match, claim: Claim) -> tuple[Opening, ...]:
    """Return the proofs of the elements that a leaf reads, from a claim's trees."""
    node = get_node(match, claim)
    openings: dict[int, Opening] = {}

    def fetch(place: int, operand: Operand, index: int) -> int:
        openings[place] = claim.opening(match.step, operand, index)
        return int.from_bytes(_read(claim.tensor(match.step, operand), operand, index), "little")

    if node.kind.folds and match.low == 0:
        compute_initial(node, match.element, fetch)
    if node.fold_length:
        compute_step(
            node, match.element, match.low, _get_accumulator(match, node, fetch), match.step, fetch
        )
    return tuple(openings.get(i, NO_OPENING) for i in range(max(openings, default=-1) + 1))


def _get_accumulator(match: Match, node: Node, fetch: Any) -> int:
    if node.kind.folds and match.low == 0:
        return compute_initial(node, match.element, fetch)
    return match.low_bits
