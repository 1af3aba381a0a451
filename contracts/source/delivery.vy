# pragma version 0.4.3
"""
@title A premium of a job, which is paid for handing its result over
@license Apache-2.0
@notice The client of a job bonds a premium. Once a claim has won, those who share the reward show
        here which state that claim ends with, and promise by that that the state can be had: for a
        window anybody may demand chunks of it. If all that was demanded has been shown, those who
        promised take equal parts of the premium; else the client takes it back. The referee knows
        nothing of all this, and no job waits for it. There is no owner, no upgrade, no loop over
        members or demands. What is demanded and shown is answers.vy's; contracts/model/delivery.py
        is the specification.
"""

import IReferee
import answers
import ledger
import merkle
import phases
import tags

initializes: answers

exports: (
    answers.demand,
    answers.show_chunk,
    answers.promises,
    answers.demands,
)

# The longest time to promise, and to demand.
MAX_WINDOW_BLOCKS: constant(uint256) = 2**20

# How a premium stands.
OFFERED: constant(uint256) = 1
WITHDRAWN: constant(uint256) = 2
PROMISED: constant(uint256) = 3

# `Premium.head` is packed as that of a promise, without demands; its last block is that of
# promising, 0 as long as nobody has called for it.
# `Premium.money`: premium_wei u80 | window_blocks u48 | deposit_wei u128. In the money of a promise
# it is the premium that is left, and in the window's place are those who have still to take a part.
WINDOW_AT: constant(uint256) = 80
SHARERS_AT: constant(uint256) = 80
U80: constant(uint256) = 2**80 - 1


struct Premium:
    head: uint256
    money: uint256


event Offered:
    premium_id: indexed(bytes32)
    client: indexed(address)
    subject: answers.Subject
    premium_wei: uint256
    deposit_wei: uint256
    answer_blocks: uint256
    window_blocks: uint256


event Called:
    premium_id: indexed(bytes32)
    last_block: uint256


event Registered:
    premium_id: indexed(bytes32)
    account: indexed(address)
    state_root: bytes32
    last_block: uint256


# By the digest of the job's subject. The promise of a result has a subject of its own: the same
# referee and job without operators and batches, and the final state for its start.
premiums: public(HashMap[bytes32, Premium])
# Who has promised a result, by the promise, and has not taken its part yet.
shares: public(HashMap[bytes32, HashMap[address, bool]])


@external
@payable
def offer(
    subject: answers.Subject, deposit_wei: uint256, answer_blocks: uint256, window_blocks: uint256
):
    """
    @notice Bond a premium on the result of a job that is open; for its client. The value is the
            premium.
    @param subject The job, and what it says.
    @param deposit_wei The value of a demand, which pays for the answer.
    @param answer_blocks How many blocks there are to answer a demand, at least.
    @param window_blocks For how many blocks the result can be demanded.
    """
    job: ledger.Job = staticcall IReferee(subject.referee).jobs(subject.job_id)
    # No sender is the zero address, which a job that does not exist has for its client.
    assert msg.sender == job.client, "availability: not the client"
    assert answers.is_of_job(subject, job), "availability: not what the job says"
    assert ledger.get_status(job.tally) == phases.OPEN, "delivery: job is closed"
    premium_id: bytes32 = answers.hash_subject(subject)
    assert self.premiums[premium_id].head == 0, "delivery: already offered"
    is_sound: bool = (
        deposit_wei >= answers.MIN_DEPOSIT_WEI
        and deposit_wei <= answers.MAX_BOND_WEI
        and msg.value >= answers.MIN_BOND_DEPOSITS * deposit_wei
        and msg.value <= answers.MAX_BOND_WEI
        and answer_blocks >= 1
        and answer_blocks <= answers.MAX_ANSWER_BLOCKS
        and window_blocks >= 1
        and window_blocks <= MAX_WINDOW_BLOCKS
    )
    assert is_sound, "delivery: absurd premium"
    head: uint256 = convert(msg.sender, uint256) | answer_blocks << answers.ANSWER_BLOCKS_AT
    self.premiums[premium_id] = Premium(
        head=head | OFFERED << answers.STATUS_AT,
        money=msg.value | window_blocks << WINDOW_AT | deposit_wei << answers.DEPOSIT_AT,
    )
    log Offered(
        premium_id=premium_id,
        client=msg.sender,
        subject=subject,
        premium_wei=msg.value,
        deposit_wei=deposit_wei,
        answer_blocks=answer_blocks,
        window_blocks=window_blocks,
    )


