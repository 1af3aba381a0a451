# pragma version 0.4.3
"""
@title The client's promise that a job's program, start and data can be had
@license Apache-2.0
@notice A client bonds the promise. Whoever lacks a part of what the job commits to may demand it,
        with a deposit, which pays whoever shows that part here. A demand that is not answered in
        time costs the client its bond. The referee knows nothing of all this, and no job waits for
        it. There is no owner, no upgrade, no loop over demands. What is demanded and shown is
        answers.vy's; contracts/model/availability.py is the specification.
"""

import IReferee
import answers
import ledger

initializes: answers

exports: (
    answers.demand,
    answers.show_operator,
    answers.show_chunk,
    answers.promises,
    answers.demands,
)

# A bond's divisor: one part is the prize of the asker, the rest is burned.
PRIZE_DIVISOR: constant(uint256) = 2
# For how long a client can promise.
MAX_PROMISE_BLOCKS: constant(uint256) = 2**22


event Promised:
    promise_id: indexed(bytes32)
    client: indexed(address)
    subject: answers.Subject
    bond_wei: uint256
    deposit_wei: uint256
    answer_blocks: uint256
    last_block: uint256


@external
@payable
def promise(
    subject: answers.Subject, deposit_wei: uint256, answer_blocks: uint256, last_block: uint256
):
    """
    @notice Promise that whoever demands a part up to a block gets it; for the client of the job.
            The value is the bond.
    @param subject The job, and what it says.
    @param deposit_wei The value of a demand, which pays for the answer.
    @param answer_blocks How many blocks there are to answer a demand, at least.
    @param last_block The last block in which something can be demanded.
    """
    job: ledger.Job = staticcall IReferee(subject.referee).jobs(subject.job_id)
    # No sender is the zero address, which a job that does not exist has for its client.
    assert msg.sender == job.client, "availability: not the client"
    assert answers.is_of_job(subject, job), "availability: not what the job says"
    promise_id: bytes32 = answers.hash_subject(subject)
    assert answers.promises[promise_id].head == 0, "availability: already promised"
    is_sound: bool = (
        deposit_wei >= answers.MIN_DEPOSIT_WEI
        and deposit_wei <= answers.MAX_BOND_WEI
        and msg.value >= answers.MIN_BOND_DEPOSITS * deposit_wei
        and msg.value <= answers.MAX_BOND_WEI
        and answer_blocks >= 1
        and answer_blocks <= answers.MAX_ANSWER_BLOCKS
        and last_block >= block.number
        and last_block <= block.number + MAX_PROMISE_BLOCKS
    )
    assert is_sound, "availability: absurd promise"
    head: uint256 = convert(msg.sender, uint256) | answer_blocks << answers.ANSWER_BLOCKS_AT
    head |= last_block << answers.LAST_BLOCK_AT | answers.KEPT << answers.STATUS_AT
    answers.promises[promise_id] = answers.Promise(
        head=head, money=msg.value | deposit_wei << answers.DEPOSIT_AT
    )
    log Promised(
        promise_id=promise_id,
        client=msg.sender,
        subject=subject,
        bond_wei=msg.value,
        deposit_wei=deposit_wei,
        answer_blocks=answer_blocks,
        last_block=last_block,
    )


@external
def break_promise(subject: answers.Subject, part: uint256, index: uint256, chunk: uint256):
    """
    @notice Say that a demand was not answered in time; anyone may. The client's bond is lost: the
            asker's prize waits to be reclaimed, and the rest is burned.
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
    bond_wei: uint256 = answers.promises[promise_id].money & answers.U128
    asker: address = convert(word & answers.U160, address)
    log answers.Broken(promise_id=promise_id, asker=asker, part=part, index=index, chunk=chunk)
    send(empty(address), unsafe_sub(bond_wei, unsafe_div(bond_wei, PRIZE_DIVISOR)))


@external
def reclaim(subject: answers.Subject, part: uint256, index: uint256, chunk: uint256):
    """
    @notice Pay the sender what a broken promise owes it for its demand: the deposit, and the prize
            if the promise was broken by this demand.
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
    money: uint256 = answers.promises[promise_id].money
    owed_wei: uint256 = money >> answers.DEPOSIT_AT
    if status == answers.UNANSWERED:
        # Both are below 2^80.
        owed_wei = unsafe_add(owed_wei, unsafe_div(money & answers.U128, PRIZE_DIVISOR))
    answers.pay(promise_id, owed_wei)


@external
def withdraw(subject: answers.Subject):
    """
    @notice Give the client its bond back, once nothing can be demanded any more and nothing is.
    @param subject What was promised.
    """
    promise_id: bytes32 = answers.hash_subject(subject)
    head: uint256 = answers.get_promise(promise_id)
    assert convert(head & answers.U160, address) == msg.sender, "availability: not the client"
    assert head >> answers.STATUS_AT == answers.KEPT, "availability: promise has ended"
    assert block.number > (head >> answers.LAST_BLOCK_AT) & answers.U40, "availability: too early"
    assert (head >> answers.OPEN_AT) & answers.U24 == 0, "availability: demands are open"
    status: uint256 = answers.WITHDRAWN ^ answers.KEPT
    answers.promises[promise_id].head = head ^ status << answers.STATUS_AT
    answers.pay(promise_id, answers.promises[promise_id].money & answers.U128)
