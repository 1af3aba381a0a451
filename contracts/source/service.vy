# pragma version 0.4.3
"""
@title Standing bonds behind receipts, balances that vouchers pay from, challenges, and faults
@license Apache-2.0
@notice Whoever answers off the chain signs a receipt, whose terms and claim are those of a job that
        was never opened, and which is backed by the bond that stands here. Anyone who has another
        claim takes the receipt to challenges.vy, with a bond of its own against as much of the
        provider's. What needs no match, receipts that do not go together, takes the whole bond.
        Clients pay by vouchers, from balances that each are with one provider. There is no owner,
        no upgrade, no loop over providers, clients or receipts. docs/explanation/receipts.md says
        what holds; contracts/model/service.py is the specification.
"""

import IChallenges
import ledger
import merkle
import phases
import receipts
import tags

# What leaves a bond is liable as long as any receipt can be that was issued before.
UNSTAKE_BLOCKS: constant(uint256) = receipts.MAX_WINDOW_BLOCKS
# What leaves a balance can be taken by vouchers for so long: a day of blocks of 12 seconds.
DEFUND_BLOCKS: constant(uint256) = 7_200
# The least bond of a match.
MIN_BOND_WEI: constant(uint256) = 2 * 2_000_000 * 50 * 10**9
# The most receipts that one call publishes.
MAX_BATCH: constant(uint256) = 2**32
# A bond's divisor: one part is the prize of whoever shows a fault.
PRIZE_DIVISOR: constant(uint256) = 2

# A bond or a balance: standing_wei u96 | leaving_wei u96 | last_block u40 | is_at_fault u1. What
# leaves can be taken after the last block. There are less than 2^90 wei: no sum overflows.
LEAVING_AT: constant(uint256) = 96
LAST_BLOCK_AT: constant(uint256) = 192
AT_FAULT: constant(uint256) = 1 << 232
U40: constant(uint256) = 2**40 - 1
U96: constant(uint256) = 2**96 - 1

# Why a provider is at fault.
OTHER_ANSWER: constant(uint256) = 1
CONFLICT: constant(uint256) = 2
UNLISTED: constant(uint256) = 3


# Receipts that were published: their digests, by number, are the leaves of a tree.
struct Batch:
    first: uint256
    count: uint256
    root: bytes32


event Staked:
    provider: indexed(address)
    amount_wei: uint256


event Leaving:
    provider: indexed(address)
    amount_wei: uint256
    last_block: uint256


event StakeTaken:
    provider: indexed(address)
    amount_wei: uint256


event Funded:
    client: indexed(address)
    provider: indexed(address)
    amount_wei: uint256


event FundsLeaving:
    client: indexed(address)
    provider: indexed(address)
    amount_wei: uint256
    last_block: uint256


event FundsTaken:
    client: indexed(address)
    provider: indexed(address)
    amount_wei: uint256


event Redeemed:
    client: indexed(address)
    provider: indexed(address)
    amount_wei: uint256
    redeemed_wei: uint256


event Published:
    provider: indexed(address)
    first: uint256
    count: uint256
    root: bytes32


event Challenged:
    digest: indexed(bytes32)
    provider: indexed(address)
    challenger: indexed(address)
    job_id: uint256
    bond_wei: uint256
    receipt: receipts.Receipt


event Faulted:
    provider: indexed(address)
    reporter: indexed(address)
    fault: uint256
    digest: bytes32
    prize_wei: uint256


CHALLENGES: immutable(IChallenges)

# Bonds by provider; balances, and what vouchers have taken in all, by client and provider.
stakes: public(HashMap[address, uint256])
funds: public(HashMap[address, HashMap[address, uint256]])
redeemed: public(HashMap[address, HashMap[address, uint256]])
# How many receipts a provider has published, and the digest of each batch by its first number.
published: public(HashMap[address, uint256])
batches: public(HashMap[address, HashMap[uint256, bytes32]])
# By the digest of a receipt: the number of its last job and one, or 0.
challenged: public(HashMap[bytes32, uint256])
# The block in which something was announced first, and has not been used since.
announced: public(HashMap[bytes32, uint256])


