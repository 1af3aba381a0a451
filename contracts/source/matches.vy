# pragma version 0.4.3
"""
@title The match that a job is playing: where it stands, whose clock runs, how it ends
@license Apache-2.0
@notice The defender opens its trees, the challenger picks. Every move names the position that it
        answers. contracts/model/checks.py and `Turn` in moves.py are the specification.
"""

import ledger
import phases
import require
import tags

uses: ledger

# A bond's divisor: one part goes to the winner of a match, the rest is burned.
WINNER_SHARE: constant(uint256) = 2

# `Match.head`, which every move writes: index u56 | count u56 | deadline u40 | spare_clock u24
# | clock_blocks u24 | increment_blocks u24 | moves u8 | number u4 | defender u4 | challenger u4
# | level u6 | phase u4 | opened u1, the first in the lowest bits. The deadline is the last block
# in which the side to move may move, the spare clock is what the other side has left. Trees have
# at most 2^55 leaves. Phase 0 is no match. A match has about a hundred moves at most: two a round,
# and nine rounds in each of two trees of states, six in a trace, 14 in a tensor, eleven in a fold.
COUNT_AT: constant(uint256) = 56
DEADLINE_AT: constant(uint256) = 112
SPARE_CLOCK_AT: constant(uint256) = 152
CLOCK_BLOCKS_AT: constant(uint256) = 176
INCREMENT_BLOCKS_AT: constant(uint256) = 200
MOVES_AT: constant(uint256) = 224
NUMBER_AT: constant(uint256) = 232
DEFENDER_AT: constant(uint256) = 236
CHALLENGER_AT: constant(uint256) = 240
LEVEL_AT: constant(uint256) = 244
PHASE_AT: constant(uint256) = 250
OPENED_AT: constant(uint256) = 254

# `Match.place`: first_step u40 | step u40 | tree_index u40 | tree_count u40 | operator u32
# | interval u1, which is 1 once the states are those of an interval.
STEP_AT: constant(uint256) = 40
TREE_INDEX_AT: constant(uint256) = 80
TREE_COUNT_AT: constant(uint256) = 120
OPERATOR_AT: constant(uint256) = 160
INTERVAL_AT: constant(uint256) = 192

# `Match.tensor`: elements u64 | fold_length u64 | element u64 | width u8.
FOLD_LENGTH_AT: constant(uint256) = 64
ELEMENT_AT: constant(uint256) = 128
WIDTH_AT: constant(uint256) = 192

# `Match.fold`: low u64 | high u64 | low_bits u64 | high_bits u64.
HIGH_AT: constant(uint256) = 64
LOW_BITS_AT: constant(uint256) = 128
HIGH_BITS_AT: constant(uint256) = 192

U4: constant(uint256) = 2**4 - 1
U6: constant(uint256) = 2**6 - 1
U8: constant(uint256) = 2**8 - 1
U24: constant(uint256) = 2**24 - 1
U32: constant(uint256) = 2**32 - 1
U40: constant(uint256) = 2**40 - 1
U56: constant(uint256) = 2**56 - 1
U64: constant(uint256) = 2**64 - 1


# The matches of a job follow each other here. Only the head and the node are always those of the
# present match: each other word is written by the move that comes to a phase which reads it.
struct Match:
    head: uint256
    node: bytes32
    # From the disputed checkpoint on.
    place: uint256
    # In and after INTERVAL, if the match came through it.
    interval_top: bytes32
    # In and after TRACE.
    before: bytes32
    trace_top: bytes32
    # In and after TENSOR.
    encoding_digest: bytes32
    tensor: uint256
    # In and after FOLD.
    fold: uint256


# A match while a move is made in it. Clocks are what both sides have left in this block.
struct Turn:
    job_id: uint256
    number: uint256
    defender: uint256
    challenger: uint256
    defender_clock: uint256
    challenger_clock: uint256
    clock_blocks: uint256
    increment_blocks: uint256
    deadline: uint256
    moves: uint256
    phase: uint256
    opened: bool
    level: uint256
    index: uint256
    count: uint256
    node: bytes32


event MatchStarted:
    job_id: indexed(uint256)
    number: uint256
    defender: uint256
    challenger: uint256


event MatchEnded:
    job_id: indexed(uint256)
    number: uint256
    winner: uint256
    loser: uint256
    ending: uint256


event Voided:
    job_id: indexed(uint256)
    ending: uint256


