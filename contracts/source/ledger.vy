# pragma version 0.4.3
"""
@title Jobs, members, claims, and what is owed to whom
@license Apache-2.0
@notice Money comes in with jobs and bonds. Of a lost bond the prize goes to the winner of the match
        and the rest is burned. Nothing moves before a job is closed; then what nobody is owed is
        burned, and the rest waits to be collected.
@dev One word a member and one a claim. contracts/model/words.py packs the same words.
"""

import merkle
import phases
import require

# A bond's divisor: one part is the prize of a match.
PRIZE_DIVISOR: constant(uint256) = 2

# `Job.head`: opened_block u40 | commit_blocks u24 | reveal_blocks u24 | window_blocks u24
# | clock_blocks u24 | increment_blocks u24, the first in the lowest bits. It is not 0: a clock has
# one block at least.
COMMIT_BLOCKS_AT: constant(uint256) = 40
REVEAL_BLOCKS_AT: constant(uint256) = 64
WINDOW_BLOCKS_AT: constant(uint256) = 88
CLOCK_BLOCKS_AT: constant(uint256) = 112
INCREMENT_BLOCKS_AT: constant(uint256) = 136

# `Job.scope`: operators u32 | state_slots u32 | batch_slots u32 | steps u64 | checkpoint_every u64
# | leaf_mode u8.
STATE_SLOTS_AT: constant(uint256) = 32
BATCH_SLOTS_AT: constant(uint256) = 64
STEPS_AT: constant(uint256) = 96
CHECKPOINT_EVERY_AT: constant(uint256) = 160
LEAF_MODE_AT: constant(uint256) = 224

# `Job.tally`: claims u24 | hidden u24 | defeated u24 | forfeits u24 | meetings u32 | window_end u40
# | status u2 | is_client_owed u1 | is_undecided u1 | bond_wei u80. Counters count bonds, of 0.2 ether
# at least: none comes near 2^24, and there are fewer meetings than members.
HIDDEN_AT: constant(uint256) = 24
DEFEATED_AT: constant(uint256) = 48
FORFEITS_AT: constant(uint256) = 72
MEETINGS_AT: constant(uint256) = 96
JOB_WINDOW_END_AT: constant(uint256) = 128
STATUS_AT: constant(uint256) = 168
CLIENT_OWED: constant(uint256) = 1 << 170
IS_UNDECIDED: constant(uint256) = 1 << 171
BOND_AT: constant(uint256) = 172

# `Job.offer`: reward_wei u96 | terms_digest u160. The digest is the upper bytes of keccak-256 of the
# terms, the client and the reward.
TERMS_DIGEST_AT: constant(uint256) = 96

# A member: standing u8 | prizes u24 | key u224. The key is the upper bytes of its commitment, and
# once that is revealed, of the hash of its history's top: nobody can make another top with that key.
PRIZES_AT: constant(uint256) = 8
KEY_AT: constant(uint256) = 32

# A claim, found by its key: contenders u24 | sharers u24 | meeting u32 | window_end u40 | exists u1.
SHARERS_AT: constant(uint256) = 24
MEETING_AT: constant(uint256) = 48
WINDOW_END_AT: constant(uint256) = 80
EXISTS: constant(uint256) = 1 << 120

U8: constant(uint256) = 2**8 - 1
U24: constant(uint256) = 2**24 - 1
U32: constant(uint256) = 2**32 - 1
U40: constant(uint256) = 2**40 - 1
U64: constant(uint256) = 2**64 - 1
U96: constant(uint256) = 2**96 - 1


struct Job:
    head: uint256
    scope: uint256
    tally: uint256
    client: address
    verifier: address
    offer: uint256
    layout: bytes32
    program_top: bytes32
    start_root: bytes32
    data_top: bytes32


event Settled:
    job_id: indexed(uint256)
    status: uint256
    top: bytes32


job_count: uint256
jobs: public(HashMap[uint256, Job])
# By job and account, and by job and key.
members: public(HashMap[uint256, HashMap[address, uint256]])
claims: public(HashMap[uint256, HashMap[uint256, uint256]])


