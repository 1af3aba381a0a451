# pragma version 0.4.3
"""
@title The calls around the matches: who joins with which claim, who meets whom, who is paid
@license Apache-2.0
@notice Claims are knocked out. Two that meet send their members against each other, all pairs in
        parallel if anybody wants; a member is defeated by any match that it loses, and a claim is
        out when it has no contender left and the window is over in which anybody could have joined
        it. contracts/model/tournament.py is the specification.
"""

import ledger
import phases
import require
import tags
import turns
import types

uses: ledger
uses: turns

LEGALITY: immutable(address)


event Committed:
    job_id: indexed(uint256)
    account: indexed(address)


event Claimed:
    job_id: indexed(uint256)
    account: indexed(address)
    top: bytes32


event Collected:
    job_id: indexed(uint256)
    account: indexed(address)
    amount_wei: uint256


@deploy
def __init__(legality: address):
    """
    @notice Remember who takes proofs that a program is not legal.
    @param legality That contract, legality.vy.
    """
    LEGALITY = legality


@external
@payable
def commit(job_id: uint256, digest: bytes32, terms_digest: uint256):
    """
    @notice Join a job with a bond, which is the value, and a hidden claim.
    @param job_id The job.
    @param digest keccak-256 of the words CLAIM, chain id, this contract, job, sender, the top of
           the history, and 32 bytes of salt.
    @param terms_digest What the job says, as ledger.vy keeps it: a job that has come to the number
           in a reorganisation is refused.
    """
    head: uint256 = ledger.get_open_head(job_id)
    require.not_late(block.number <= self._get_commit_deadline(head))
    self._require_new(job_id, terms_digest)
    key: uint256 = convert(digest, uint256) >> ledger.KEY_AT
    ledger.members[job_id][msg.sender] = key << ledger.KEY_AT | phases.COMMITTED
    # No counter overflows: ledger.vy says why.
    tally: uint256 = ledger.jobs[job_id].tally
    ledger.jobs[job_id].tally = unsafe_add(tally, 1 << ledger.HIDDEN_AT)
    log Committed(job_id=job_id, account=msg.sender)


@external
def reveal(job_id: uint256, top: bytes32, salt: bytes32):
    """
    @notice Show the claim that was committed to.
    @param job_id The job.
    @param top The top of the history tree.
    @param salt The salt of the commitment.
    """
    head: uint256 = ledger.get_open_head(job_id)
    require.not_early(block.number > self._get_commit_deadline(head))
    require.not_late(block.number <= self._get_reveal_deadline(head))
    digest: bytes32 = keccak256(
        abi_encode(tags.CLAIM, chain.id, self, job_id, msg.sender, top, salt)
    )
    key: uint256 = convert(digest, uint256) >> ledger.KEY_AT
    member: uint256 = key << ledger.KEY_AT | phases.COMMITTED
    require.matching_commitment(ledger.members[job_id][msg.sender] == member)
    key = ledger.hash_top(top)
    claim: uint256 = ledger.claims[job_id][key]
    # The member was counted as hidden.
    tally: uint256 = unsafe_sub(ledger.jobs[job_id].tally, 1 << ledger.HIDDEN_AT)
    if claim == 0:
        tally = unsafe_add(tally, 1)
    ledger.jobs[job_id].tally = tally
    # No counter overflows: ledger.vy says why.
    self._show(job_id, top, key, unsafe_add(claim, 1 << ledger.SHARERS_AT), phases.REVEALED)


@external
@payable
def join(job_id: uint256, top: bytes32, terms_digest: uint256):
    """
    @notice Join late, with the bond as the value: with a claim of one's own, or behind one that is
            disputed. It brings prizes, but no share of the reward, so that nobody gains by copying
            the call.
    @param job_id The job.
    @param top The top of the claim.
    @param terms_digest What the job says, as in `commit`.
    """
    head: uint256 = ledger.get_open_head(job_id)
    require.not_early(block.number > self._get_reveal_deadline(head))
    key: uint256 = ledger.hash_top(top)
    claim: uint256 = ledger.claims[job_id][key]
    last: uint256 = (claim >> ledger.WINDOW_END_AT) & ledger.U40
    if (claim >> ledger.MEETING_AT) & ledger.U32 == 0:
        # Below 2^41.
        window: uint256 = (head >> ledger.WINDOW_BLOCKS_AT) & ledger.U24
        last = unsafe_add(self._get_reveal_deadline(head), window)
    require.not_late(block.number <= last)
    self._require_new(job_id, terms_digest)
    if claim & ledger.U24 == 0:
        ledger.jobs[job_id].tally = unsafe_add(ledger.jobs[job_id].tally, 1)
    self._show(job_id, top, key, claim, phases.LATE)