@deploy
def __init__(challenges: address):
    """
    @notice Deploy a service.
    @param challenges Where its receipts are challenged, challenges.vy.
    """
    CHALLENGES = IChallenges(challenges)


@external
@payable
def stake():
    """
    @notice Add the value to the sender's bond, which backs what it signs as a provider.
    """
    word: uint256 = self.stakes[msg.sender]
    assert word & AT_FAULT == 0, "service: provider is at fault"
    assert msg.value != 0, "service: no amount"
    self.stakes[msg.sender] = unsafe_add(word, msg.value)
    log Staked(provider=msg.sender, amount_wei=msg.value)


@external
def unstake(amount_wei: uint256):
    """
    @notice Let a part of the sender's bond leave. It is liable until then, as any part that leaves
            already, which from now on leaves with it.
    @param amount_wei How much.
    """
    word: uint256 = self._let_leave(self.stakes[msg.sender], amount_wei, UNSTAKE_BLOCKS)
    self.stakes[msg.sender] = word
    log Leaving(
        provider=msg.sender, amount_wei=amount_wei, last_block=self._get_last_block(word)
    )


@external
def take_stake():
    """
    @notice Pay the sender what has left its bond.
    """
    word: uint256 = self.stakes[msg.sender]
    amount_wei: uint256 = self._get_left(word)
    # Nobody at fault has anything that leaves.
    self.stakes[msg.sender] = word & U96
    log StakeTaken(provider=msg.sender, amount_wei=amount_wei)
    raw_call(msg.sender, b"", value=amount_wei)


@external
@payable
def fund(provider: address):
    """
    @notice Add the value to the sender's balance with a provider, which its vouchers pay from.
    @param provider The provider.
    """
    assert msg.value != 0, "service: no amount"
    word: uint256 = self.funds[msg.sender][provider]
    self.funds[msg.sender][provider] = unsafe_add(word, msg.value)
    log Funded(client=msg.sender, provider=provider, amount_wei=msg.value)


@external
def defund(provider: address, amount_wei: uint256):
    """
    @notice Let a part of the sender's balance leave. Vouchers are paid from it until then, and from
            any part that leaves already, which from now on leaves with it.
    @param provider With whom the balance is.
    @param amount_wei How much.
    """
    word: uint256 = self._let_leave(self.funds[msg.sender][provider], amount_wei, DEFUND_BLOCKS)
    self.funds[msg.sender][provider] = word
    log FundsLeaving(
        client=msg.sender,
        provider=provider,
        amount_wei=amount_wei,
        last_block=self._get_last_block(word),
    )


@external
def take_funds(provider: address):
    """
    @notice Pay the sender what has left its balance with a provider.
    @param provider The provider.
    """
    word: uint256 = self.funds[msg.sender][provider]
    amount_wei: uint256 = self._get_left(word)
    self.funds[msg.sender][provider] = word & U96
    log FundsTaken(client=msg.sender, provider=provider, amount_wei=amount_wei)
    raw_call(msg.sender, b"", value=amount_wei)


@external
def redeem(client: address, total_wei: uint128, signature: Bytes[receipts.SIGNATURE_BYTES]):
    """
    @notice Pay the sender what a voucher promises it and no earlier one has paid, as far as the
            client's balance goes.
    @param client Who has signed the voucher.
    @param total_wei What it promises in all.
    @param signature The client's signature.
    """
    digest: bytes32 = receipts.hash_voucher(client, msg.sender, total_wei)
    receipts.require_signed(digest, signature, client)
    total: uint256 = convert(total_wei, uint256)
    before_wei: uint256 = self.redeemed[client][msg.sender]
    word: uint256 = self.funds[client][msg.sender]
    due_wei: uint256 = 0
    if total > before_wei:
        due_wei = min(unsafe_sub(total, before_wei), self._get_all(word))
    assert due_wei != 0, "service: nothing owed"
    self.funds[client][msg.sender] = self._draw(word, due_wei)
    # At most the total.
    after_wei: uint256 = unsafe_add(before_wei, due_wei)
    self.redeemed[client][msg.sender] = after_wei
    log Redeemed(
        client=client, provider=msg.sender, amount_wei=due_wei, redeemed_wei=after_wei
    )
    raw_call(msg.sender, b"", value=due_wei)


