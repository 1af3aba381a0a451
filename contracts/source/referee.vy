# pragma version 0.4.3
"""
@title The referee of Moot: jobs, bonds, claims and payouts
@license Apache-2.0
@notice A client opens a job, providers commit to claims and bond them, reveal them, and play
        matches until one claim is left. contracts/model is the executable specification, in the
        same words. There is no owner, no upgrade, no pause, and no loop without a bound.
@dev Storage is packed by hand: ledger.vy and matches.vy say how. The moves of a match are in
     descent.vy and verdicts.vy, what can be read of it in views.vy.
"""

import descent
import ledger
import matches
import merkle
import phases
import require
import tags
import types
import verdicts
import views

initializes: ledger
initializes: matches[ledger := ledger]
initializes: descent[ledger := ledger, matches := matches]
initializes: verdicts[descent := descent, ledger := ledger, matches := matches]
initializes: views[ledger := ledger, matches := matches]

exports: (
    ledger.job_count,
    ledger.credits_wei,
    descent.open,
    descent.pick,
    descent.enter_interval,
    descent.enter_trace,
    descent.enter_operator,
    descent.enter_state,
    verdicts.open_chunk,
    verdicts.pick_element,
    verdicts.open_fold,
    verdicts.pick_segment,
    verdicts.leaf,
    verdicts.prove_sink,
    verdicts.refer,
    verdicts.rule,
    verdicts.timeout,
    views.position,
    views.get_job,
    views.get_members,
    views.get_match,
)

# Half of it, the winner's share, pays 2,000,000 gas at 50 gwei.
MIN_BOND_WEI: constant(uint256) = 2 * 2_000_000 * 50 * 10**9
MAX_STEPS: constant(uint256) = 2**32
MAX_OPERATORS: constant(uint256) = 2**20
MAX_SLOTS: constant(uint256) = 2**16
# Longest window or clock.
MAX_BLOCKS: constant(uint256) = 2**20

# The first bytes of keccak-256 of the arithmetic's name and version, "ordered 1".
ARITHMETIC: constant(bytes4) = 0xe567fc84


event JobOpened:
    job_id: indexed(uint256)
    client: indexed(address)
    program_root: bytes32


event Committed:
    job_id: indexed(uint256)
    seat: uint256
    account: indexed(address)


event Revealed:
    job_id: indexed(uint256)
    seat: uint256
    history_root: bytes32


event Settled:
    job_id: indexed(uint256)
    history_root: bytes32
    winners: uint256


event Withdrawn:
    account: indexed(address)
    amount_wei: uint256


@deploy
def __init__(leaf: address):
    """
    @notice Deploy the referee.
    @param leaf The contract that computes leaves, leaf.vy.
    """
    descent.__init__(leaf)


@external
@payable
def open_job(terms: types.Terms):
    """
    @notice Open a job; the value is the reward, shared by the members of the winning claim.
    @param terms What the client asks for.
    """
    require.big_bond(terms.bond_wei >= MIN_BOND_WEI)
    require.sound_terms(self._are_terms_sound(terms))
    job_id: uint256 = ledger.job_count
    ledger.job_count = job_id + 1
    head: uint256 = block.number | terms.commit_blocks << ledger.COMMIT_BLOCKS_AT
    head |= terms.reveal_blocks << ledger.REVEAL_BLOCKS_AT
    head |= terms.clock_blocks << ledger.CLOCK_BLOCKS_AT
    head |= terms.increment_blocks << ledger.INCREMENT_BLOCKS_AT
    scope: uint256 = terms.operators | terms.state_slots << ledger.STATE_SLOTS_AT
    scope |= terms.batch_slots << ledger.BATCH_SLOTS_AT | terms.steps << ledger.STEPS_AT
    ledger.jobs[job_id] = ledger.Job(
        head=head | terms.leaf_mode << ledger.LEAF_MODE_AT,
        scope=scope | terms.checkpoint_every << ledger.CHECKPOINT_EVERY_AT,
        client=msg.sender,
        verifier=terms.verifier,
        bond_wei=terms.bond_wei,
        reward_wei=msg.value,
        layout=terms.layout,
        program_top=terms.program_top,
        start_root=terms.start_root,
        data_top=terms.data_top,
    )
    root: bytes32 = self._compute_program_root(terms)
    log JobOpened(job_id=job_id, client=msg.sender, program_root=root)