@external
def start_match(
    job_id: uint256, first: address, second: address, tops: bytes32[2], rivals: bytes32[2]
):
    """
    @notice Begin a match between two members whose claims meet, or may meet now; anyone may.
    @param job_id The job.
    @param first The member with the lower address.
    @param second The other.
    @param tops The tops of their histories.
    @param rivals If their claims are to meet: the tops of those that each of the two met last;
           ignored of a claim that has met none.
    """
    head: uint256 = ledger.get_open_head(job_id)
    require.not_early(block.number > self._get_reveal_deadline(head))
    require.order(convert(first, uint160) < convert(second, uint160))
    pair: types.Pair = types.Pair(job_id=job_id, first=first, second=second)
    require.no_match(turns.matches[turns.hash_pair(pair)] == empty(bytes32))
    key_0: uint256 = ledger.get_contender(job_id, first) >> ledger.KEY_AT
    key_1: uint256 = ledger.get_contender(job_id, second) >> ledger.KEY_AT
    require.dispute(key_0 != key_1)
    require.claim(ledger.hash_top(tops[0]) == key_0 and ledger.hash_top(tops[1]) == key_1)
    self._let_meet(job_id, head, key_0, key_1, rivals)
    turns.start(pair, head, tops)


@external
def settle(job_id: uint256, top: bytes32):
    """
    @notice Close a job in which one claim is left, or none; anyone may. It is won by the claim that
            is left, unless a match was left undecided: that claim might be a wrong one.
    @param job_id The job.
    @param top The top of the claim that is left, if one is.
    """
    ledger.require_open(job_id)
    tally: uint256 = ledger.jobs[job_id].tally
    last: uint256 = (tally >> ledger.JOB_WINDOW_END_AT) & ledger.U40
    require.not_early(block.number > last)
    claims: uint256 = tally & ledger.U24
    require.no_dispute(claims <= 1)
    if claims == 0 or tally & ledger.IS_UNDECIDED != 0:
        ledger.close(job_id, phases.EMPTY, 0, empty(bytes32))
        return
    claim: uint256 = ledger.claims[job_id][ledger.hash_top(top)]
    require.claim(claim & ledger.U24 != 0)
    sharers: uint256 = (claim >> ledger.SHARERS_AT) & ledger.U24
    ledger.close(job_id, phases.WON, sharers, top)


@external
def annul(job_id: uint256):
    """
    @notice Give everybody its money back; for the contract to which it has been proven that the
            job's program is not legal.
    @param job_id The job.
    """
    require.mover(msg.sender == LEGALITY)
    ledger.require_open(job_id)
    ledger.close(job_id, phases.VOID, 0, empty(bytes32))


@external
def collect(job_id: uint256):
    """
    @notice Pay the sender what a closed job owes it.
    @dev The debt is gone before the money is: a receiver that calls again is owed nothing.
    @param job_id The job.
    """
    tally: uint256 = ledger.jobs[job_id].tally
    require.job(tally != 0)
    require.not_early(ledger.get_status(tally) != phases.OPEN)
    owed_wei: uint256 = ledger.calculate_debt(job_id, msg.sender)
    require.debt(owed_wei != 0)
    member: uint256 = ledger.members[job_id][msg.sender]
    if ledger.keeps_bond(tally, member):
        ledger.members[job_id][msg.sender] = member & ~ledger.U8 | phases.PAID
    if msg.sender == ledger.jobs[job_id].client:
        ledger.jobs[job_id].tally = tally & ~ledger.CLIENT_OWED
    log Collected(job_id=job_id, account=msg.sender, amount_wei=owed_wei)
    raw_call(msg.sender, b"", value=owed_wei)


