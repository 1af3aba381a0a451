"""The moves of a match, one function each; docs/protocol.md tells the game as a story.

The defender opens its trees, the challenger picks the child that it disputes. A move that is
bound by what is already committed (an opening) may come from anyone; a fresh commitment and a pick
come from the member whose bond they risk.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from contracts.model.checks import compute_position, get_job, is_challengers_turn, require
from contracts.model.leaf import Context, compute_leaf, is_known, read_node
from contracts.model.ledger import end_match, put_job, void_job
from contracts.model.types import (
    FOLD_ARITY,
    Event,
    Job,
    Match,
    Message,
    Opening,
    Store,
    Terms,
    Verdict,
)
from contracts.reasons import Ending, LeafMode, Phase, Reason
from offchain.commitments.keccak import keccak256
from offchain.commitments.tags import CHUNK_BYTES, Tag
from offchain.commitments.tensors import (
    EMPTY_TOP,
    encode_header,
    get_chunk_count,
    hash_chunk,
    hash_tensor,
)
from offchain.commitments.tree import (
    MAX_ARITY_LOG2,
    Digest,
    climb,
    fold_children,
    get_height,
    get_width,
    hash_root,
    is_member,
)
from offchain.errors import CommitmentError

NODE_TAGS = {
    Phase.HISTORY: Tag.HISTORY_NODE,
    Phase.INTERVAL: Tag.INTERVAL_NODE,
    Phase.TRACE: Tag.TRACE_NODE,
    Phase.TENSOR: Tag.TENSOR_NODE,
    Phase.STATE: Tag.STATE_NODE,
}
"""The trees that are descended, and the tag of their nodes."""


@dataclass(slots=True)
class Turn:
    """One move being made: the call's surroundings, checked before the move itself is."""

    store: Store
    message: Message
    job_id: int
    job: Job
    match: Match

    def play(self, event: str, *args: object, **changes: Any) -> None:
        """Charge the clock of the side to move, apply the changes and announce the move."""
        match = self.match
        elapsed = self.message.block - match.since
        terms = self.job.terms
        clock = "challenger_clock" if is_challengers_turn(match) else "defender_clock"
        left = getattr(match, clock) - elapsed + terms.increment_blocks
        changes[clock] = min(left, terms.clock_blocks)
        changes |= {"since": self.message.block, "moves": match.moves + 1}
        put_job(self.store, self.job_id, replace(self.job, match=replace(match, **changes)))
        self.store.events.append(Event(event, (self.job_id, match.number, *args)))

    def pick(self, phase: Phase, index: int, leaf: Digest, **changes: Any) -> None:
        """Go on below a leaf of the tree that has been descended."""
        place = {"opened": False, "phase": phase, "node": leaf, "level": 0, "index": index}
        self.play("Picked", index, leaf, **place, **changes)

    def enter(self, phase: Phase, first: Digest, top: Digest, count: int, **changes: Any) -> None:
        """Go on at the top of a tree of `count` leaves."""
        place = {"phase": phase, "node": top, "level": get_height(count), "index": 0}
        self.play("Entered", phase, first, top, count=count, **place, **changes)

    def end(self, ending: Ending, *, defender_wins: bool) -> None:
        """End the match."""
        end_match(self.store, self.job_id, self.job, Verdict(defender_wins, ending))

    def require_member(self, seat: int) -> None:
        """Refuse anybody but the member whose bond the move risks."""
        require(self.message.sender == self.job.members[seat].address, Reason.NOT_YOURS)


def get_time_left(job: Job, match: Match, block: int) -> int:
    """Return the blocks that the side to move has left; negative when its clock has run out."""
    clock = match.challenger_clock if is_challengers_turn(match) else match.defender_clock
    if match.phase is Phase.VERIFIER:
        clock = job.terms.clock_blocks
    return clock - (block - match.since)