@external
def call_for(subject: answers.Subject):
    """
    @notice Call for the result of a job that is won, which nobody has promised yet; anyone may. If
            nobody does within a window, the client takes the premium back.
    @param subject The job, and what it says.
    """
    premium_id: bytes32 = answers.hash_subject(subject)
    premium: Premium = self._get_offered(premium_id)
    assert self._get_last_block(premium.head) == 0, "delivery: already called for"
    job: ledger.Job = staticcall IReferee(subject.referee).jobs(subject.job_id)
    assert ledger.get_status(job.tally) == phases.WON, "delivery: job is not won"
    last_block: uint256 = self._get_window_end(premium.money)
    self.premiums[premium_id].head = premium.head | last_block << answers.LAST_BLOCK_AT
    log Called(premium_id=premium_id, last_block=last_block)


@external
def register(
    subject: answers.Subject,
    top: bytes32,
    state_root: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Promise the result of a job that is won; for whoever shares its reward, and has not
            collected it yet. With the first the window begins.
    @param subject The job, and what it says.
    @param top The top of the history that has won.
    @param state_root The last state of that history.
    @param proof Its proof there.
    """
    premium_id: bytes32 = answers.hash_subject(subject)
    premium: Premium = self.premiums[premium_id]
    status: uint256 = premium.head >> answers.STATUS_AT
    assert status == OFFERED or status == PROMISED, "delivery: no such premium"
    job: ledger.Job = staticcall IReferee(subject.referee).jobs(subject.job_id)
    assert ledger.get_status(job.tally) == phases.WON, "delivery: job is not won"
    member: uint256 = staticcall IReferee(subject.referee).members(subject.job_id, msg.sender)
    # Whoever has revealed and is not defeated is behind the one claim that has won.
    assert member & ledger.U8 == phases.REVEALED, "delivery: not a sharer"
    checkpoints: uint256 = self._count_checkpoints(job.scope)
    is_shown: bool = ledger.hash_top(top) == member >> ledger.KEY_AT and merkle.is_member(
        tags.HISTORY_NODE,
        top,
        state_root,
        unsafe_sub(checkpoints, 1),
        checkpoints,
        proof,
    )
    assert is_shown, "availability: proof does not match"
    promise_id: bytes32 = answers.hash_subject(self._make_result(subject, state_root))
    assert not self.shares[promise_id][msg.sender], "delivery: already registered"
    last_block: uint256 = 0
    if status == OFFERED:
        last_block = self._get_last_block(premium.head)
        assert last_block == 0 or block.number <= last_block, "availability: too late"
        # It was never promised: a referee's jobs do not change, and it has one result.
        assert answers.promises[promise_id].head == 0, "availability: already promised"
        last_block = self._get_window_end(premium.money)
        # Without the last block and the status, which is behind it.
        head: uint256 = premium.head & ~(answers.U48 << answers.LAST_BLOCK_AT)
        self.premiums[premium_id].head = head | PROMISED << answers.STATUS_AT
        head |= last_block << answers.LAST_BLOCK_AT | answers.KEPT << answers.STATUS_AT
        money: uint256 = premium.money & ~(answers.U48 << WINDOW_AT)
        answers.promises[promise_id] = answers.Promise(head=head, money=money | 1 << SHARERS_AT)
    else:
        head: uint256 = answers.get_promise(promise_id)
        last_block = self._get_last_block(head)
        assert head >> answers.STATUS_AT == answers.KEPT, "availability: promise has ended"
        assert block.number <= last_block, "availability: too late"
        # Each registration costs gas: there are never 2^48.
        money: uint256 = unsafe_add(answers.promises[promise_id].money, 1 << SHARERS_AT)
        answers.promises[promise_id].money = money
    self.shares[promise_id][msg.sender] = True
    log Registered(
        premium_id=premium_id, account=msg.sender, state_root=state_root, last_block=last_block
    )


@external
def break_promise(
    subject: answers.Subject, part: uint256, index: uint256, chunk: uint256
):
    """
    @notice Say that a demand was not answered in time; anyone may. The premium is the client's
            again.
    @param subject What was promised.
    @param part The part that was demanded.
    @param index The place in it.
    @param chunk The chunk.
    """
    promise_id: bytes32 = answers.hash_subject(subject)
    key: bytes32 = answers.hash_place(promise_id, part, index, chunk)
    word: uint256 = answers.get_open(promise_id, key)
    assert block.number > (word >> answers.DEADLINE_AT) & answers.U48, "availability: too early"
    status: uint256 = answers.BROKEN ^ answers.KEPT
    answers.promises[promise_id].head ^= status << answers.STATUS_AT
    answers.demands[key] = word ^ (answers.UNANSWERED ^ answers.OPEN) << answers.DEMAND_STATUS_AT
    asker: address = convert(word & answers.U160, address)
    log answers.Broken(promise_id=promise_id, asker=asker, part=part, index=index, chunk=chunk)


@external
def reclaim(subject: answers.Subject, part: uint256, index: uint256, chunk: uint256):
    """
    @notice Pay the sender the deposit of its demand upon a promise that was broken.
    @param subject What was promised.
    @param part The part that was demanded.
    @param index The place in it.
    @param chunk The chunk.
    """
    promise_id: bytes32 = answers.hash_subject(subject)
    head: uint256 = answers.get_promise(promise_id)
    assert head >> answers.STATUS_AT == answers.BROKEN, "availability: too early"
    key: bytes32 = answers.hash_place(promise_id, part, index, chunk)
    word: uint256 = answers.demands[key]
    status: uint256 = word >> answers.DEMAND_STATUS_AT
    is_due: bool = convert(word & answers.U160, address) == msg.sender
    is_due = is_due and (status == answers.OPEN or status == answers.UNANSWERED)
    assert is_due, "availability: no such demand"
    answers.demands[key] = word ^ (status ^ answers.RETURNED) << answers.DEMAND_STATUS_AT
    answers.pay(promise_id, answers.promises[promise_id].money >> answers.DEPOSIT_AT)


@external
def take(subject: answers.Subject):
    """
    @notice Pay the sender what a promise of a result owes it: its part of the premium, once nothing
            can be demanded any more and nothing is; all of it, if the promise is broken, to the
            client.
    @param subject What was promised.
    """
    promise_id: bytes32 = answers.hash_subject(subject)
    head: uint256 = answers.get_promise(promise_id)
    money: uint256 = answers.promises[promise_id].money
    part_wei: uint256 = money & U80
    if head >> answers.STATUS_AT == answers.BROKEN:
        is_client: bool = convert(head & answers.U160, address) == msg.sender
        assert is_client and part_wei != 0, "delivery: nothing owed"
    else:
        assert self.shares[promise_id][msg.sender], "delivery: nothing owed"
        assert block.number > self._get_last_block(head), "availability: too early"
        is_idle: bool = (head >> answers.OPEN_AT) & answers.U24 == 0
        assert is_idle, "availability: demands are open"
        self.shares[promise_id][msg.sender] = False
        # What is left is divided by those who are left, the sender among them: nothing remains.
        part_wei = unsafe_div(part_wei, (money >> SHARERS_AT) & answers.U48)
        money = unsafe_sub(money, 1 << SHARERS_AT)
    answers.promises[promise_id].money = unsafe_sub(money, part_wei)
    answers.pay(promise_id, part_wei)


@external
def withdraw(subject: answers.Subject):
    """
    @notice Give the client a premium back for which there is no result: nobody has won the job, or
            nobody has promised the result within the window.
    @param subject The job, and what it says.
    """
    premium_id: bytes32 = answers.hash_subject(subject)
    premium: Premium = self._get_offered(premium_id)
    is_client: bool = convert(premium.head & answers.U160, address) == msg.sender
    assert is_client, "availability: not the client"
    job: ledger.Job = staticcall IReferee(subject.referee).jobs(subject.job_id)
    status: uint256 = ledger.get_status(job.tally)
    last_block: uint256 = self._get_last_block(premium.head)
    is_past: bool = last_block != 0 and block.number > last_block
    is_due: bool = status != phases.OPEN and (status != phases.WON or is_past)
    assert is_due, "availability: too early"
    change: uint256 = (WITHDRAWN ^ OFFERED) << answers.STATUS_AT
    self.premiums[premium_id].head = premium.head ^ change
    answers.pay(premium_id, premium.money & U80)


@internal
@view
def _get_offered(premium_id: bytes32) -> Premium:
    # A premium of a result that nobody has promised.
    premium: Premium = self.premiums[premium_id]
    assert premium.head >> answers.STATUS_AT == OFFERED, "delivery: no such premium"
    return premium


@internal
@pure
def _get_last_block(head: uint256) -> uint256:
    return (head >> answers.LAST_BLOCK_AT) & answers.U40


@internal
@view
def _get_window_end(money: uint256) -> uint256:
    # Block numbers are below 2^39, windows at most 2^20.
    return unsafe_add(block.number, (money >> WINDOW_AT) & answers.U48)


@internal
@pure
def _count_checkpoints(scope: uint256) -> uint256:
    # The leaves of a history, as the referee counts them: both are at most 2^32, neither is 0.
    steps: uint256 = (scope >> ledger.STEPS_AT) & ledger.U64
    every: uint256 = (scope >> ledger.CHECKPOINT_EVERY_AT) & ledger.U64
    return unsafe_div(unsafe_sub(unsafe_add(steps, every), 1), every)


@internal
@pure
def _make_result(subject: answers.Subject, state_root: bytes32) -> answers.Subject:
    # What those who register promise: a state. Nothing else of that subject can be demanded.
    return answers.Subject(
        referee=subject.referee,
        job_id=subject.job_id,
        operators=0,
        state_slots=subject.state_slots,
        batch_slots=0,
        steps=0,
        program_top=subject.program_top,
        start_root=state_root,
        data_top=subject.data_top,
    )
