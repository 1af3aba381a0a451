# pragma version 0.4.3
"""
@title Jobs, their members, and what is owed to whom
@license Apache-2.0
@notice Money comes in with jobs and bonds, and leaves by withdrawals and by burning.
"""

import phases
import require

MAX_MEMBERS: constant(uint256) = 8

# `Job.head`: opened_block u48 | commit_blocks u24 | reveal_blocks u24 | clock_blocks u24
# | increment_blocks u24 | members u8 | settled u8 | leaf_mode u8, the first in the lowest bits. It
# is not 0: a clock has one block at least.
COMMIT_BLOCKS_AT: constant(uint256) = 48
REVEAL_BLOCKS_AT: constant(uint256) = 72
CLOCK_BLOCKS_AT: constant(uint256) = 96
INCREMENT_BLOCKS_AT: constant(uint256) = 120
MEMBERS_AT: constant(uint256) = 144
SETTLED_AT: constant(uint256) = 152
LEAF_MODE_AT: constant(uint256) = 160

# `Job.scope`: operators u32 | state_slots u32 | batch_slots u32 | steps u64 | checkpoint_every u64.
STATE_SLOTS_AT: constant(uint256) = 32
BATCH_SLOTS_AT: constant(uint256) = 64
STEPS_AT: constant(uint256) = 96
CHECKPOINT_EVERY_AT: constant(uint256) = 160

# `Member.account`: address u160 | standing u8.
STANDING_AT: constant(uint256) = 160

BYTE: constant(uint256) = 2**8 - 1
U24: constant(uint256) = 2**24 - 1
U32: constant(uint256) = 2**32 - 1
U48: constant(uint256) = 2**48 - 1
U64: constant(uint256) = 2**64 - 1
ADDRESS: constant(uint256) = 2**160 - 1


struct Job:
    head: uint256
    scope: uint256
    client: address
    verifier: address
    bond_wei: uint256
    reward_wei: uint256
    layout: bytes32
    program_top: bytes32
    start_root: bytes32
    data_top: bytes32


struct Member:
    account: uint256
    # The commitment, and once it is revealed the top of the history that it hid.
    claim: bytes32


job_count: public(uint256)
jobs: HashMap[uint256, Job]
# Member `seat` of a job is number job_id * MAX_MEMBERS + seat.
members: HashMap[uint256, Member]
credits_wei: public(HashMap[address, uint256])


@internal
@view
def get_head(job_id: uint256) -> uint256:
    """
    @notice Return the head of a job that exists.
    @param job_id The job.
    @return Its packed word.
    """
    head: uint256 = self.jobs[job_id].head
    require.job(head != 0)
    return head


@internal
@pure
def get_key(job_id: uint256, seat: uint256) -> uint256:
    """
    @notice Return the number under which a member is stored.
    @param job_id A job that exists, so that nothing overflows.
    @param seat The member's seat, below MAX_MEMBERS.
    @return The key.
    """
    return unsafe_add(unsafe_mul(job_id, MAX_MEMBERS), seat)


@internal
@view
def get_member_count(job_id: uint256) -> uint256:
    """
    @notice Return how many have joined a job.
    @param job_id The job.
    @return The number of its members.
    """
    return (self.jobs[job_id].head >> MEMBERS_AT) & BYTE


@internal
@view
def get_address(job_id: uint256, seat: uint256) -> address:
    """
    @notice Return the account of a member.
    @param job_id The job.
    @param seat The member's seat.
    @return Its address.
    """
    account: uint256 = self.members[self.get_key(job_id, seat)].account
    return convert(account & ADDRESS, address)


@internal
@view
def get_standing(job_id: uint256, seat: uint256) -> uint256:
    """
    @notice Return where a member stands.
    @param job_id The job.
    @param seat The member's seat.
    @return Its standing.
    """
    return self.members[self.get_key(job_id, seat)].account >> STANDING_AT


@internal
def set_standing(job_id: uint256, seat: uint256, standing: uint256):
    """
    @notice Remember where a member stands.
    @param job_id The job.
    @param seat The member's seat.
    @param standing Its new standing.
    """
    key: uint256 = self.get_key(job_id, seat)
    self.members[key].account = self.members[key].account & ADDRESS | standing << STANDING_AT


@internal
@view
def get_checkpoints(job_id: uint256) -> uint256:
    """
    @notice Return the leaves of a history: the start, and the state after every interval.
    @param job_id The job.
    @return Their number.
    """
    scope: uint256 = self.jobs[job_id].scope
    steps: uint256 = (scope >> STEPS_AT) & U64
    every: uint256 = scope >> CHECKPOINT_EVERY_AT
    # Both are at most 2^32, and `every` is not 0.
    return unsafe_add(unsafe_div(unsafe_sub(unsafe_add(steps, every), 1), every), 1)


@internal
def credit(account: address, amount_wei: uint256):
    """
    @notice Owe an account more.
    @param account The account.
    @param amount_wei How much, in wei.
    """
    if amount_wei != 0:
        self.credits_wei[account] += amount_wei


@internal
def burn(amount_wei: uint256):
    """
    @notice Send value to the zero address.
    @param amount_wei How much, in wei.
    """
    if amount_wei != 0:
        send(empty(address), amount_wei)


@internal
@view
def count_standing(job_id: uint256, standing: uint256) -> uint256:
    """
    @notice Return how many members stand here.
    @param job_id The job.
    @param standing The standing that counts.
    @return Their number.
    """
    count: uint256 = 0
    for seat: uint256 in range(self.get_member_count(job_id), bound=MAX_MEMBERS):
        if self.get_standing(job_id, seat) == standing:
            # At most MAX_MEMBERS.
            count = unsafe_add(count, 1)
    return count


@internal
def close(job_id: uint256, share_wei: uint256):
    """
    @notice Settle a job: every contender gets its bond and a share of the reward, the client the
            rest, and the bonds of those who never showed their claim are burned.
    @param job_id A job that is not settled.
    @param share_wei What each contender gets of the reward; all shares are at most the reward.
    """
    self.jobs[job_id].head = self.jobs[job_id].head | 1 << SETTLED_AT
    bond_wei: uint256 = self.jobs[job_id].bond_wei
    rest_wei: uint256 = self.jobs[job_id].reward_wei
    for seat: uint256 in range(self.get_member_count(job_id), bound=MAX_MEMBERS):
        if self.get_standing(job_id, seat) == phases.REVEALED:
            self.credit(self.get_address(job_id, seat), bond_wei + share_wei)
            rest_wei -= share_wei
    self.credit(self.jobs[job_id].client, rest_wei)
    self.burn(bond_wei * self.count_standing(job_id, phases.COMMITTED))