def begin(store: Store, message: Message, job_id: int, position: Digest, *phases: Phase) -> Turn:
    """Check what all moves have in common: the match, the position, the phase, the clock."""
    job = get_job(store, job_id)
    match = job.match
    require(match is not None, Reason.WRONG_PHASE)
    assert match is not None
    require(position == compute_position(store, job_id, match), Reason.STALE)
    require(not phases or match.phase in phases, Reason.WRONG_PHASE)
    require(get_time_left(job, match, message.block) >= 0, Reason.CLOCK_EXPIRED)
    return Turn(store, message, job_id, job, match)


def on_open(
    store: Store, message: Message, job_id: int, position: Digest, nodes: Sequence[Digest]
) -> None:
    """Open a node of the defender's tree: all nodes up to four levels below it."""
    turn = begin(store, message, job_id, position, *NODE_TAGS)
    match = turn.match
    require(not match.opened, Reason.WRONG_PHASE)
    require(len(nodes) == get_children_count(match), Reason.BAD_OPENING)
    require(fold_children(NODE_TAGS[match.phase], nodes) == match.node, Reason.BAD_OPENING)
    turn.play("Opened", tuple(nodes), opened=True)


def get_children_count(match: Match) -> int:
    """Return how many nodes an opening of the current node shows."""
    down = min(match.level, MAX_ARITY_LOG2)
    first = match.index << down
    return min(1 << down, get_width(match.count, match.level - down) - first)


def on_pick(
    store: Store,
    message: Message,
    job_id: int,
    position: Digest,
    child: int,
    node: Digest,
    siblings: Sequence[Digest],
) -> None:
    """Name the opened child that the challenger disputes, with its proof against the parent."""
    turn = begin(store, message, job_id, position, *NODE_TAGS)
    match = turn.match
    turn.require_member(match.challenger)
    require(match.opened, Reason.WRONG_PHASE)
    require(child < get_children_count(match), Reason.OUT_OF_RANGE)
    down = min(match.level, MAX_ARITY_LOG2)
    level, index = match.level - down, (match.index << down) + child
    tag = NODE_TAGS[match.phase]
    try:
        parent = climb(tag, node, index, match.count, level, match.level, siblings)
    except CommitmentError:
        parent = None
    require(parent == match.node, Reason.BAD_PROOF)
    if level:
        turn.play("Picked", index, node, opened=False, node=node, level=level, index=index)
    else:
        _LEAVES[match.phase](turn, index, node)


def _pick_checkpoint(turn: Turn, index: int, root: Digest) -> None:
    """The first checkpoint that the challenger disputes; the start is checked at once."""
    terms = turn.job.terms
    if index == 0:
        turn.end(Ending.START, defender_wins=root == terms.start_root)
        return
    first = (index - 1) * terms.checkpoint_every
    length = min(terms.checkpoint_every, terms.steps - first)
    turn.pick(
        Phase.ENTER_TRACE if length == 1 else Phase.ENTER_INTERVAL,
        index,
        root,
        tree_top=turn.job.members[turn.match.defender].top,
        tree_count=terms.checkpoints,
        tree_index=index,
        first_step=first,
        step=first,
    )


def _pick_state(turn: Turn, index: int, root: Digest) -> None:
    """The first state of the interval that the challenger disputes; the first one is agreed."""
    require(index > 0, Reason.OUT_OF_RANGE)
    step = turn.match.first_step + index - 1
    turn.pick(Phase.ENTER_TRACE, index, root, tree_index=index, step=step)


def _pick_operator(turn: Turn, index: int, root: Digest) -> None:
    """The first operator whose output the challenger disputes, or the state after the step."""
    terms = turn.job.terms
    if index == terms.operators:
        phase = Phase.ENTER_STATE
    else:
        is_scalar = terms.leaf_mode is LeafMode.SCALAR
        phase = Phase.ENTER_OPERATOR if is_scalar else Phase.VERIFIER
    turn.pick(phase, index, root, operator=index)


def _pick_chunk(turn: Turn, index: int, leaf: Digest) -> None:
    """The first chunk of the output that the challenger disputes."""
    turn.pick(Phase.CHUNK, index, leaf)


def _pick_slot(turn: Turn, index: int, root: Digest) -> None:
    """The first tensor of the state after the step that is not the one its sink made."""
    turn.pick(Phase.SINK, index, root)