@external
@payable
def commit(job_id: uint256, digest: bytes32):
    """
    @notice Join a job with a bond, which is the value, and a hidden claim.
    @param job_id The job.
    @param digest keccak-256 of the words CLAIM, chain id, this contract, job, sender, the top of
           the history, and 32 bytes of salt.
    """
    head: uint256 = ledger.get_head(job_id)
    require.unsettled((head >> ledger.SETTLED_AT) & 1 == 0)
    require.not_late(block.number <= self._get_commit_deadline(head))
    require.bond(msg.value == ledger.jobs[job_id].bond_wei)
    seat: uint256 = ledger.get_member_count(job_id)
    require.free_seat(seat < ledger.MAX_MEMBERS)
    for other: uint256 in range(seat, bound=ledger.MAX_MEMBERS):
        account: address = ledger.get_address(job_id, other)
        require.first_time(account != msg.sender)
    # At most MAX_MEMBERS.
    ledger.jobs[job_id].head = unsafe_add(head, 1 << ledger.MEMBERS_AT)
    ledger.members[ledger.get_key(job_id, seat)] = ledger.Member(
        account=convert(msg.sender, uint256) | phases.COMMITTED << ledger.STANDING_AT,
        claim=digest,
    )
    log Committed(job_id=job_id, seat=seat, account=msg.sender)


@external
def reveal(job_id: uint256, top: bytes32, salt: bytes32):
    """
    @notice Show the claim that was committed to.
    @param job_id The job.
    @param top The top of the history tree.
    @param salt The salt of the commitment.
    """
    head: uint256 = ledger.get_head(job_id)
    require.not_early(block.number > self._get_commit_deadline(head))
    require.not_late(block.number <= self._get_reveal_deadline(head))
    digest: bytes32 = keccak256(
        abi_encode(tags.CLAIM, chain.id, self, job_id, msg.sender, top, salt)
    )
    seat: uint256 = 0
    members: uint256 = ledger.get_member_count(job_id)
    account: uint256 = convert(msg.sender, uint256) | phases.COMMITTED << ledger.STANDING_AT
    for other: uint256 in range(members, bound=ledger.MAX_MEMBERS):
        if ledger.members[ledger.get_key(job_id, seat)].account == account:
            break
        # At most MAX_MEMBERS.
        seat = unsafe_add(seat, 1)
    key: uint256 = ledger.get_key(job_id, seat)
    is_committed: bool = seat < members and ledger.members[key].claim == digest
    require.matching_commitment(is_committed)
    ledger.set_standing(job_id, seat, phases.REVEALED)
    ledger.members[key].claim = top
    root: bytes32 = self._compute_history_root(job_id, top)
    log Revealed(job_id=job_id, seat=seat, history_root=root)


@external
def start_match(job_id: uint256):
    """
    @notice Begin the next dispute, between the first contender and the first who differs from it;
            anyone may.
    @param job_id The job.
    """
    self._require_between_matches(job_id)
    is_disputed: bool = False
    defender: uint256 = 0
    challenger: uint256 = 0
    is_disputed, defender, challenger = self._get_rivals(job_id)
    require.dispute(is_disputed)
    count: uint256 = ledger.get_checkpoints(job_id)
    matches.start(job_id, defender, challenger, merkle.get_height(count), count)


@external
def settle(job_id: uint256):
    """
    @notice Pay the members of the one claim that is left, or the client when none is; anyone may.
    @param job_id The job.
    """
    self._require_between_matches(job_id)
    is_disputed: bool = False
    first: uint256 = 0
    other: uint256 = 0
    is_disputed, first, other = self._get_rivals(job_id)
    require.no_dispute(not is_disputed)
    winners: uint256 = ledger.count_standing(job_id, phases.REVEALED)
    share_wei: uint256 = 0
    root: bytes32 = empty(bytes32)
    if winners != 0:
        share_wei = unsafe_div(ledger.jobs[job_id].reward_wei, winners)
        top: bytes32 = ledger.members[ledger.get_key(job_id, first)].claim
        root = self._compute_history_root(job_id, top)
    log Settled(job_id=job_id, history_root=root, winners=winners)
    ledger.close(job_id, share_wei)


