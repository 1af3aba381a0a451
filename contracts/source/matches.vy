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

# `Match.head`, which every move writes: index u56 | count u56 | level u8 | defender_clock u24
# | challenger_clock u24 | since u40 | moves u16 | phase u8 | opened u8 | defender u4
# | challenger u4 | number u8, the first in the lowest bits. Trees have at most 2^55 leaves; a
# match has a few hundred moves.
COUNT_AT: constant(uint256) = 56
LEVEL_AT: constant(uint256) = 112
DEFENDER_CLOCK_AT: constant(uint256) = 120
CHALLENGER_CLOCK_AT: constant(uint256) = 144
SINCE_AT: constant(uint256) = 168
MOVES_AT: constant(uint256) = 208
PHASE_AT: constant(uint256) = 224
OPENED_AT: constant(uint256) = 232
DEFENDER_AT: constant(uint256) = 240
CHALLENGER_AT: constant(uint256) = 244
NUMBER_AT: constant(uint256) = 248

# `Match.place`: first_step u40 | step u40 | tree_index u40 | tree_count u40 | operator u32
# | interval u8, which is 1 once the states are those of an interval.
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
U8: constant(uint256) = 2**8 - 1
U16: constant(uint256) = 2**16 - 1
U24: constant(uint256) = 2**24 - 1
U32: constant(uint256) = 2**32 - 1
U40: constant(uint256) = 2**40 - 1
U56: constant(uint256) = 2**56 - 1
U64: constant(uint256) = 2**64 - 1


struct Match:
    head: uint256
    node: bytes32
    place: uint256
    tensor: uint256
    fold: uint256
    interval_top: bytes32
    before: bytes32
    trace_top: bytes32
    encoding_digest: bytes32


# A match while a move is made in it; `key` is where it is stored.
struct Turn:
    job_id: uint256
    key: uint256
    number: uint256
    defender: uint256
    challenger: uint256
    defender_clock: uint256
    challenger_clock: uint256
    since: uint256
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


# Match `number` of a job is number job_id * ledger.MAX_MEMBERS + number: each defeats a member.
matches: HashMap[uint256, Match]


@internal
def start(turn: Turn):
    """
    @notice Begin a match.
    @param turn The match before its first move.
    """
    head: uint256 = ledger.jobs[turn.job_id].head
    # A job has fewer matches than members.
    head = unsafe_add(head, 1 << ledger.MATCHES_AT) | 1 << ledger.PLAYING_AT
    ledger.jobs[turn.job_id].head = head
    self.save(turn)
    self.matches[turn.key].node = turn.node
    log MatchStarted(
        job_id=turn.job_id,
        number=turn.number,
        defender=turn.defender,
        challenger=turn.challenger,
    )


@internal
@view
def load(job_id: uint256) -> Turn:
    """
    @notice Return the match that a job is playing.
    @param job_id The job.
    @return The match.
    """
    head: uint256 = ledger.get_head(job_id)
    require.phase((head >> ledger.PLAYING_AT) & U8 == 1)
    # A match that is being played has been started.
    number: uint256 = unsafe_sub((head >> ledger.MATCHES_AT) & U8, 1)
    key: uint256 = ledger.get_key(job_id, number)
    packed: uint256 = self.matches[key].head
    return Turn(
        job_id=job_id,
        key=key,
        number=number,
        defender=(packed >> DEFENDER_AT) & U4,
        challenger=(packed >> CHALLENGER_AT) & U4,
        defender_clock=(packed >> DEFENDER_CLOCK_AT) & U24,
        challenger_clock=(packed >> CHALLENGER_CLOCK_AT) & U24,
        since=(packed >> SINCE_AT) & U40,
        moves=(packed >> MOVES_AT) & U16,
        phase=(packed >> PHASE_AT) & U8,
        opened=(packed >> OPENED_AT) & 1 == 1,
        level=(packed >> LEVEL_AT) & U8,
        index=packed & U56,
        count=(packed >> COUNT_AT) & U56,
        node=self.matches[key].node,
    )