_LEAVES: dict[Phase, Callable[[Turn, int, Digest], None]] = {
    Phase.HISTORY: _pick_checkpoint,
    Phase.INTERVAL: _pick_state,
    Phase.TRACE: _pick_operator,
    Phase.TENSOR: _pick_chunk,
    Phase.STATE: _pick_slot,
}


def _require_before(turn: Turn, before: Digest, proof: Sequence[Digest]) -> None:
    """Check the agreed state: the leaf just left of the disputed one."""
    match = turn.match
    in_history = match.tree_top == turn.job.members[match.defender].top
    tag = Tag.HISTORY_NODE if in_history else Tag.INTERVAL_NODE
    index, count = match.tree_index - 1, match.tree_count
    require(is_member(tag, match.tree_top, before, index, count, proof), Reason.BAD_PROOF)


def on_enter_interval(
    store: Store,
    message: Message,
    job_id: int,
    position: Digest,
    before: Digest,
    before_proof: Sequence[Digest],
    top: Digest,
    first_proof: Sequence[Digest],
    last_proof: Sequence[Digest],
) -> None:
    """Commit to the state after every step of the disputed interval; its ends are given."""
    turn = begin(store, message, job_id, position, Phase.ENTER_INTERVAL)
    match, terms = turn.match, turn.job.terms
    turn.require_member(match.defender)
    _require_before(turn, before, before_proof)
    length = min(terms.checkpoint_every, terms.steps - match.first_step)
    ends = ((before, 0, first_proof), (match.node, length, last_proof))
    for leaf, index, proof in ends:
        is_end = is_member(Tag.INTERVAL_NODE, top, leaf, index, length + 1, proof)
        require(is_end, Reason.BAD_PROOF)
    turn.enter(Phase.INTERVAL, before, top, length + 1, tree_top=top, tree_count=length + 1)


def on_enter_trace(
    store: Store,
    message: Message,
    job_id: int,
    position: Digest,
    before: Digest,
    before_proof: Sequence[Digest],
    top: Digest,
    last_proof: Sequence[Digest],
) -> None:
    """Commit to the outputs of all operators of the disputed step; the last leaf is its state."""
    turn = begin(store, message, job_id, position, Phase.ENTER_TRACE)
    match = turn.match
    turn.require_member(match.defender)
    _require_before(turn, before, before_proof)
    count = turn.job.terms.operators + 1
    is_last = is_member(Tag.TRACE_NODE, top, match.node, count - 1, count, last_proof)
    require(is_last, Reason.BAD_PROOF)
    turn.enter(Phase.TRACE, before, top, count, before=before, trace_top=top)


def on_enter_operator(
    store: Store,
    message: Message,
    job_id: int,
    position: Digest,
    encoding: bytes,
    proof: Sequence[Digest],
    top: Digest,
) -> None:
    """Show what the disputed operator is, and the top of its output's chunks."""
    turn = begin(store, message, job_id, position, Phase.ENTER_OPERATOR)
    match, terms = turn.match, turn.job.terms
    leaf = keccak256(bytes([Tag.OPERATOR]) + encoding)
    is_operator = is_member(
        Tag.PROGRAM_NODE, terms.program_top, leaf, match.operator, terms.operators, proof
    )
    require(is_operator, Reason.BAD_PROOF)
    node = read_node(encoding)
    header = encode_header(node.dtype, node.shape)
    if node.elements == 0:
        is_empty = match.node == hash_tensor(header, EMPTY_TOP)
        turn.end(Ending.EMPTY, defender_wins=is_empty)
        return
    require(hash_tensor(header, top) == match.node, Reason.BAD_OPENING)
    count = get_chunk_count(node.dtype, node.elements)
    turn.enter(
        Phase.TENSOR,
        leaf,
        top,
        count,
        encoding_digest=leaf,
        width=node.dtype.width,
        elements=node.elements,
        fold_length=prod(node.fold_shape) if node.kind.folds else 0,
    )


