"""How the contract packs what it remembers and hashes into words of 256 bits."""

from collections.abc import Iterable
from itertools import chain

from moot.contracts.model.types import (
    KEY_BYTES,
    TERMS_BYTES,
    Claim,
    Facts,
    Job,
    Member,
    Pair,
    Position,
    Store,
)
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest


def pack(*fields: tuple[int, int]) -> int:
    """Return a word of (value, bits) fields, the first in the lowest bits."""
    word = at = 0
    for value, bits in fields:
        assert 0 <= value < 1 << bits, "the field is as wide as its bound says"
        word |= value << at
        at += bits
    assert at <= 256
    return word


def pack_head(position: Position) -> int:
    """Return the first word of a position; the others are the nodes and the facts' digest."""
    return pack(
        (position.index, 56),
        (position.count, 56),
        (position.deadline, 40),
        (position.spare_blocks, 24),
        (position.level, 6),
        (position.span, 3),
        (position.moves, 8),
        (position.phase, 4),
        (position.entered, 2),
        (position.mover, 1),
        (position.clock_blocks, 24),
        (position.increment_blocks, 24),
    )


def pack_facts(facts: Facts) -> tuple[int | Digest | tuple[tuple[Digest, ...], ...], ...]:
    """Return facts in the order of the contract's struct: words, and wide bits as a few words."""
    place = pack(
        (facts.first_step, 40), (facts.step, 40), (facts.checkpoint, 40), (facts.operator, 32)
    )
    tensor = pack(
        (facts.elements, 64), (facts.element, 64), (facts.fold_length, 64), (facts.width, 8)
    )
    roots = (*facts.intervals, *facts.traces, facts.encoding_digest)
    if facts.accumulator_bytes:
        fold = pack((facts.low, 64), (facts.high, 64))
        known = (facts.low_bits, *facts.bits)
        words = tuple(split(bits, facts.accumulator_bytes) for bits in known)
        return (place, *roots, tensor, fold, words)
    fold = pack((facts.low, 64), (facts.high, 64), (facts.low_bits, 64))
    return (place, *roots, tensor, fold, pack((facts.bits[0], 64), (facts.bits[1], 64)))


def split(bits: int, size: int) -> tuple[Digest, ...]:
    """Return an accumulator of so many bytes, the lowest first, as words of 32 bytes."""
    data = bits.to_bytes(size, "little")
    return tuple(data[start : start + 32] for start in range(0, size, 32))


def pack_member(member: Member) -> int:
    """Return a member's word: standing u8 | prizes u24 | key u224."""
    key = int.from_bytes(member.key, "big")
    return pack((member.standing, 8), (member.prizes, 24), (key, 8 * KEY_BYTES))


def pack_claim(claim: Claim) -> int:
    """Return a claim's word, which does not say what its top is: `hash_top` finds the word."""
    return pack(
        (claim.contenders, 24),
        (claim.sharers, 24),
        (claim.meeting, 32),
        (claim.window_end, 40),
        (1, 1),
    )


def pack_tally(job: Job) -> int:
    """Return the word of a job that changes, in which the bond is, too."""
    return pack(
        (job.claims, 24),
        (job.hidden, 24),
        (job.defeated, 24),
        (job.forfeits, 24),
        (job.meetings, 32),
        (job.window_end, 40),
        (job.status, 2),
        (job.is_client_owed, 1),
        (job.is_undecided, 1),
        (job.terms.bond_wei, 80),
    )


def hash_words(words: Iterable[int | Digest]) -> Digest:
    """Return keccak-256 of words, as abi_encode lays them out."""
    return keccak256(b"".join(w.to_bytes(32, "big") if isinstance(w, int) else w for w in words))


def hash_facts(facts: Facts) -> Digest:
    """Return the digest of facts that a position holds."""
    words: list[int | Digest] = []
    for field in pack_facts(facts):
        words += chain(*field) if isinstance(field, tuple) else (field,)
    return hash_words(words)


def announce(facts: Facts, bits: int) -> int:
    """Return the number by which an event names a computed element, or a wide accumulator."""
    if not facts.accumulator_bytes:
        return bits
    words = split(bits, facts.accumulator_bytes)
    return int.from_bytes(hash_words(words), "big")


def hash_pair(pair: Pair) -> Digest:
    """Return the number under which a match is stored."""
    return hash_words((pair.job_id, int(pair.first, 16), int(pair.second, 16)))


def hash_position(pair: Pair, position: Position) -> Digest:
    """Return all that the contract remembers of a match."""
    head = pack_head(position)
    return hash_words((Tag.POSITION, hash_pair(pair), head, *position.nodes, position.facts))


def hash_top(top: Digest) -> bytes:
    """Return the key of a claim.

    It is a part of a hash, because a top is whatever its owner says: nobody can make one whose key
    is that of another's in fewer than 2^224 hashes.
    """
    return keccak256(top)[:KEY_BYTES]


def hash_job(job: Job) -> int:
    """Return the digest of a job's terms, client and reward, by which calls that join it name it.

    Its number alone may be another job's after a reorganisation.
    """
    it = job.terms
    counts = (it.operators, it.state_slots, it.batch_slots)
    roots = (it.layout, it.program_top, it.start_root, it.data_top)
    run = (it.steps, it.checkpoint_every, it.leaf_mode, int(it.verifier, 16), it.bond_wei)
    windows = (it.commit_blocks, it.reveal_blocks, it.window_blocks)
    clocks = (it.clock_blocks, it.increment_blocks)
    words = (*counts, *roots, *run, *windows, *clocks, int(job.client, 16), job.reward_wei)
    return int.from_bytes(hash_words(words)[:TERMS_BYTES], "big")


def hash_commitment(store: Store, job_id: int, sender: str, top: Digest, salt: Digest) -> Digest:
    """Return the digest that a provider posts before it reveals its claim.

    It binds the chain, the referee, the job and the sender, so that nobody can copy or replay it.
    """
    words = (Tag.CLAIM, store.chain_id, int(store.address, 16), job_id, int(sender, 16), top, salt)
    return hash_words(words)