@external
def withdraw():
    """
    @notice Pay the sender what it is owed.
    @dev The debt is gone before the money is: a receiver that calls again is owed nothing.
    """
    owed_wei: uint256 = ledger.credits_wei[msg.sender]
    require.debt(owed_wei != 0)
    ledger.credits_wei[msg.sender] = 0
    log Withdrawn(account=msg.sender, amount_wei=owed_wei)
    raw_call(msg.sender, b"", value=owed_wei)


@external
@view
def leaf_contract() -> address:
    """
    @notice Return the contract that computes leaves.
    @return Its address.
    """
    return descent.LEAF.address


@internal
@pure
def _are_terms_sound(terms: types.Terms) -> bool:
    # Whether all counts, windows and clocks are within their bounds.
    return (
        self._is_within(terms.state_slots, 1, MAX_SLOTS)
        and terms.batch_slots <= MAX_SLOTS
        and self._is_within(terms.operators, terms.state_slots, MAX_OPERATORS)
        and self._is_within(terms.steps, 1, MAX_STEPS)
        and self._is_within(terms.checkpoint_every, 1, terms.steps)
        and terms.leaf_mode <= phases.OPERATOR_LEAF
        and self._is_within(terms.commit_blocks, 1, MAX_BLOCKS)
        and self._is_within(terms.reveal_blocks, 1, MAX_BLOCKS)
        and self._is_within(terms.clock_blocks, 1, MAX_BLOCKS)
        and terms.increment_blocks <= terms.clock_blocks
    )


@internal
@pure
def _is_within(x: uint256, least: uint256, greatest: uint256) -> bool:
    return least <= x and x <= greatest


@internal
@pure
def _compute_program_root(terms: types.Terms) -> bytes32:
    return keccak256(
        concat(
            tags.PROGRAM_ROOT,
            ARITHMETIC,
            convert(convert(terms.operators, uint32), bytes4),
            convert(convert(terms.state_slots, uint32), bytes4),
            convert(convert(terms.batch_slots, uint32), bytes4),
            terms.layout,
            terms.program_top,
        )
    )


@internal
@view
def _compute_history_root(job_id: uint256, top: bytes32) -> bytes32:
    return merkle.hash_root(tags.HISTORY_ROOT, ledger.get_checkpoints(job_id), top)


@internal
@pure
def _get_commit_deadline(head: uint256) -> uint256:
    # Last block in which a provider may join; the sum is below 2^49.
    return unsafe_add(head & ledger.U48, (head >> ledger.COMMIT_BLOCKS_AT) & ledger.U24)


@internal
@pure
def _get_reveal_deadline(head: uint256) -> uint256:
    # Last block in which a member may reveal its claim; the sum is below 2^49.
    window: uint256 = (head >> ledger.REVEAL_BLOCKS_AT) & ledger.U24
    return unsafe_add(self._get_commit_deadline(head), window)


@internal
@view
def _require_between_matches(job_id: uint256):
    # The job's claims are shown, none is being disputed, and it is not settled.
    head: uint256 = ledger.get_head(job_id)
    require.unsettled((head >> ledger.SETTLED_AT) & 1 == 0)
    require.not_early(block.number > self._get_reveal_deadline(head))
    require.no_match(not matches.is_playing(job_id))


@internal
@view
def _get_rivals(job_id: uint256) -> (bool, uint256, uint256):
    # Whether two contenders differ; the first contender, and the first who differs from it.
    is_first: bool = True
    first: uint256 = 0
    for seat: uint256 in range(ledger.get_member_count(job_id), bound=ledger.MAX_MEMBERS):
        if ledger.get_standing(job_id, seat) != phases.REVEALED:
            continue
        if is_first:
            is_first = False
            first = seat
        claim: bytes32 = ledger.members[ledger.get_key(job_id, seat)].claim
        if claim != ledger.members[ledger.get_key(job_id, first)].claim:
            return True, first, seat
    return False, first, 0