def on_enter_state(
    store: Store, message: Message, job_id: int, position: Digest, top: Digest
) -> None:
    """Show the top of the state after the step, when that is the first thing disputed."""
    turn = begin(store, message, job_id, position, Phase.ENTER_STATE)
    count = turn.job.terms.state_slots
    require(hash_root(Tag.STATE_ROOT, count, top) == turn.match.node, Reason.BAD_OPENING)
    turn.enter(Phase.STATE, turn.match.node, top, count)


def on_open_chunk(
    store: Store, message: Message, job_id: int, position: Digest, chunk: bytes
) -> None:
    """Show the bytes of the disputed chunk."""
    turn = begin(store, message, job_id, position, Phase.CHUNK)
    match = turn.match
    require(not match.opened, Reason.WRONG_PHASE)
    size = min(CHUNK_BYTES, match.elements * match.width - match.index * CHUNK_BYTES)
    require(len(chunk) == size, Reason.BAD_CHUNK)
    require(hash_chunk(chunk) == match.node, Reason.BAD_CHUNK)
    turn.play("ChunkOpened", chunk, opened=True)


def on_pick_element(
    store: Store, message: Message, job_id: int, position: Digest, chunk: bytes, place: int
) -> None:
    """Name the element of the opened chunk that the challenger disputes."""
    turn = begin(store, message, job_id, position, Phase.CHUNK)
    match = turn.match
    turn.require_member(match.challenger)
    require(match.opened, Reason.WRONG_PHASE)
    require(hash_chunk(chunk) == match.node, Reason.BAD_CHUNK)
    require(place < len(chunk) // match.width, Reason.OUT_OF_RANGE)
    element = match.index * (CHUNK_BYTES // match.width) + place
    bits = int.from_bytes(chunk[place * match.width :][: match.width], "little")
    turn.play(
        "ElementPicked",
        element,
        bits,
        opened=False,
        phase=Phase.FOLD if match.fold_length > 1 else Phase.LEAF,
        element=element,
        low=0,
        high=match.fold_length,
        high_bits=bits,
    )


def get_segments(match: Match) -> int:
    """Return the number of segments into which the next round divides the fold."""
    return min(FOLD_ARITY, match.high - match.low)


def get_boundary(match: Match, segment: int) -> int:
    """Return the fold step at which a segment begins."""
    return match.low + (match.high - match.low) * segment // get_segments(match)


def hash_values(values: bytes) -> Digest:
    """Return the digest under which posted accumulators are remembered."""
    return keccak256(bytes([Tag.FOLD]) + values)


def on_open_fold(
    store: Store, message: Message, job_id: int, position: Digest, values: bytes
) -> None:
    """Post the accumulators at the inner boundaries of the segments, little-endian."""
    turn = begin(store, message, job_id, position, Phase.FOLD)
    match = turn.match
    turn.require_member(match.defender)
    require(not match.opened, Reason.WRONG_PHASE)
    require(len(values) == (get_segments(match) - 1) * match.width, Reason.BAD_VALUES)
    turn.play("FoldOpened", values, opened=True, node=hash_values(values))


def on_pick_segment(
    store: Store, message: Message, job_id: int, position: Digest, values: bytes, segment: int
) -> None:
    """Name the segment that begins with an agreed accumulator and ends with a disputed one."""
    turn = begin(store, message, job_id, position, Phase.FOLD)
    match = turn.match
    turn.require_member(match.challenger)
    require(match.opened, Reason.WRONG_PHASE)
    require(hash_values(values) == match.node, Reason.BAD_VALUES)
    segments = get_segments(match)
    require(segment < segments, Reason.OUT_OF_RANGE)

    def value(boundary: int) -> int:
        piece = values[(boundary - 1) * match.width :][: match.width]
        return int.from_bytes(piece, "little")

    low, high = get_boundary(match, segment), get_boundary(match, segment + 1)
    turn.play(
        "SegmentPicked",
        low,
        high,
        opened=False,
        phase=Phase.FOLD if high - low > 1 else Phase.LEAF,
        low=low,
        high=high,
        low_bits=value(segment) if segment else match.low_bits,
        high_bits=value(segment + 1) if segment + 1 < segments else match.high_bits,
    )


def get_context(terms: Terms, match: Match) -> Context:
    """Return what both sides agree on at the leaf of a match."""
    return Context(
        trace_top=match.trace_top,
        operators=terms.operators,
        before=match.before,
        state_slots=terms.state_slots,
        data_top=terms.data_top,
        batch_slots=terms.batch_slots,
        steps=terms.steps,
        step=match.step,
        element=match.element,
        position=match.low,
        accumulator=match.low_bits,
    )


def on_leaf(
    store: Store,
    message: Message,
    job_id: int,
    position: Digest,
    encoding: bytes,
    openings: Sequence[Opening],
) -> None:
    """Compute the one scalar operation that is left, from proven operands, and decide."""
    turn = begin(store, message, job_id, position, Phase.LEAF)
    match, terms = turn.match, turn.job.terms
    leaf = keccak256(bytes([Tag.OPERATOR]) + encoding)
    require(leaf == match.encoding_digest, Reason.BAD_PROOF)
    context = get_context(terms, match)
    computed = compute_leaf(context, read_node(encoding), openings)
    args = (job_id, match.number, match.high_bits, computed)
    store.events.append(Event("LeafComputed", args))
    turn.end(Ending.SCALAR, defender_wins=computed == match.high_bits)


def on_prove_sink(
    store: Store,
    message: Message,
    job_id: int,
    position: Digest,
    root: Digest,
    proof: Sequence[Digest],
) -> None:
    """Show the output of the sink that the disputed slot of the state should be."""
    turn = begin(store, message, job_id, position, Phase.SINK)
    match, terms = turn.match, turn.job.terms
    index, count = terms.operators - terms.state_slots + match.index, terms.operators + 1
    is_sink = is_member(Tag.TRACE_NODE, match.trace_top, root, index, count, proof)
    require(is_sink, Reason.BAD_PROOF)
    turn.end(Ending.SINK, defender_wins=root == match.node)


def on_refer(
    store: Store, message: Message, job_id: int, position: Digest, encoding: bytes
) -> None:
    """Send a leaf whose scalar function the chain does not know to the bounded verifier."""
    turn = begin(store, message, job_id, position, Phase.LEAF)
    leaf = keccak256(bytes([Tag.OPERATOR]) + encoding)
    require(leaf == turn.match.encoding_digest, Reason.BAD_PROOF)
    node = read_node(encoding)
    require(not is_known(node), Reason.FUNCTION_KNOWN)
    turn.play("Referred", node.function, phase=Phase.VERIFIER)


def on_rule(
    store: Store,
    message: Message,
    job_id: int,
    position: Digest,
    upheld: bool,  # noqa: FBT001 - the contract's own argument
) -> None:
    """Post the bounded verifier's ruling on the defender's value."""
    turn = begin(store, message, job_id, position, Phase.VERIFIER)
    require(message.sender == turn.job.terms.verifier, Reason.NOT_YOURS)
    turn.end(Ending.VERIFIER, defender_wins=upheld)


def on_timeout(store: Store, message: Message, job_id: int, position: Digest) -> None:
    """End a match whose side to move has let its clock run out; anyone may."""
    job = get_job(store, job_id)
    match = job.match
    require(match is not None, Reason.WRONG_PHASE)
    assert match is not None
    require(position == compute_position(store, job_id, match), Reason.STALE)
    require(get_time_left(job, match, message.block) < 0, Reason.CLOCK_RUNNING)
    if match.phase is Phase.VERIFIER:
        void_job(store, job_id, job)
        return
    verdict = Verdict(is_challengers_turn(match), Ending.CLOCK)
    end_match(store, job_id, job, verdict)


MOVES: dict[str, Callable[..., None]] = {
    "open": on_open,
    "pick": on_pick,
    "enter_interval": on_enter_interval,
    "enter_trace": on_enter_trace,
    "enter_operator": on_enter_operator,
    "enter_state": on_enter_state,
    "open_chunk": on_open_chunk,
    "pick_element": on_pick_element,
    "open_fold": on_open_fold,
    "pick_segment": on_pick_segment,
    "leaf": on_leaf,
    "prove_sink": on_prove_sink,
    "refer": on_refer,
    "rule": on_rule,
    "timeout": on_timeout,
}