@external
def publish(first: uint256, count: uint256, root: bytes32):
    """
    @notice Publish the sender's next receipts: no others can have their numbers any more. A
            provider at fault may, too: its receipts are backed by nothing.
    @param first The first number, that of the first receipt that is not published.
    @param count How many.
    @param root The top of the tree over their digests, in the order of their numbers.
    """
    assert first == self.published[msg.sender], "service: not the next number"
    assert count >= 1 and count <= MAX_BATCH, "service: absurd batch"
    # Each batch is a transaction: there never are 2^64 receipts.
    self.published[msg.sender] = unsafe_add(first, count)
    self.batches[msg.sender][first] = self._hash_batch(count, root)
    log Published(provider=msg.sender, first=first, count=count, root=root)


@external
def commit(digest: bytes32):
    """
    @notice Announce a challenge or the proof of a fault, so that whoever sees it cannot copy it in
            time; anyone may. What is announced already stays as it is: nobody else can use it, nor
            make it younger.
    @param digest keccak-256 of the words ANNOUNCEMENT, chain id, this contract, sender, subject and
           32 bytes of salt. The subject is keccak-256 of two words: the receipt's digest, and the
           top, the tensor's root or the listed digest; or the digests of two receipts.
    """
    if self.announced[digest] == 0:
        self.announced[digest] = block.number


@external
@payable
def challenge(
    receipt: receipts.Receipt,
    signature: Bytes[receipts.SIGNATURE_BYTES],
    top: bytes32,
    salt: bytes32,
):
    """
    @notice Claim something else than a receipt does, and begin the match with its provider; anyone
            may. The value is the receipt's stake, or the least bond of a match if that is more.
    @dev If less is left of the provider's bond, the match is about as much, and the rest goes back.
    @param receipt The receipt.
    @param signature The provider's signature.
    @param top The top of the history that the sender claims.
    @param salt The salt of the announcement.
    """
    digest: bytes32 = self._require_receipt(receipt, signature, top, salt)
    assert block.number <= convert(receipt.last_block, uint256), "service: too late"
    self._require_unrefuted(digest, receipt.provider)
    wanted_wei: uint256 = max(MIN_BOND_WEI, convert(receipt.stake_wei, uint256))
    assert msg.value == wanted_wei, "service: value is not the bond"
    word: uint256 = self.stakes[receipt.provider]
    bond_wei: uint256 = min(wanted_wei, self._get_all(word))
    assert bond_wei >= MIN_BOND_WEI, "service: bond is exhausted"
    self.stakes[receipt.provider] = self._draw(word, bond_wei)
    # The other contract calls nobody. The bond is below 2^80.
    job_id: uint256 = extcall CHALLENGES.enter(
        receipts.make_terms(receipt, bond_wei),
        receipt.client,
        receipt.provider,
        msg.sender,
        [receipt.history, top],
        value=unsafe_mul(bond_wei, 2),
    )
    # Each job has two bonds: there never are 2^256.
    self.challenged[digest] = unsafe_add(job_id, 1)
    log Challenged(
        digest=digest,
        provider=receipt.provider,
        challenger=msg.sender,
        job_id=job_id,
        bond_wei=bond_wei,
        receipt=receipt,
    )
    if bond_wei != wanted_wei:
        raw_call(msg.sender, b"", value=unsafe_sub(wanted_wei, bond_wei))