@internal
@view
def require_open(job_id: uint256):
    """
    @notice Refuse unless a job exists and is not closed.
    @param job_id The job.
    """
    # It is not 0: the window of a job has an end.
    tally: uint256 = self.jobs[job_id].tally
    require.job(tally != 0)
    require.open_job(self.get_status(tally) == phases.OPEN)


@internal
@view
def get_open_head(job_id: uint256) -> uint256:
    """
    @notice Return the head of a job that is not closed.
    @param job_id The job.
    @return Its packed word.
    """
    self.require_open(job_id)
    return self.jobs[job_id].head


@internal
@pure
def get_status(tally: uint256) -> uint256:
    """
    @notice Return how a job stands.
    @param tally The job's word.
    @return Its status.
    """
    return (tally >> STATUS_AT) & 3


@internal
@view
def get_checkpoints(job_id: uint256) -> uint256:
    """
    @notice Return the leaves of a history, a checkpoint after every interval.
    @param job_id The job.
    @return Their number.
    """
    scope: uint256 = self.jobs[job_id].scope
    steps: uint256 = (scope >> STEPS_AT) & U64
    every: uint256 = (scope >> CHECKPOINT_EVERY_AT) & U64
    # Both are at most 2^32, and `every` is not 0.
    return unsafe_div(unsafe_sub(unsafe_add(steps, every), 1), every)


@internal
@pure
def is_contender(member: uint256) -> bool:
    """
    @notice Whether a member has shown a claim and has not been defeated.
    @param member The member's word.
    @return Whether it is so.
    """
    standing: uint256 = member & U8
    return standing == phases.REVEALED or standing == phases.LATE


@internal
@pure
def keeps_bond(tally: uint256, member: uint256) -> bool:
    """
    @notice Whether a closed job owes a member its bond.
    @param tally The job's word.
    @param member The member's word.
    @return Whether it is so: of everybody that has joined, if the job is void.
    """
    standing: uint256 = member & U8
    if self.get_status(tally) == phases.VOID:
        return standing != 0 and standing != phases.PAID
    return self.is_contender(member) or standing == phases.RELEASED


@internal
@view
def get_contender(job_id: uint256, account: address) -> uint256:
    """
    @notice Return a member that has shown a claim and has not been defeated.
    @param job_id The job.
    @param account The member's account.
    @return Its word.
    """
    member: uint256 = self.members[job_id][account]
    require.contender(self.is_contender(member))
    return member


@internal
@pure
def hash_top(top: bytes32) -> uint256:
    """
    @notice Return the key of a claim.
    @param top The top of its history.
    @return The key.
    """
    return convert(keccak256(top), uint256) >> KEY_AT


@internal
def end_match(job_id: uint256, first: address, second: address, outcome: uint256):
    """
    @notice Defeat whoever was wrong in a match of two contenders, or release both.
    @param job_id The job.
    @param first The member of side 0.
    @param second The member of side 1.
    @param outcome Which side was right, or NEITHER, or UNDECIDED.
    """
    member_0: uint256 = self.get_contender(job_id, first)
    member_1: uint256 = self.get_contender(job_id, second)
    if outcome != 0:
        self._take_out(job_id, first, member_0, outcome)
    if outcome != 1:
        self._take_out(job_id, second, member_1, outcome)
    # No counter overflows: above.
    if outcome == 0:
        self.members[job_id][first] = unsafe_add(member_0, 1 << PRIZES_AT)
    elif outcome == 1:
        self.members[job_id][second] = unsafe_add(member_1, 1 << PRIZES_AT)
    elif outcome == phases.NEITHER:
        tally: uint256 = self.jobs[job_id].tally
        self.jobs[job_id].tally = unsafe_add(tally, 2 << FORFEITS_AT)


