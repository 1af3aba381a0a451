# pragma version 0.4.3
"""
@title What all moves of a match have in common: what they answer, who is to move, whose clock runs
@license Apache-2.0
@notice The contract remembers one word a match, the digest of its position, and every move brings
        the position along. contracts/model/turns.py is the specification, words.py packs the same.
"""

import accumulators
import ledger
import merkle
import phases
import require
import tags
import types

uses: ledger

# `Position.head`: index u56 | count u56 | deadline u40 | spare_blocks u24 | level u6 | span u3
# | moves u8 | phase u4 | entered u2 | mover u1 | clock_blocks u24 | increment_blocks u24, the first
# in the lowest bits. Trees have at most 2^55 leaves, and a match has fewer than a hundred moves. The
# last two are the job's: a move need not read them there.
COUNT_AT: constant(uint256) = 56
DEADLINE_AT: constant(uint256) = 112
SPARE_AT: constant(uint256) = 152
LEVEL_AT: constant(uint256) = 176
SPAN_AT: constant(uint256) = 182
MOVES_AT: constant(uint256) = 185
PHASE_AT: constant(uint256) = 193
ENTERED_AT: constant(uint256) = 197
MOVER_AT: constant(uint256) = 199
CLOCK_BLOCKS_AT: constant(uint256) = 200
INCREMENT_BLOCKS_AT: constant(uint256) = 224

# `Facts.place`: first_step u40 | step u40 | checkpoint u40 | operator u32.
STEP_AT: constant(uint256) = 40
CHECKPOINT_AT: constant(uint256) = 80
OPERATOR_AT: constant(uint256) = 120

# `Facts.tensor`: elements u64 | element u64 | fold_length u64 | width u8.
ELEMENT_AT: constant(uint256) = 64
FOLD_LENGTH_AT: constant(uint256) = 128
WIDTH_AT: constant(uint256) = 192

# `Facts.fold`: low u64 | high u64 | low_bits u64; `Facts.bits`: those of side 0 u64 | of side 1 u64.
HIGH_AT: constant(uint256) = 64
LOW_BITS_AT: constant(uint256) = 128
BITS_1_AT: constant(uint256) = 64

U2: constant(uint256) = 2**2 - 1
U3: constant(uint256) = 2**3 - 1
U4: constant(uint256) = 2**4 - 1
U6: constant(uint256) = 2**6 - 1
U8: constant(uint256) = 2**8 - 1
U24: constant(uint256) = 2**24 - 1
U32: constant(uint256) = 2**32 - 1
U40: constant(uint256) = 2**40 - 1
U56: constant(uint256) = 2**56 - 1
U64: constant(uint256) = 2**64 - 1


# A match while a move is made in it: the position, unpacked, with the mover's node and the other's.
# `clocks` are the last two fields of the head.
struct Turn:
    pair: types.Pair
    key: bytes32
    clocks: uint256
    mover: uint256
    phase: uint256
    entered: uint256
    moves: uint256
    span: uint256
    level: uint256
    spare_blocks: uint256
    deadline: uint256
    count: uint256
    index: uint256
    mine: bytes32
    theirs: bytes32
    facts: bytes32


# The events of a match that follow have its number, the digest of the pair, as their topic.
event MatchStarted:
    job_id: indexed(uint256)
    first: indexed(address)
    second: indexed(address)
    position: types.Position


event Moved:
    key: indexed(bytes32)
    position: types.Position
    nodes: DynArray[bytes32, merkle.ARITY]
    data: Bytes[accumulators.MAX_VALUES_BYTES]


event Found:
    key: indexed(bytes32)
    facts: accumulators.Facts


event MatchEnded:
    key: indexed(bytes32)
    outcome: uint256
    ending: uint256
    computed: uint256


# Digests of positions, never 0, by the digest of the pair.
matches: public(HashMap[bytes32, bytes32])


