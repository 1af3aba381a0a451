# pragma version 0.4.3
"""
@title Receipts and vouchers, as EIP-712 hashes them, and who has signed them
@license Apache-2.0
@notice contracts/model/receipts.py is the specification.
"""

import types

# The longest time between a receipt and its last block: a week of blocks of 12 seconds.
MAX_WINDOW_BLOCKS: constant(uint256) = 50_400
SIGNATURE_BYTES: constant(uint256) = 65

MAX_BOND_WEI: constant(uint256) = 2**80 - 1
MAX_STEPS: constant(uint64) = 2**32
MAX_OPERATORS: constant(uint32) = 2**20
MAX_SLOTS: constant(uint32) = 2**16
MAX_BLOCKS: constant(uint32) = 2**20

# Half the order of secp256k1: of the two signatures with one meaning, that with the lower s.
MAX_S: constant(uint256) = (
    57896044618658097711785492504343953926418782139537452191302581570759080747168
)

DOMAIN_TYPE: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
NAME: constant(bytes32) = keccak256("Moot")
VERSION: constant(bytes32) = keccak256("1")
RECEIPT_TYPE: constant(bytes32) = keccak256(
    "Receipt(bytes32 layout,bytes32 programTop,bytes32 startRoot,bytes32 dataTop,bytes32 history,bytes32 answer,uint32 operators,uint32 stateSlots,uint32 batchSlots,uint32 answerSlot,uint64 steps,uint64 checkpointEvery,uint32 windowBlocks,uint32 clockBlocks,uint32 incrementBlocks,address client,address provider,uint64 number,uint64 issuedBlock,uint64 lastBlock,uint96 stakeWei,uint128 totalWei,uint128 releasedWei,uint96 priceWei)"
)
VOUCHER_TYPE: constant(bytes32) = keccak256(
    "Voucher(address client,address provider,uint128 totalWei)"
)


# The terms and the claim of a job that was never opened, with what backs them.
struct Receipt:
    layout: bytes32
    program_top: bytes32
    start_root: bytes32
    data_top: bytes32
    history: bytes32
    answer: bytes32
    operators: uint32
    state_slots: uint32
    batch_slots: uint32
    answer_slot: uint32
    steps: uint64
    checkpoint_every: uint64
    window_blocks: uint32
    clock_blocks: uint32
    increment_blocks: uint32
    client: address
    provider: address
    number: uint64
    issued_block: uint64
    last_block: uint64
    stake_wei: uint96
    total_wei: uint128
    released_wei: uint128
    price_wei: uint96


@internal
@view
def hash_receipt(receipt: Receipt) -> bytes32:
    """
    @notice Return the digest of a receipt, which is signed, and by which it is known.
    @param receipt The receipt.
    @return Its EIP-712 digest at this contract.
    """
    return self._hash(keccak256(abi_encode(RECEIPT_TYPE, receipt)))


@internal
@view
def hash_voucher(client: address, provider: address, total_wei: uint128) -> bytes32:
    """
    @notice Return the digest of a voucher, which is signed.
    @param client Who promises.
    @param provider Who may take it.
    @param total_wei How much, in all.
    @return Its EIP-712 digest at this contract.
    """
    return self._hash(keccak256(abi_encode(VOUCHER_TYPE, client, provider, total_wei)))


@internal
@view
def require_signed(digest: bytes32, signature: Bytes[SIGNATURE_BYTES], signer: address):
    """
    @notice Refuse a call unless an account has signed a digest: r, s and v, in the one form in
            which s is the lower and v is 27 or 28.
    @param digest The digest.
    @param signature The signature.
    @param signer The account; nobody can sign for the zero address.
    """
    assert len(signature) == SIGNATURE_BYTES, "service: signature does not match"
    s: uint256 = convert(extract32(signature, 32), uint256)
    v: uint256 = convert(slice(signature, 64, 1), uint256)
    is_strict: bool = s <= MAX_S and (v == 27 or v == 28) and signer != empty(address)
    assert is_strict, "service: signature does not match"
    r: uint256 = convert(extract32(signature, 0), uint256)
    assert ecrecover(digest, v, r, s) == signer, "service: signature does not match"


@internal
@pure
def require_sound(receipt: Receipt):
    """
    @notice Refuse a receipt that no challenge could be about.
    @param receipt The receipt.
    """
    issued: uint256 = convert(receipt.issued_block, uint256)
    last: uint256 = convert(receipt.last_block, uint256)
    stake_wei: uint256 = convert(receipt.stake_wei, uint256)
    backed_wei: uint256 = convert(receipt.released_wei, uint256) + stake_wei
    assert (
        receipt.state_slots <= MAX_SLOTS
        and receipt.batch_slots <= MAX_SLOTS
        and receipt.state_slots <= receipt.operators
        and receipt.operators <= MAX_OPERATORS
        and receipt.answer_slot < receipt.state_slots
        and receipt.steps <= MAX_STEPS
        and receipt.checkpoint_every >= 1
        and receipt.checkpoint_every <= receipt.steps
        and receipt.window_blocks >= 1
        and receipt.window_blocks <= MAX_BLOCKS
        and receipt.clock_blocks <= MAX_BLOCKS
        and receipt.increment_blocks >= 1
        and receipt.increment_blocks <= receipt.clock_blocks
        and stake_wei <= MAX_BOND_WEI
        and backed_wei <= convert(receipt.total_wei, uint256)
        and issued <= last
        and last <= issued + MAX_WINDOW_BLOCKS
    ), "service: absurd receipt"


@internal
@pure
def are_in_conflict(first: Receipt, second: Receipt) -> bool:
    """
    @notice Whether two receipts, of one provider and with other digests, do not go together.
    @param first The one with the lower number, or the same.
    @param second The other.
    @return Whether it is so.
    """
    if first.number >= second.number:
        return first.number == second.number
    total_wei: uint256 = convert(second.total_wei, uint256)
    least_wei: uint256 = convert(first.total_wei, uint256) + convert(second.stake_wei, uint256)
    if total_wei < least_wei:
        return True
    # The second number is the greater, and not 0.
    if unsafe_sub(second.number, first.number) == 1 and total_wei != least_wei:
        return True
    return first.last_block >= second.issued_block and first.total_wei <= second.released_wei


@internal
@pure
def make_terms(receipt: Receipt, bond_wei: uint256) -> types.Terms:
    """
    @notice Return the terms of a challenge: joining begins with the next block.
    @param receipt The receipt.
    @param bond_wei The bond of each member.
    @return The terms.
    """
    return types.Terms(
        operators=convert(receipt.operators, uint256),
        state_slots=convert(receipt.state_slots, uint256),
        batch_slots=convert(receipt.batch_slots, uint256),
        layout=receipt.layout,
        program_top=receipt.program_top,
        start_root=receipt.start_root,
        data_top=receipt.data_top,
        steps=convert(receipt.steps, uint256),
        checkpoint_every=convert(receipt.checkpoint_every, uint256),
        leaf_mode=0,
        verifier=empty(address),
        bond_wei=bond_wei,
        commit_blocks=0,
        reveal_blocks=0,
        window_blocks=convert(receipt.window_blocks, uint256),
        clock_blocks=convert(receipt.clock_blocks, uint256),
        increment_blocks=convert(receipt.increment_blocks, uint256),
    )


@internal
@view
def _hash(struct_digest: bytes32) -> bytes32:
    domain: bytes32 = keccak256(abi_encode(DOMAIN_TYPE, NAME, VERSION, chain.id, self))
    return keccak256(concat(b"\x19\x01", domain, struct_digest))