@internal
@view
def load_at(job_id: uint256, position: bytes32) -> Turn:
    """
    @notice Return the match that a job is playing, if it stands where the caller thinks.
    @param job_id The job.
    @param position The position that the caller answers.
    @return The match.
    """
    turn: Turn = self.load(job_id)
    require.same_position(position == self.compute_position(turn))
    return turn


@internal
@view
def begin(job_id: uint256, position: bytes32, allowed: uint256) -> Turn:
    """
    @notice Check what all moves have in common, and charge the clock of the side to move.
    @param job_id The job.
    @param position The position that the move answers.
    @param allowed The set of phases in which the move exists.
    @return The match, to be changed by the move and saved.
    """
    turn: Turn = self.load_at(job_id, position)
    require.phase((allowed >> turn.phase) & 1 == 1)
    clock: uint256 = self.get_clock(turn)
    # No block is before the last move's.
    elapsed: uint256 = unsafe_sub(block.number, turn.since)
    require.time_left(elapsed <= clock)
    head: uint256 = ledger.jobs[job_id].head
    # The sum is below 2^25.
    clock = unsafe_add(unsafe_sub(clock, elapsed), (head >> ledger.INCREMENT_BLOCKS_AT) & U24)
    clock = min(clock, (head >> ledger.CLOCK_BLOCKS_AT) & U24)
    if self.is_challengers_turn(turn):
        turn.challenger_clock = clock
    else:
        turn.defender_clock = clock
    turn.since = block.number
    # Fewer than 2^16: every round shortens what is left.
    turn.moves = unsafe_add(turn.moves, 1)
    return turn


@internal
def save(turn: Turn):
    """
    @notice Remember where a match stands; its node, where it has changed, is saved by the move.
    @param turn The match.
    """
    packed: uint256 = turn.index | turn.count << COUNT_AT | turn.level << LEVEL_AT
    packed |= turn.defender_clock << DEFENDER_CLOCK_AT
    packed |= turn.challenger_clock << CHALLENGER_CLOCK_AT
    packed |= turn.since << SINCE_AT | turn.moves << MOVES_AT | turn.phase << PHASE_AT
    packed |= convert(turn.opened, uint256) << OPENED_AT
    packed |= turn.defender << DEFENDER_AT | turn.challenger << CHALLENGER_AT
    self.matches[turn.key].head = packed | turn.number << NUMBER_AT


@internal
@pure
def is_challengers_turn(turn: Turn) -> bool:
    """
    @notice Whether the challenger's clock is running.
    @param turn The match, in any phase but VERIFIER.
    @return Whether it is so.
    """
    return turn.opened or (phases.CHALLENGER_TO_MOVE >> turn.phase) & 1 == 1


@internal
@view
def get_clock(turn: Turn) -> uint256:
    """
    @notice Return the blocks that the side to move had left when the last move was made.
    @param turn The match.
    @return The number of blocks; the verifier has as many as a clock begins with.
    """
    if turn.phase == phases.VERIFIER:
        return (ledger.jobs[turn.job_id].head >> ledger.CLOCK_BLOCKS_AT) & U24
    if self.is_challengers_turn(turn):
        return turn.challenger_clock
    return turn.defender_clock


@internal
@view
def compute_position(turn: Turn) -> bytes32:
    """
    @notice Return the digest of where a match stands, which no other match, or time, has.
    @param turn The match.
    @return The position.
    """
    element: uint256 = 0
    low: uint256 = 0
    if (phases.ELEMENTS >> turn.phase) & 1 == 1:
        element = (self.matches[turn.key].tensor >> ELEMENT_AT) & U64
        low = self.matches[turn.key].fold & U64
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
    account: address = ledger.get_address(turn.job_id, seat)
    require.mover(msg.sender == account)


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
    head: uint256 = ledger.jobs[turn.job_id].head
    ledger.jobs[turn.job_id].head = head & ~(U8 << ledger.PLAYING_AT)
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
def void(turn: Turn):
    """
    @notice Give back every shown bond and the reward: the job's verifier did not rule.
    @param turn The match.
    """
    log Voided(job_id=turn.job_id, ending=phases.BY_VERIFIER)
    ledger.close(turn.job_id, 0)