@internal
@pure
def hash_pair(pair: types.Pair) -> bytes32:
    """
    @notice Return the number under which a match is stored.
    @param pair Its members.
    @return The number.
    """
    return keccak256(abi_encode(pair))


@internal
@pure
def hash_position(key: bytes32, position: types.Position) -> bytes32:
    """
    @notice Return all that is remembered of a match.
    @param key The number under which it is stored.
    @param position Where it stands.
    @return The digest.
    """
    return keccak256(abi_encode(tags.POSITION, key, position))


@internal
@pure
def hash_facts(facts: accumulators.Facts) -> bytes32:
    """
    @notice Return the digest of facts that a position holds.
    @param facts The facts.
    @return The digest.
    """
    return keccak256(abi_encode(facts))


@internal
def start(pair: types.Pair, head: uint256, tops: bytes32[2]):
    """
    @notice Begin a match at the tops of two histories; side 0 is to move.
    @param pair Its members.
    @param head The job's head.
    @param tops The tops.
    """
    clock: uint256 = (head >> ledger.CLOCK_BLOCKS_AT) & U24
    count: uint256 = ledger.get_checkpoints(pair.job_id)
    increment: uint256 = (head >> ledger.INCREMENT_BLOCKS_AT) & U24
    # Block numbers are below 2^39, clocks at most 2^20.
    position: types.Position = types.Position(
        head=(
            count << COUNT_AT
            | unsafe_add(block.number, clock) << DEADLINE_AT
            | clock << SPARE_AT
            | merkle.get_height(count) << LEVEL_AT
            | phases.HISTORY << PHASE_AT
            | 2 << ENTERED_AT
            | clock << CLOCK_BLOCKS_AT
            | increment << INCREMENT_BLOCKS_AT
        ),
        node_0=tops[0],
        node_1=tops[1],
        facts=self.hash_facts(empty(accumulators.Facts)),
    )
    key: bytes32 = self.hash_pair(pair)
    self.matches[key] = self.hash_position(key, position)
    log MatchStarted(
        job_id=pair.job_id, first=pair.first, second=pair.second, position=position
    )


@internal
@view
def load(pair: types.Pair, position: types.Position) -> Turn:
    """
    @notice Check that a match stands where the call says that it does.
    @dev A move in a job that is closed meanwhile changes nothing but the word of its match.
    @param pair Its members.
    @param position Where it stands.
    @return The match.
    """
    key: bytes32 = self.hash_pair(pair)
    require.same_position(self.matches[key] == self.hash_position(key, position))
    head: uint256 = position.head
    turn: Turn = Turn(
        pair=pair,
        key=key,
        clocks=head >> CLOCK_BLOCKS_AT,
        mover=(head >> MOVER_AT) & 1,
        phase=(head >> PHASE_AT) & U4,
        entered=(head >> ENTERED_AT) & U2,
        moves=(head >> MOVES_AT) & U8,
        span=(head >> SPAN_AT) & U3,
        level=(head >> LEVEL_AT) & U6,
        spare_blocks=(head >> SPARE_AT) & U24,
        deadline=(head >> DEADLINE_AT) & U40,
        count=(head >> COUNT_AT) & U56,
        index=head & U56,
        mine=position.node_0,
        theirs=position.node_1,
        facts=position.facts,
    )
    if turn.mover == 1:
        turn.mine = position.node_1
        turn.theirs = position.node_0
    return turn


@internal
@view
def begin(pair: types.Pair, position: types.Position, allowed: uint256) -> Turn:
    """
    @notice Check what all moves have in common: the position, the phase, the clock.
    @param pair The members.
    @param position The position that the move answers.
    @param allowed The set of phases in which the move exists.
    @return The match, to be changed by the move and passed on.
    """
    turn: Turn = self.load(pair, position)
    require.phase((allowed >> turn.phase) & 1 == 1)
    require.time_left(block.number <= turn.deadline)
    return turn