matches: HashMap[uint256, Match]


@internal
@view
def get_started(job_id: uint256) -> uint256:
    """
    @notice Return how many matches of a job have been started.
    @param job_id The job.
    @return Their number: one less than its members at most.
    """
    head: uint256 = self.matches[job_id].head
    if head == 0:
        return 0
    return unsafe_add((head >> NUMBER_AT) & U4, 1)


@internal
@view
def is_playing(job_id: uint256) -> bool:
    """
    @notice Whether a match of a job is being played.
    @param job_id The job.
    @return Whether it is so.
    """
    return (self.matches[job_id].head >> PHASE_AT) & U4 != 0


@internal
def start(job_id: uint256, defender: uint256, challenger: uint256, level: uint256, count: uint256):
    """
    @notice Begin the next match of a job.
    @param job_id The job.
    @param defender The defender's seat.
    @param challenger The challenger's seat.
    @param level The height of a history.
    @param count Its number of leaves.
    """
    terms: uint256 = ledger.jobs[job_id].head
    clock: uint256 = (terms >> ledger.CLOCK_BLOCKS_AT) & U24
    turn: Turn = Turn(
        job_id=job_id,
        number=self.get_started(job_id),
        defender=defender,
        challenger=challenger,
        defender_clock=clock,
        challenger_clock=clock,
        clock_blocks=clock,
        increment_blocks=(terms >> ledger.INCREMENT_BLOCKS_AT) & U24,
        deadline=0,
        moves=0,
        phase=phases.HISTORY,
        opened=False,
        level=level,
        index=0,
        count=count,
        node=ledger.members[ledger.get_key(job_id, defender)].claim,
    )
    self.save_at(turn, turn.node)
    log MatchStarted(
        job_id=job_id, number=turn.number, defender=defender, challenger=challenger
    )


@internal
@view
def load(job_id: uint256) -> Turn:
    """
    @notice Return the match that a job is playing.
    @param job_id The job.
    @return The match, as it stands in this block.
    """
    head: uint256 = self.matches[job_id].head
    if head == 0:
        # There has been no match, so there may be no job.
        ledger.get_head(job_id)
    turn: Turn = Turn(
        job_id=job_id,
        number=(head >> NUMBER_AT) & U4,
        defender=(head >> DEFENDER_AT) & U4,
        challenger=(head >> CHALLENGER_AT) & U4,
        defender_clock=(head >> SPARE_CLOCK_AT) & U24,
        challenger_clock=(head >> SPARE_CLOCK_AT) & U24,
        clock_blocks=(head >> CLOCK_BLOCKS_AT) & U24,
        increment_blocks=(head >> INCREMENT_BLOCKS_AT) & U24,
        deadline=(head >> DEADLINE_AT) & U40,
        moves=(head >> MOVES_AT) & U8,
        phase=(head >> PHASE_AT) & U4,
        opened=(head >> OPENED_AT) & 1 == 1,
        level=(head >> LEVEL_AT) & U6,
        index=head & U56,
        count=(head >> COUNT_AT) & U56,
        node=self.matches[job_id].node,
    )
    require.phase(turn.phase != 0)
    left: uint256 = 0
    if block.number < turn.deadline:
        left = unsafe_sub(turn.deadline, block.number)
    if self.is_challengers_turn(turn.phase, turn.opened):
        turn.challenger_clock = left
    else:
        turn.defender_clock = left
    return turn


@internal
@view
def begin(job_id: uint256, position: bytes32, allowed: uint256) -> Turn:
    """
    @notice Check what all moves have in common, and give the side to move its increment.
    @param job_id The job.
    @param position The position that the move answers.
    @param allowed The set of phases in which the move exists.
    @return The match, to be changed by the move and saved.
    """
    turn: Turn = self.load(job_id)
    require.same_position(position == self.compute_position(turn))
    require.phase((allowed >> turn.phase) & 1 == 1)
    require.time_left(block.number <= turn.deadline)
    # Clocks and increments are at most 2^20.
    if self.is_challengers_turn(turn.phase, turn.opened):
        clock: uint256 = unsafe_add(turn.challenger_clock, turn.increment_blocks)
        turn.challenger_clock = min(clock, turn.clock_blocks)
    else:
        clock: uint256 = unsafe_add(turn.defender_clock, turn.increment_blocks)
        turn.defender_clock = min(clock, turn.clock_blocks)
    # A match has fewer than 2^8 moves.
    turn.moves = unsafe_add(turn.moves, 1)
    return turn