@internal
def _take_out(job_id: uint256, account: address, member: uint256, outcome: uint256):
    # Take a contender out of its claim. Who is defeated forfeits its prizes, and who is released
    # keeps them. No counter under- or overflows: the member was counted as what it is.
    key: uint256 = member >> KEY_AT
    claim: uint256 = unsafe_sub(self.claims[job_id][key], 1)
    if member & U8 == phases.REVEALED:
        claim = unsafe_sub(claim, 1 << SHARERS_AT)
    self.claims[job_id][key] = claim
    tally: uint256 = self.jobs[job_id].tally
    if claim & U24 == 0:
        tally = unsafe_sub(tally, 1)
    if outcome == phases.UNDECIDED:
        self.members[job_id][account] = member & ~U8 | phases.RELEASED
        tally |= IS_UNDECIDED
    else:
        self.members[job_id][account] = key << KEY_AT | phases.DEFEATED
        prizes: uint256 = (member >> PRIZES_AT) & U24
        tally = unsafe_add(tally, 1 << DEFEATED_AT)
        tally = unsafe_add(tally, prizes << FORFEITS_AT)
    self.jobs[job_id].tally = tally


@internal
def close(job_id: uint256, status: uint256, sharers: uint256, top: bytes32):
    """
    @notice Close an open job, and burn what nobody is owed.
    @param job_id The job.
    @param status How it ends.
    @param sharers How many share the reward; if none do, the client gets it.
    @param top The top of the history that won, if one did.
    """
    tally: uint256 = self.jobs[job_id].tally
    bond_wei: uint256 = tally >> BOND_AT
    prize_wei: uint256 = unsafe_div(bond_wei, PRIZE_DIVISOR)
    # All that was paid in, which is less than 2^100.
    lost_wei: uint256 = unsafe_mul((tally >> HIDDEN_AT) & U24, bond_wei)
    defeated_wei: uint256 = unsafe_mul(
        (tally >> DEFEATED_AT) & U24, unsafe_sub(bond_wei, prize_wei)
    )
    forfeits_wei: uint256 = unsafe_mul((tally >> FORFEITS_AT) & U24, prize_wei)
    lost_wei = unsafe_add(unsafe_add(lost_wei, defeated_wei), forfeits_wei)
    tally |= status << STATUS_AT
    if sharers == 0:
        tally |= CLIENT_OWED
    else:
        lost_wei = unsafe_add(lost_wei, self._get_reward(job_id) % sharers)
    self.jobs[job_id].tally = tally
    log Settled(job_id=job_id, status=status, top=top)
    if lost_wei != 0 and status != phases.VOID:
        send(empty(address), lost_wei)


@internal
@view
def calculate_debt(job_id: uint256, account: address) -> uint256:
    """
    @notice Return what a closed job owes an account: as a contender, and as the client.
    @param job_id The job.
    @param account The account.
    @return How much, in wei.
    """
    owed_wei: uint256 = 0
    tally: uint256 = self.jobs[job_id].tally
    member: uint256 = self.members[job_id][account]
    # All sums are at most what was paid in, which is less than 2^100.
    if self.keeps_bond(tally, member):
        owed_wei = tally >> BOND_AT
        if self.get_status(tally) != phases.VOID:
            prize_wei: uint256 = unsafe_div(owed_wei, PRIZE_DIVISOR)
            prizes: uint256 = (member >> PRIZES_AT) & U24
            owed_wei = unsafe_add(owed_wei, unsafe_mul(prizes, prize_wei))
        if self.get_status(tally) == phases.WON and member & U8 == phases.REVEALED:
            claim: uint256 = self.claims[job_id][member >> KEY_AT]
            sharers: uint256 = (claim >> SHARERS_AT) & U24
            # This member is a sharer.
            share_wei: uint256 = unsafe_div(self._get_reward(job_id), sharers)
            owed_wei = unsafe_add(owed_wei, share_wei)
    if tally & CLIENT_OWED != 0 and account == self.jobs[job_id].client:
        owed_wei = unsafe_add(owed_wei, self._get_reward(job_id))
    return owed_wei


@internal
@view
def _get_reward(job_id: uint256) -> uint256:
    return self.jobs[job_id].offer & U96