@internal
@view
def begin_with(
    pair: types.Pair, position: types.Position, facts: accumulators.Facts, allowed: uint256
) -> Turn:
    """
    @notice Check the facts, too, on which a move builds.
    @param pair The members.
    @param position The position that the move answers.
    @param facts What has been found out.
    @param allowed The set of phases in which the move exists.
    @return The match, to be changed by the move and passed on.
    """
    turn: Turn = self.begin(pair, position, allowed)
    require.same_position(self.hash_facts(facts) == turn.facts)
    return turn


@internal
@view
def require_own(turn: Turn):
    """
    @notice Refuse anybody but the member whose bond the move risks.
    @param turn The match.
    """
    mover: address = turn.pair.first
    if turn.mover == 1:
        mover = turn.pair.second
    require.mover(msg.sender == mover)


@internal
def find(turn: Turn, facts: accumulators.Facts) -> Turn:
    """
    @notice Remember what a match has found out, and announce it.
    @param turn The match.
    @param facts What it is.
    @return The match with it.
    """
    found: Turn = turn
    found.facts = self.hash_facts(facts)
    log Found(key=turn.key, facts=facts)
    return found


@internal
def pass_on(
    turn: Turn,
    nodes: DynArray[bytes32, merkle.ARITY],
    data: Bytes[accumulators.MAX_VALUES_BYTES],
):
    """
    @notice End a move: charge the mover's clock, start the other's, and announce the move.
    @param turn The match.
    @param nodes What the mover opened.
    @param data The bytes that it showed.
    """
    # The move was in time. Block numbers are below 2^39, clocks and increments at most 2^20.
    clock_blocks: uint256 = turn.clocks & U24
    left: uint256 = unsafe_sub(turn.deadline, block.number)
    left = unsafe_add(left, turn.clocks >> (INCREMENT_BLOCKS_AT - CLOCK_BLOCKS_AT))
    budget: uint256 = turn.spare_blocks
    if turn.phase == phases.VERIFIER:
        budget = clock_blocks
    position: types.Position = types.Position(
        head=(
            turn.index
            | turn.count << COUNT_AT
            | unsafe_add(block.number, budget) << DEADLINE_AT
            | min(left, clock_blocks) << SPARE_AT
            | turn.level << LEVEL_AT
            | turn.span << SPAN_AT
            | unsafe_add(turn.moves, 1) << MOVES_AT
            | turn.phase << PHASE_AT
            | turn.entered << ENTERED_AT
            | (turn.mover ^ 1) << MOVER_AT
            | turn.clocks << CLOCK_BLOCKS_AT
        ),
        node_0=turn.mine,
        node_1=turn.theirs,
        facts=turn.facts,
    )
    if turn.mover == 1:
        position.node_0 = turn.theirs
        position.node_1 = turn.mine
    self.matches[turn.key] = self.hash_position(turn.key, position)
    log Moved(key=turn.key, position=position, nodes=nodes, data=data)


@internal
def decide(turn: Turn, ending: uint256, am_i_right: bool, are_they_right: bool):
    """
    @notice End a match, given which sides are right; no two that differ can both be.
    @param turn The match.
    @param ending Why it ends.
    @param am_i_right Whether the mover is.
    @param are_they_right Whether the other side is.
    """
    outcome: uint256 = phases.NEITHER
    if am_i_right:
        outcome = turn.mover
    elif are_they_right:
        outcome = turn.mover ^ 1
    self.end(turn.pair, ending, outcome, 0)


@internal
def end(pair: types.Pair, ending: uint256, outcome: uint256, computed: uint256):
    """
    @notice End a match, if the job is open and both are still contenders.
    @param pair Its members.
    @param ending Why it ends.
    @param outcome Which side was right, or NEITHER, or UNDECIDED.
    @param computed What the leaf has computed, if the match ends there.
    """
    ledger.require_open(pair.job_id)
    key: bytes32 = self.hash_pair(pair)
    self.matches[key] = empty(bytes32)
    ledger.end_match(pair.job_id, pair.first, pair.second, outcome)
    log MatchEnded(key=key, outcome=outcome, ending=ending, computed=computed)