@external
def refute_answer(
    receipt: receipts.Receipt,
    signature: Bytes[receipts.SIGNATURE_BYTES],
    state_root: bytes32,
    history_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    tensor_root: bytes32,
    slot_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    salt: bytes32,
):
    """
    @notice Show that a receipt's answer is not what its own last state has in the answer's slot;
            anyone may, and gets half of the provider's bond.
    @param receipt The receipt.
    @param signature The provider's signature.
    @param state_root The last state of its history.
    @param history_proof The state's proof there.
    @param tensor_root What the state has in the slot.
    @param slot_proof Its proof against the state.
    @param salt The salt of the announcement.
    """
    digest: bytes32 = self._require_receipt(receipt, signature, tensor_root, salt)
    assert tensor_root != receipt.answer, "service: that is no fault"
    # Both are at most 2^32, and neither is 0.
    steps: uint256 = convert(receipt.steps, uint256)
    every: uint256 = convert(receipt.checkpoint_every, uint256)
    count: uint256 = unsafe_div(unsafe_sub(unsafe_add(steps, every), 1), every)
    last: uint256 = unsafe_sub(count, 1)
    is_last: bool = merkle.is_member(
        tags.HISTORY_NODE, receipt.history, state_root, last, count, history_proof
    )
    assert is_last, "service: proof does not match"
    slots: uint256 = convert(receipt.state_slots, uint256)
    is_whole: bool = False
    node: bytes32 = empty(bytes32)
    is_whole, node = merkle.climb(
        tags.STATE_NODE,
        tensor_root,
        convert(receipt.answer_slot, uint256),
        slots,
        0,
        merkle.get_height(slots),
        slot_proof,
    )
    is_whole = is_whole and merkle.hash_root(tags.STATE_ROOT, slots, node) == state_root
    assert is_whole, "service: proof does not match"
    self._punish(receipt.provider, OTHER_ANSWER, digest)


@external
def prove_conflict(
    pair: receipts.Receipt[2],
    first_signature: Bytes[receipts.SIGNATURE_BYTES],
    second_signature: Bytes[receipts.SIGNATURE_BYTES],
    salt: bytes32,
):
    """
    @notice Show two receipts of one provider that do not go together; anyone may, and gets half of
            the provider's bond.
    @param pair The receipts, the one with the lower number first.
    @param first_signature The provider's signature under the first.
    @param second_signature The provider's signature under the second.
    @param salt The salt of the announcement.
    """
    digests: bytes32[2] = [receipts.hash_receipt(pair[0]), receipts.hash_receipt(pair[1])]
    self._use_announcement(digests[0], digests[1], salt)
    receipts.require_signed(digests[0], first_signature, pair[0].provider)
    receipts.require_signed(digests[1], second_signature, pair[1].provider)
    is_fault: bool = (
        pair[0].provider == pair[1].provider
        and digests[0] != digests[1]
        and receipts.are_in_conflict(pair[0], pair[1])
    )
    assert is_fault, "service: that is no fault"
    self._punish(pair[0].provider, CONFLICT, digests[1])


@external
def prove_unlisted(
    receipt: receipts.Receipt,
    signature: Bytes[receipts.SIGNATURE_BYTES],
    batch: Batch,
    listed: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    salt: bytes32,
):
    """
    @notice Show that a provider has published another receipt under a receipt's number; anyone may,
            and gets half of the provider's bond.
    @param receipt The receipt.
    @param signature The provider's signature.
    @param batch What was published.
    @param listed The digest there at that number.
    @param proof Its proof against the batch.
    @param salt The salt of the announcement.
    """
    digest: bytes32 = receipts.hash_receipt(receipt)
    self._use_announcement(digest, listed, salt)
    receipts.require_signed(digest, signature, receipt.provider)
    kept: bytes32 = self.batches[receipt.provider][batch.first]
    assert kept == self._hash_batch(batch.count, batch.root), "service: no such batch"
    number: uint256 = convert(receipt.number, uint256)
    assert listed != digest and number >= batch.first, "service: that is no fault"
    is_listed: bool = merkle.is_member(
        tags.RECEIPT_NODE, batch.root, listed, unsafe_sub(number, batch.first), batch.count, proof
    )
    assert is_listed, "service: proof does not match"
    self._punish(receipt.provider, UNLISTED, digest)


@external
@view
def get_bond(provider: address, last_block: uint256) -> uint256:
    """
    @notice Return what stands of a provider's bond up to a block, if nobody takes it.
    @param provider The provider.
    @param last_block The block.
    @return How much, in wei.
    """
    word: uint256 = self.stakes[provider]
    if last_block <= self._get_last_block(word):
        return self._get_all(word)
    return word & U96


@external
@view
def challenges_contract() -> address:
    """
    @notice Return the contract in which receipts are challenged.
    @return Its address.
    """
    return CHALLENGES.address