@internal
def save(turn: Turn):
    """
    @notice Remember where a match stands, but for its node.
    @param turn The match.
    """
    clock: uint256 = turn.defender_clock
    spare_clock: uint256 = turn.challenger_clock
    if self.is_challengers_turn(turn.phase, turn.opened):
        clock = turn.challenger_clock
        spare_clock = turn.defender_clock
    elif turn.phase == phases.VERIFIER:
        clock = turn.clock_blocks
    # Block numbers are below 2^39, clocks at most 2^20.
    deadline: uint256 = unsafe_add(block.number, clock)
    self.matches[turn.job_id].head = (
        turn.index
        | turn.count << COUNT_AT
        | deadline << DEADLINE_AT
        | spare_clock << SPARE_CLOCK_AT
        | turn.clock_blocks << CLOCK_BLOCKS_AT
        | turn.increment_blocks << INCREMENT_BLOCKS_AT
        | turn.moves << MOVES_AT
        | turn.number << NUMBER_AT
        | turn.defender << DEFENDER_AT
        | turn.challenger << CHALLENGER_AT
        | turn.level << LEVEL_AT
        | turn.phase << PHASE_AT
        | convert(turn.opened, uint256) << OPENED_AT
    )


@internal
def save_at(turn: Turn, node: bytes32):
    """
    @notice Remember where a match stands, at another node.
    @param turn The match.
    @param node The node.
    """
    self.save(turn)
    self.matches[turn.job_id].node = node


@internal
@pure
def is_challengers_turn(phase: uint256, opened: bool) -> bool:
    """
    @notice Whether the challenger's clock is running.
    @param phase Where the match stands, but not VERIFIER.
    @param opened Whether the defender has made its move there.
    @return Whether it is so.
    """
    return opened or (phases.CHALLENGER_TO_MOVE >> phase) & 1 == 1


@internal
@view
def compute_position(turn: Turn) -> bytes32:
    """
    @notice Return the digest of where a match stands, which no other match, or time, has.
    @param turn The match, before its move.
    @return The position.
    """
    element: uint256 = 0
    low: uint256 = 0
    if (phases.HAVE_ELEMENT >> turn.phase) & 1 == 1:
        element = (self.matches[turn.job_id].tensor >> ELEMENT_AT) & U64
        low = self.matches[turn.job_id].fold & U64
    return keccak256(
        abi_encode(
            tags.POSITION,
            chain.id,
            self,
            turn.job_id,
            turn.number,
            turn.moves,
            turn.phase,
            turn.opened,
            turn.level,
            turn.index,
            element,
            low,
            turn.node,
        )
    )


@internal
@view
def require_member(turn: Turn, seat: uint256):
    """
    @notice Refuse anybody but the member whose bond the move risks.
    @param turn The match.
    @param seat That member's seat.
    """
    require.mover(msg.sender == ledger.get_address(turn.job_id, seat))


@internal
def end(turn: Turn, defender_wins: bool, ending: uint256):
    """
    @notice End a match: part of the loser's bond goes to the winner, the rest is burned.
    @param turn The match.
    @param defender_wins Whether the defender wins it.
    @param ending Why it ends.
    """
    winner: uint256 = turn.challenger
    loser: uint256 = turn.defender
    if defender_wins:
        winner = turn.defender
        loser = turn.challenger
    self._stop(turn.job_id)
    ledger.set_standing(turn.job_id, loser, phases.DEFEATED)
    bond_wei: uint256 = ledger.jobs[turn.job_id].bond_wei
    share_wei: uint256 = unsafe_div(bond_wei, WINNER_SHARE)
    ledger.credit(ledger.get_address(turn.job_id, winner), share_wei)
    log MatchEnded(
        job_id=turn.job_id, number=turn.number, winner=winner, loser=loser, ending=ending
    )
    # The share is not more than the bond.
    ledger.burn(unsafe_sub(bond_wei, share_wei))


@internal
def void(job_id: uint256):
    """
    @notice Give back every shown bond and the reward: the job's verifier did not rule.
    @param job_id The job.
    """
    self._stop(job_id)
    log Voided(job_id=job_id, ending=phases.BY_VERIFIER)
    ledger.close(job_id, 0)


@internal
def _stop(job_id: uint256):
    # No match is being played, and its number stays.
    self.matches[job_id].head &= ~(U4 << PHASE_AT)
