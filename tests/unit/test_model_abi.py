"""The model's dataclasses and the ABI's tuples have the same fields."""

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.contracts.model.abi import (
    EventReader,
    get_key,
    pack_args,
    to_abi,
    unpack_claim,
    unpack_facts,
    unpack_job,
    unpack_member,
    unpack_position,
)
from moot.contracts.model.types import (
    KEY_BYTES,
    Claim,
    Dive,
    Event,
    Facts,
    Job,
    Member,
    Pair,
    Position,
    Terms,
)
from moot.contracts.model.words import (
    hash_pair,
    pack,
    pack_claim,
    pack_facts,
    pack_head,
    pack_member,
    pack_tally,
)
from moot.contracts.reasons import Ending, LeafMode, Outcome, Phase, Standing, Status
from tests.quick import share

MEMBERS = (7, "0x01", "0x02")
PAIR = Pair(*MEMBERS)
KEY = hash_pair(PAIR)
digests = st.binary(min_size=32, max_size=32)
pairs = st.tuples(digests, digests)


def words(bits: int) -> st.SearchStrategy[int]:
    """Return integers of so many bits."""
    return st.integers(0, (1 << bits) - 1)


positions = st.builds(
    Position,
    phase=st.sampled_from(Phase),
    mover=words(1),
    deadline=words(40),
    spare_blocks=words(24),
    clock_blocks=words(24),
    increment_blocks=words(24),
    nodes=pairs,
    count=words(56),
    level=words(6),
    index=words(56),
    span=words(3),
    entered=words(2),
    moves=words(8),
    facts=digests,
)
found = st.builds(
    Facts,
    first_step=words(40),
    step=words(40),
    checkpoint=words(40),
    operator=words(32),
    intervals=pairs,
    traces=pairs,
    encoding_digest=digests,
    elements=words(64),
    element=words(64),
    fold_length=words(64),
    width=words(8),
    low=words(64),
    high=words(64),
    low_bits=words(64),
    bits=st.tuples(words(64), words(64)),
)


@given(positions)
def test_positions_survive_the_abi(position: Position) -> None:
    """Every position is read back from its tuple, with its phase as a phase."""
    packed = to_abi(position)
    assert packed == (pack_head(position), *position.nodes, position.facts)
    back = unpack_position(packed)
    assert back == position
    assert isinstance(back.phase, Phase)


@given(found)
def test_facts_survive_the_abi(facts: Facts) -> None:
    """All facts are read back from their nine words."""
    packed = to_abi(facts)
    assert len(packed) == 9
    assert unpack_facts(packed) == facts
    assert unpack_facts(pack_facts(facts)) == facts


@given(found, found)
def test_nothing_of_the_facts_is_lost(one: Facts, other: Facts) -> None:
    """Facts that differ, in whatever field, differ in the ABI's words."""
    for field in fields(Facts):
        mixed = replace(one, **{field.name: getattr(other, field.name)})
        assert (pack_facts(mixed) == pack_facts(one)) == (mixed == one)


@given(
    st.builds(
        Member,
        st.sampled_from(Standing),
        st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES),
        words(24),
    )
)
def test_members_survive_the_abi(member: Member) -> None:
    """Every member is read back from its word."""
    assert unpack_member(pack_member(member)) == member


@given(
    st.builds(Claim, digests, words(24), words(24), words(32), words(40)),
    digests,
)
def test_claims_survive_the_abi(claim: Claim, top: bytes) -> None:
    """Every claim is read back from its word, and its key is the beginning of its top."""
    assert unpack_claim(claim.top, pack_claim(claim)) == claim
    assert unpack_claim(top, 0) is None
    assert (get_key(top) == get_key(claim.top)) == (top == claim.top)


def test_structs_are_tuples_and_lists_are_lists() -> None:
    """A dive, and proofs, come out as the ABI's encoder takes them."""
    node = bytes(32)
    dive = (3, node, [node], [node, node])
    args = (Dive(3, node, (node,), (node, node)), (node,), b"evidence", 7)
    assert pack_args(args) == (dive, [node], b"evidence", 7)