@internal
def _require_receipt(
    receipt: receipts.Receipt,
    signature: Bytes[receipts.SIGNATURE_BYTES],
    shown: bytes32,
    salt: bytes32,
) -> bytes32:
    # The digest of a sound receipt that its provider has signed, once the call was announced.
    receipts.require_sound(receipt)
    digest: bytes32 = receipts.hash_receipt(receipt)
    self._use_announcement(digest, shown, salt)
    receipts.require_signed(digest, signature, receipt.provider)
    return digest


@internal
def _use_announcement(first: bytes32, second: bytes32, salt: bytes32):
    # Refuse a call that was not announced in an earlier block; each announcement is for one call.
    subject: bytes32 = keccak256(concat(first, second))
    digest: bytes32 = keccak256(
        abi_encode(tags.ANNOUNCEMENT, chain.id, self, msg.sender, subject, salt)
    )
    since: uint256 = self.announced[digest]
    assert since != 0 and since < block.number, "service: not announced before"
    self.announced[digest] = 0


@internal
@view
def _require_unrefuted(digest: bytes32, provider: address):
    # Refuse a receipt that is being challenged, or whose provider has lost by it.
    number: uint256 = self.challenged[digest]
    if number == 0:
        return
    job_id: uint256 = unsafe_sub(number, 1)
    job: ledger.Job = staticcall CHALLENGES.jobs(job_id)
    assert ledger.get_status(job.tally) != phases.OPEN, "service: receipt is being challenged"
    member: uint256 = staticcall CHALLENGES.members(job_id, provider)
    assert member & ledger.U8 != phases.DEFEATED, "service: provider has lost by it"


@internal
def _punish(provider: address, fault: uint256, digest: bytes32):
    # Take all of a provider's bond: half is the sender's, half is burned.
    word: uint256 = self.stakes[provider]
    assert word & AT_FAULT == 0, "service: provider is at fault"
    self.stakes[provider] = AT_FAULT
    bond_wei: uint256 = self._get_all(word)
    prize_wei: uint256 = unsafe_div(bond_wei, PRIZE_DIVISOR)
    log Faulted(
        provider=provider, reporter=msg.sender, fault=fault, digest=digest, prize_wei=prize_wei
    )
    if bond_wei != 0:
        send(empty(address), unsafe_sub(bond_wei, prize_wei))
        raw_call(msg.sender, b"", value=prize_wei)


@internal
@view
def _let_leave(word: uint256, amount_wei: uint256, blocks: uint256) -> uint256:
    # A bond or a balance of which a part leaves after so many blocks; so does what leaves already.
    assert amount_wei != 0, "service: no amount"
    assert amount_wei <= word & U96, "service: more than there is"
    leaving_wei: uint256 = unsafe_add((word >> LEAVING_AT) & U96, amount_wei)
    # Block numbers are below 2^39.
    last_block: uint256 = unsafe_add(block.number, blocks)
    rest: uint256 = unsafe_sub(word & U96, amount_wei)
    return rest | leaving_wei << LEAVING_AT | last_block << LAST_BLOCK_AT


@internal
@view
def _get_left(word: uint256) -> uint256:
    # What has left a bond or a balance, and can be taken.
    amount_wei: uint256 = (word >> LEAVING_AT) & U96
    assert amount_wei != 0, "service: nothing owed"
    assert block.number > self._get_last_block(word), "service: too early"
    return amount_wei


@internal
@pure
def _draw(word: uint256, amount_wei: uint256) -> uint256:
    # A bond or a balance without an amount that it has: first of what stands, then of what leaves.
    standing_wei: uint256 = min(word & U96, amount_wei)
    leaving_wei: uint256 = unsafe_sub(amount_wei, standing_wei)
    return unsafe_sub(word, standing_wei | leaving_wei << LEAVING_AT)


@internal
@pure
def _get_all(word: uint256) -> uint256:
    return unsafe_add(word & U96, (word >> LEAVING_AT) & U96)


@internal
@pure
def _get_last_block(word: uint256) -> uint256:
    return (word >> LAST_BLOCK_AT) & U40


@internal
@pure
def _hash_batch(count: uint256, root: bytes32) -> bytes32:
    return keccak256(concat(convert(count, bytes32), root))