@external
@view
def get_debt(job_id: uint256, account: address) -> uint256:
    """
    @notice Return what a job owes an account.
    @param job_id The job.
    @param account The account.
    @return How much, in wei; 0 while the job is open.
    """
    if ledger.get_status(ledger.jobs[job_id].tally) == phases.OPEN:
        return 0
    return ledger.calculate_debt(job_id, account)


@internal
@payable
def _require_new(job_id: uint256, terms_digest: uint256):
    # Refuse whoever means another job, does not bring the bond, or has joined already.
    offer: uint256 = ledger.jobs[job_id].offer
    require.same_terms(offer >> ledger.TERMS_DIGEST_AT == terms_digest)
    require.bond(msg.value == ledger.jobs[job_id].tally >> ledger.BOND_AT)
    require.first_time(ledger.members[job_id][msg.sender] == 0)


@internal
def _show(job_id: uint256, top: bytes32, key: uint256, claim: uint256, standing: uint256):
    # Count the sender in for a claim, and say so. No counter overflows: ledger.vy says why.
    ledger.claims[job_id][key] = unsafe_add(claim | ledger.EXISTS, 1)
    ledger.members[job_id][msg.sender] = key << ledger.KEY_AT | standing
    log Claimed(job_id=job_id, account=msg.sender, top=top)


@internal
def _let_meet(
    job_id: uint256, head: uint256, key_0: uint256, key_1: uint256, rivals: bytes32[2]
):
    # Let two claims meet, unless they do.
    claim_0: uint256 = ledger.claims[job_id][key_0]
    claim_1: uint256 = ledger.claims[job_id][key_1]
    meeting: uint256 = (claim_0 >> ledger.MEETING_AT) & ledger.U32
    if meeting != 0 and meeting == (claim_1 >> ledger.MEETING_AT) & ledger.U32:
        return
    self._require_free(job_id, key_0, claim_0, rivals[0])
    self._require_free(job_id, key_1, claim_1, rivals[1])
    tally: uint256 = unsafe_add(ledger.jobs[job_id].tally, 1 << ledger.MEETINGS_AT)
    # Block numbers are below 2^39, windows at most 2^20.
    last: uint256 = unsafe_add(block.number, (head >> ledger.WINDOW_BLOCKS_AT) & ledger.U24)
    met: uint256 = (tally >> ledger.MEETINGS_AT) & ledger.U32
    met = met << ledger.MEETING_AT | last << ledger.WINDOW_END_AT
    ledger.claims[job_id][key_0] = self._meet(claim_0, met)
    ledger.claims[job_id][key_1] = self._meet(claim_1, met)
    tally &= ~(ledger.U40 << ledger.JOB_WINDOW_END_AT)
    ledger.jobs[job_id].tally = tally | last << ledger.JOB_WINDOW_END_AT


@internal
@view
def _require_free(job_id: uint256, key: uint256, claim: uint256, top: bytes32):
    # Refuse unless a claim never met another, or nobody is left of the one that it met, which has
    # this top, and nobody can come any more: both may be joined up to the same block.
    meeting: uint256 = (claim >> ledger.MEETING_AT) & ledger.U32
    if meeting == 0:
        return
    rival_key: uint256 = ledger.hash_top(top)
    rival: uint256 = ledger.claims[job_id][rival_key]
    is_rival: bool = (rival >> ledger.MEETING_AT) & ledger.U32 == meeting and rival_key != key
    require.claim(is_rival)
    last: uint256 = (claim >> ledger.WINDOW_END_AT) & ledger.U40
    require.free_claim(rival & ledger.U24 == 0 and block.number > last)


@internal
@pure
def _meet(claim: uint256, met: uint256) -> uint256:
    # The claim in a new meeting: its number and its window.
    below: uint256 = claim & ((1 << ledger.MEETING_AT) - 1)
    return below | met | ledger.EXISTS


@internal
@pure
def _get_commit_deadline(head: uint256) -> uint256:
    # Last block in which a provider may commit; the sum is below 2^41.
    return unsafe_add(head & ledger.U40, (head >> ledger.COMMIT_BLOCKS_AT) & ledger.U24)


@internal
@pure
def _get_reveal_deadline(head: uint256) -> uint256:
    # Last block in which a member may reveal its claim; the sum is below 2^41.
    window: uint256 = (head >> ledger.REVEAL_BLOCKS_AT) & ledger.U24
    return unsafe_add(self._get_commit_deadline(head), window)