@given(positions, found, st.lists(digests, max_size=16), st.binary(max_size=504))
def test_events_are_the_models(
    position: Position, facts: Facts, nodes: list[bytes], data: bytes
) -> None:
    """What the contract announces in words is what the model announces."""
    reader = EventReader()
    started = reader.read("MatchStarted", (*MEMBERS, to_abi(position)))
    assert started == Event("MatchStarted", (*MEMBERS, position))
    moved = reader.read("Moved", (KEY, to_abi(position), nodes, data))
    assert moved == Event("Moved", (*MEMBERS, position, tuple(nodes), data))
    assert reader.read("Found", (KEY, to_abi(facts))) == Event("Found", (*MEMBERS, facts))


def test_numbers_of_events_are_names() -> None:
    """Outcomes, endings and statuses are read as what they mean."""
    reader = EventReader()
    reader.note(PAIR)
    ended = reader.read("MatchEnded", (KEY, 2, 1, 7))
    assert ended == Event("MatchEnded", (*MEMBERS, Outcome.NEITHER, Ending.CLOCK, 7))
    assert isinstance(ended.args[3], Outcome)
    assert isinstance(ended.args[4], Ending)
    assert isinstance(reader.read("Settled", (7, 1, bytes(32))).args[1], Status)


def test_events_are_told_apart_by_their_match() -> None:
    """Each event is of the members whose number it has; an unknown number is an error."""
    reader, other = EventReader(), Pair(7, "0x02", "0x03")
    for pair in (PAIR, other, replace(PAIR, job_id=8)):
        with pytest.raises(KeyError):
            reader.read("MatchEnded", (hash_pair(pair), 0, 1, 0))
        reader.note(pair)
    for pair in (PAIR, other, replace(PAIR, job_id=8)):
        ended = reader.read("MatchEnded", (hash_pair(pair), 0, 1, 0))
        assert ended.args[:3] == (pair.job_id, pair.first, pair.second)


bounds = {name: words(24) for name in ("commit_blocks", "reveal_blocks", "window_blocks")}
counts = {name: words(32) for name in ("operators", "state_slots", "batch_slots")}
roots = dict.fromkeys(("layout", "program_top", "start_root", "data_top"), digests)
terms = st.builds(
    Terms,
    steps=words(64),
    checkpoint_every=words(64),
    leaf_mode=st.sampled_from(LeafMode),
    verifier=st.just("0x03"),
    bond_wei=words(80),
    clock_blocks=words(24),
    increment_blocks=words(24),
    **bounds,
    **counts,
    **roots,
)
jobs = st.builds(
    Job,
    client=st.just("0x04"),
    terms=terms,
    reward_wei=words(96),
    opened_block=words(40),
    window_end=words(40),
    claims=words(24),
    hidden=words(24),
    defeated=words(24),
    forfeits=words(24),
    meetings=words(32),
    status=st.sampled_from(Status),
    is_client_owed=st.booleans(),
)


@settings(max_examples=share(100, 34))
@given(jobs)
def test_jobs_survive_the_abi(job: Job) -> None:
    """Every job is read back from its words; the bond is in the tally, the leaf mode in the scope.

    The head and the scope are packed here as the contract's source says.
    """
    asked = job.terms
    head = pack(
        (job.opened_block, 40),
        (asked.commit_blocks, 24),
        (asked.reveal_blocks, 24),
        (asked.window_blocks, 24),
        (asked.clock_blocks, 24),
        (asked.increment_blocks, 24),
    )
    scope = pack(
        (asked.operators, 32),
        (asked.state_slots, 32),
        (asked.batch_slots, 32),
        (asked.steps, 64),
        (asked.checkpoint_every, 64),
        (asked.leaf_mode, 8),
    )
    accounts = (job.client, asked.verifier, job.reward_wei)
    kept = (asked.layout, asked.program_top, asked.start_root, asked.data_top)
    back = unpack_job((head, scope, pack_tally(job), *accounts, *kept))
    assert back == job
    assert isinstance(back.status, Status)
    assert isinstance(back.terms.leaf_mode, LeafMode)
