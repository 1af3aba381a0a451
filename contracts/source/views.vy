# pragma version 0.4.3
"""
@title What can be read of jobs, members and matches
@license Apache-2.0
@notice The words of the model: contracts/model/types.py.
"""

import ledger
import matches
import phases
import types

uses: ledger
uses: matches


struct JobView:
    client: address
    terms: types.Terms
    reward_wei: uint256
    opened_block: uint256
    matches: uint256
    is_playing: bool
    is_settled: bool


struct MemberView:
    account: address
    standing: uint256
    claim: bytes32


# What `Match` in contracts/model/types.py says, in its order, and 0 where it is not known yet. As
# both clocks are what is left of them in this block, `since` is this block; in VERIFIER it is the
# block in which the verifier was asked.
struct MatchView:
    number: uint256
    defender: uint256
    challenger: uint256
    defender_clock: uint256
    challenger_clock: uint256
    since: uint256
    phase: uint256
    opened: bool
    moves: uint256
    node: bytes32
    level: uint256
    index: uint256
    count: uint256
    tree_top: bytes32
    tree_count: uint256
    tree_index: uint256
    first_step: uint256
    step: uint256
    before: bytes32
    trace_top: bytes32
    operator: uint256
    encoding_digest: bytes32
    width: uint256
    elements: uint256
    element: uint256
    fold_length: uint256
    low: uint256
    high: uint256
    low_bits: uint256
    high_bits: uint256


@external
@view
def position(job_id: uint256) -> bytes32:
    """
    @notice Return the position that the next move of a job's match has to name.
    @param job_id The job, which is playing a match.
    @return The position.
    """
    return matches.compute_position(matches.load(job_id))


@external
@view
def get_job(job_id: uint256) -> JobView:
    """
    @notice Return all that is known of a job, but for its members and its match.
    @param job_id The job.
    @return Its terms and its state.
    """
    head: uint256 = ledger.get_head(job_id)
    scope: uint256 = ledger.jobs[job_id].scope
    terms: types.Terms = types.Terms(
        operators=scope & ledger.U32,
        state_slots=(scope >> ledger.STATE_SLOTS_AT) & ledger.U32,
        batch_slots=(scope >> ledger.BATCH_SLOTS_AT) & ledger.U32,
        layout=ledger.jobs[job_id].layout,
        program_top=ledger.jobs[job_id].program_top,
        start_root=ledger.jobs[job_id].start_root,
        data_top=ledger.jobs[job_id].data_top,
        steps=(scope >> ledger.STEPS_AT) & ledger.U64,
        checkpoint_every=scope >> ledger.CHECKPOINT_EVERY_AT,
        leaf_mode=(head >> ledger.LEAF_MODE_AT) & ledger.BYTE,
        verifier=ledger.jobs[job_id].verifier,
        bond_wei=ledger.jobs[job_id].bond_wei,
        commit_blocks=(head >> ledger.COMMIT_BLOCKS_AT) & ledger.U24,
        reveal_blocks=(head >> ledger.REVEAL_BLOCKS_AT) & ledger.U24,
        clock_blocks=(head >> ledger.CLOCK_BLOCKS_AT) & ledger.U24,
        increment_blocks=(head >> ledger.INCREMENT_BLOCKS_AT) & ledger.U24,
    )
    return JobView(
        client=ledger.jobs[job_id].client,
        terms=terms,
        reward_wei=ledger.jobs[job_id].reward_wei,
        opened_block=head & ledger.U48,
        matches=matches.get_started(job_id),
        is_playing=matches.is_playing(job_id),
        is_settled=(head >> ledger.SETTLED_AT) & 1 == 1,
    )


@external
@view
def get_members(job_id: uint256) -> DynArray[MemberView, ledger.MAX_MEMBERS]:
    """
    @notice Return the members of a job by their seats.
    @param job_id The job.
    @return Each one's account, its standing, and its commitment or, once revealed, its claim.
    """
    ledger.get_head(job_id)
    members: DynArray[MemberView, ledger.MAX_MEMBERS] = []
    for seat: uint256 in range(ledger.get_member_count(job_id), bound=ledger.MAX_MEMBERS):
        members.append(
            MemberView(
                account=ledger.get_address(job_id, seat),
                standing=ledger.get_standing(job_id, seat),
                claim=ledger.members[ledger.get_key(job_id, seat)].claim,
            )
        )
    return members


@external
@view
def get_match(job_id: uint256) -> MatchView:
    """
    @notice Return where the match of a job stands.
    @param job_id The job, which is playing a match.
    @return The match.
    """
    turn: matches.Turn = matches.load(job_id)
    # Words that this match has not written yet may be those of the job's match before.
    stored: matches.Match = matches.matches[job_id]
    if (phases.HAVE_PLACE >> turn.phase) & 1 == 0:
        stored.place = 0
    if (phases.HAVE_TRACE >> turn.phase) & 1 == 0:
        stored.before = empty(bytes32)
        stored.trace_top = empty(bytes32)
    if (phases.HAVE_TENSOR >> turn.phase) & 1 == 0:
        stored.encoding_digest = empty(bytes32)
        stored.tensor = 0
    if (phases.HAVE_ELEMENT >> turn.phase) & 1 == 0:
        stored.fold = 0
    if (stored.place >> matches.INTERVAL_AT) & 1 == 0:
        stored.interval_top = empty(bytes32)
        if stored.place != 0:
            key: uint256 = ledger.get_key(job_id, turn.defender)
            stored.interval_top = ledger.members[key].claim
    return self._show(turn, stored)


@internal
@view
def _show(turn: matches.Turn, stored: matches.Match) -> MatchView:
    since: uint256 = block.number
    if turn.phase == phases.VERIFIER:
        since = turn.deadline - turn.clock_blocks
    return MatchView(
        number=turn.number,
        defender=turn.defender,
        challenger=turn.challenger,
        defender_clock=turn.defender_clock,
        challenger_clock=turn.challenger_clock,
        since=since,
        phase=turn.phase,
        opened=turn.opened,
        moves=turn.moves,
        node=turn.node,
        level=turn.level,
        index=turn.index,
        count=turn.count,
        tree_top=stored.interval_top,
        tree_count=(stored.place >> matches.TREE_COUNT_AT) & matches.U40,
        tree_index=(stored.place >> matches.TREE_INDEX_AT) & matches.U40,
        first_step=stored.place & matches.U40,
        step=(stored.place >> matches.STEP_AT) & matches.U40,
        before=stored.before,
        trace_top=stored.trace_top,
        operator=(stored.place >> matches.OPERATOR_AT) & matches.U32,
        encoding_digest=stored.encoding_digest,
        width=stored.tensor >> matches.WIDTH_AT,
        elements=stored.tensor & matches.U64,
        element=(stored.tensor >> matches.ELEMENT_AT) & matches.U64,
        fold_length=(stored.tensor >> matches.FOLD_LENGTH_AT) & matches.U64,
        low=stored.fold & matches.U64,
        high=(stored.fold >> matches.HIGH_AT) & matches.U64,
        low_bits=(stored.fold >> matches.LOW_BITS_AT) & matches.U64,
        high_bits=stored.fold >> matches.HIGH_BITS_AT,
    )
