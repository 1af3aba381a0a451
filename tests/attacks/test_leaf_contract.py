"""The leaf contract: who may call it to decide a match, and which evidence it accepts."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, cast

import pytest

from moot.contracts.compiler import SOURCE_DIR, compile_contract
from moot.contracts.model.abi import pack_args
from moot.contracts.model.leaf import Context, compute_leaf
from moot.contracts.model.types import NOBODY, ZERO
from moot.contracts.model.verdicts import get_context
from moot.contracts.reasons import Phase, Reason, Revert, Standing
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain.receipts import Transaction
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import TensorTree
from moot.offchain.commitments.tree import Digest, Tree, get_width, hash_root
from moot.offchain.errors import ChainError, Reverted
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, immediate
from moot.sim.synthetic.run_length import RunLengthTensor
from tests.attacks.court import HONEST, LIE, Call, Court, open_court
from tests.attacks.elements import ROWS, make_runs, make_task
from tests.attacks.puppet import Puppet
from tests.attacks.twin import Twin
from tests.quick import only

FALSE_REFEREE = """
# pragma version 0.4.3

import accumulators
import IReferee
import types

REAL: immutable(IReferee)
accepted: public(uint256)

@deploy
def __init__(referee: address):
    REAL = IReferee(referee)

@external
@view
def prepare_leaf(
    pair: types.Pair,
    position: types.Position,
    facts: accumulators.Facts,
    side: uint256,
    encoding_digest: bytes32,
) -> types.Ground:
    ground: types.Ground = staticcall REAL.prepare_leaf(
        pair, position, facts, side, encoding_digest
    )
    ground.context.accumulator ^= 1
    return ground

@external
def decide_leaf(pair: types.Pair, bits: uint256, computed: uint256):
    for said: uint256 in [computed, bits & (2**64 - 1), bits >> 64]:
        data: Bytes[164] = abi_encode(
            pair,
            bits,
            said,
            method_id=method_id("decide_leaf((uint256,address,address),uint256,uint256)"),
        )
        if raw_call(REAL.address, data, revert_on_failure=False):
            self.accepted += 1
"""
EVIDENCE_HEAD = 4 + 21 * 32
"""Where a call of `leaf` says at which byte behind its first four the evidence begins."""


def reach_leaf(referee: Twin) -> tuple[Court, Call]:
    """Play a match to its leaf; return the call that decides it."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    return court, court.find(pair)


def pack_leaf(referee: str, call: Call) -> tuple[Any, ...]:
    """Return the arguments of the leaf contract's call."""
    return (referee, *pack_args(call.args))


def test_m11_nobody_but_the_leaf_contract_says_what_was_computed(
    referee: Twin, tmp_path: Path
) -> None:
    """Members, the client, strangers and contracts can't decide a match, in any of its phases."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    puppet, pair = Puppet(referee, tmp_path), court.begin()
    senders = {referee.chain.accounts[n] for n in (0, 1, 2, 9)}
    assert {court.client, *court.members} < senders
    for phase in (Phase.HISTORY, Phase.FOLD, Phase.LEAF):
        court.play_to(pair, phase)
        first, second = cast("Any", court.look(pair)).facts.bits
        storage = referee._get_storage()
        args = (pack_args((pair,))[0], first | second << 64)
        for computed in (first, second, 7):
            for sender in senders:
                with pytest.raises(Reverted, match=Reason.NOT_YOURS):
                    referee.contract.transact("decide_leaf", *args, computed, sender=sender)
            with pytest.raises(Reverted, match=Reason.NOT_YOURS):
                puppet.send(("decide_leaf", pair, args[1], computed))
        assert referee._get_storage() == storage
    referee.compare()


def test_m11_foreign_referee_decides_nothing_but_its_own(referee: Twin, tmp_path: Path) -> None:
    """Who lies to the leaf contract about what is agreed is told the result, and nobody else is."""
    court, call = reach_leaf(referee)
    folder = tmp_path / "source"
    shutil.copytree(SOURCE_DIR, folder)
    (folder / "false_referee.vy").write_text(FALSE_REFEREE)
    artifact = compile_contract("false_referee", folder)
    hand = referee.chain.accounts[9]
    false = referee.chain.deploy(artifact, referee.contract.address, sender=hand)
    storage = referee._get_storage()
    for sender in (referee.chain.accounts[1], hand):
        # It gets as far as its own decision, and the real referee refuses all three of them.
        referee.leaf.transact("leaf", *pack_leaf(false.address, call), sender=sender)
    assert false.call("accepted") == 0
    assert referee._get_storage() == storage
    for address in (NOBODY, hand, referee.leaf.address, "0x" + "00" * 19 + "04"):
        with pytest.raises(Reverted):
            referee.leaf.transact("leaf", *pack_leaf(address, call), sender=hand)
    assert referee._get_storage() == storage
    court.make(call)


def test_m11_what_is_agreed_is_only_looked_up(referee: Twin) -> None:
    """What the leaf is told is what the model says, for either side, and asking changes nothing."""
    court, call = reach_leaf(referee)
    pair, at, facts = call.args[:3]
    digest, storage = facts.encoding_digest, referee._get_storage()
    place = pack_args((pair, at, facts))
    for side in (0, 1):
        context, before = referee.contract.call("prepare_leaf", *place, side, digest)
        expected = astuple(get_context(court.terms, facts, side, None))
        assert context == (*expected[:2], False, ZERO, *expected[3:])
        assert before[0] == bytes([Tag.INTERVAL_NODE])
        assert before[2:] == (facts.step - facts.first_step - 1, 4)
        hand = referee.chain.accounts[9]
        referee.contract.transact("prepare_leaf", *place, side, digest, sender=hand)
    refused = {
        Reason.OUT_OF_RANGE: [(*place, 2, digest), (*place, 2**256 - 1, digest)],
        Reason.BAD_PROOF: [(*place, 0, ZERO)],
        Reason.STALE: [
            (*pack_args((pair, replace(at, moves=0), facts)), 0, digest),
            (*pack_args((pair, at, replace(facts, low=0))), 0, digest),
            (*pack_args((replace(pair, job_id=9), at, facts)), 0, digest),
        ],
    }
    for reason, cases in refused.items():
        for case in cases:
            with pytest.raises(Reverted, match=reason):
                referee.contract.call("prepare_leaf", *case)
    assert referee._get_storage() == storage
    referee.compare()


def send_raw(referee: Twin, sender: str, data: bytes) -> None:
    """Call the leaf contract with bytes that no encoder makes."""
    leaf = referee.leaf.address
    sent = Transaction(referee.chain.chain_id, "leaf", cast("Any", sender), leaf, data, 0)
    (answer,) = referee.chain.send([sent])
    if isinstance(answer, ChainError):
        raise answer


def point(data: bytes, offset: int) -> bytes:
    """Return a call whose evidence begins elsewhere."""
    return data[:EVIDENCE_HEAD] + offset.to_bytes(32, "big") + data[EVIDENCE_HEAD + 32 :]


def test_h4_evidence_is_read_where_the_call_says(referee: Twin) -> None:
    """There is one evidence in a call: at its offset, wherever that is, and nothing beside it."""
    court, call = reach_leaf(referee)
    codec = cast("Any", referee.leaf)._codec
    data = bytes(codec.encode_call("leaf", pack_leaf(referee.address, call)))
    old = int.from_bytes(data[EVIDENCE_HEAD:][:32], "big")
    tail = data[4 + old :]
    evidence = call.args[7]
    assert tail.startswith(len(evidence).to_bytes(32, "big") + evidence)
    bent = tail[:40] + bytes([tail[40] ^ 1]) + tail[41:]
    end = len(data) - 4
    moved = {
        "behind": point(data, end) + tail,
        "behind the bent one": point(data[: 4 + old] + bent, end) + tail,
        "unaligned": point(data, end + 7) + b"\xff" * 7 + tail,
    }
    sender = court.members[1]
    for name, other in moved.items():
        with referee.branch():
            send_raw(referee, sender, other)
            assert referee.match(call.args[0]) == ZERO, name
            loser = referee.member(court.job_id, court.members[0])
            assert loser.standing is Standing.DEFEATED
    storage = referee._get_storage()
    wrong = [point(data, end) + bent, point(data, end), point(data, end + 7) + tail]
    wrong += [point(data, place) for place in (0, 17 * 32, 18 * 32, old - 1, old + 1, old + 32)]
    wrong += [point(data, 2**256 - place) for place in (1, 4, 36, 4 + old, 2**255)]
    wrong += [data[:-32], data[: 4 + old], data[: 4 + old + 32], data[:EVIDENCE_HEAD]]
    for other in wrong:
        with pytest.raises(Reverted):
            send_raw(referee, sender, other)
        assert referee._get_storage() == storage
    court.make(call)


NEGATED_ZERO = Node(Kind.MAP, Function.NEG, DType.FLOAT32, (2,), (immediate(DType.FLOAT32, 0),))
"""Reads nothing, so that there is no evidence."""
NEGATED_STATE = replace(NEGATED_ZERO, operands=(Operand(Origin.STATE, DType.FLOAT32, 0, 0, ROWS),))
"""Reads a tensor of 8 bytes, the only one of its state, so that its evidence ends with zeros."""


def reach_leaf_of(referee: Twin, node: Node) -> tuple[Court, Call, bytes]:
    """Play a match about a job's only operator to its leaf; return the call and its encoding."""
    task = make_task(node)
    court = Court(referee, task, make_runs(task, node, (7, 9)))
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    call = court.find(pair)
    codec = cast("Any", referee.leaf)._codec
    return court, call, bytes(codec.encode_call("leaf", pack_leaf(referee.address, call)))


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 7])
def test_h4_evidence_of_nothing_lies_in_the_call(referee: Twin, stride: int) -> None:
    """No evidence is needed, but its length has to stand behind the heads, and in the call."""
    court, call, data = reach_leaf_of(referee, NEGATED_ZERO)
    assert call.args[7] == b""
    zeros = [at for at in range(EVIDENCE_HEAD - 36) if not any(data[4 + at : 4 + at + 32])]
    assert zeros
    beyond = [2**256 - place for place in (4, 31, 32, 33, 36, 36 + len(data), 40 + len(data))]
    for offset in (*zeros[::stride], *beyond, len(data) - 4, len(data), len(data) + 32):
        with referee.branch(), pytest.raises(Reverted):
            send_raw(referee, court.members[1], point(data, offset))
    court.make(call)


def test_h4_zeros_behind_the_call_are_no_evidence(referee: Twin) -> None:
    """Evidence that ends with zeros has to be sent with them."""
    court, call, data = reach_leaf_of(referee, NEGATED_STATE)
    assert data.endswith(bytes(200))
    padding = -len(call.args[7]) % 32
    for missing in (1, 10, 11, 32, 64, 160):
        with referee.branch(), pytest.raises(Reverted):
            send_raw(referee, court.members[1], data[: -padding - missing])
    court.make(call)


def test_h2_evidence_ends_where_it_meets_what_has_been_shown(referee: Twin) -> None:
    """In a match too: a second full proof, a longer one and another node where they meet fail."""
    court, call = reach_leaf(referee)
    evidence, run = call.args[7], court.runs[court.members.index(call.sender)]
    proof = run.trace(call.args[2].step).proof(1)
    # The operands are outputs 0 and 1, so that the second one's proof has no sibling at all.
    for more in (proof, proof[:1], proof[1:], proof[::-1]):
        bent = evidence + b"".join(more)
        args = (*call.args[:7], bent)
        assert court.refuse(call, args=args) == Reason.BAD_OPERAND
    court.make(call)


F32 = DType.FLOAT32
STEP = 2


def make_tensor(number: int) -> TensorTree:
    """Return one of many tensors."""
    return RunLengthTensor(F32, (), {0: 0x3F800000 + number})


class Trees:
    """What is agreed at a leaf: a trace, a state and a data set, of this many tensors each."""

    def __init__(self, count: int) -> None:
        self.count = count
        roots = [[make_tensor(n + shift).root for n in range(count)] for shift in (0, 100, 200)]
        steps = [root for step in range(STEP + 1) for root in roots[2]]
        self.trees = {
            Origin.NODE: Tree(Tag.TRACE_NODE, roots[0]),
            Origin.STATE: Tree(Tag.STATE_NODE, roots[1]),
            Origin.BATCH: Tree(Tag.DATA_NODE, steps),
        }
        state = self.trees[Origin.STATE].top
        self.context = Context(
            trace_top=self.trees[Origin.NODE].top,
            operators=count - 1,
            before=hash_root(Tag.STATE_ROOT, count, state),
            state_slots=count,
            data_top=self.trees[Origin.BATCH].top,
            batch_slots=count,
            steps=STEP + 1,
            step=STEP,
            element=0,
            position=0,
            accumulator=0,
        )

    def show(self, origin: Origin, place: int) -> bytes:
        """Return an element with the proof in its tensor."""
        shift = {Origin.NODE: 0, Origin.STATE: 100, Origin.BATCH: 200}[origin]
        tensor = make_tensor(place + shift)
        return tensor.header + tensor.chunk(0).ljust(CHUNK_BYTES, b"\0")

    def prove(self, origin: Origin, place: int) -> list[Digest]:
        """Return the whole proof of a tensor's root."""
        index = place + STEP * self.count * (origin is Origin.BATCH)
        return self.trees[origin].proof(index)

    def count_shared(self, one: int, other: int) -> int:
        """Return how many siblings lead from one place up to where another one's proof is met."""
        met = (one ^ other).bit_length()
        return sum(one >> level ^ 1 < get_width(self.count, level) for level in range(met - 1))


def compute(referee: Twin, context: Context, node: Node, evidence: bytes) -> int | str:
    """Return what model and contract say of a leaf, which is the same."""
    expected: int | str
    try:
        expected = compute_leaf(ORDERED, context, node, evidence)
    except Revert as refusal:
        expected = refusal.reason
    top, operators, before, *rest = astuple(context)
    packed = (top, operators, True, before, *rest)
    try:
        found = referee.leaf.call("compute", packed, encode_node(node), evidence)
    except Reverted as refusal:
        found = refusal.reason
    assert found == expected
    return expected


def read(*operands: tuple[Origin, int]) -> Node:
    """Return an operator that reads scalars, two or three of them."""
    args = tuple(Operand(origin, F32, place, 0, ()) for origin, place in operands)
    return Node(Kind.MAP, Function.ADD, F32, (), args)


def bend_link(proof: Sequence[Digest], shared: int) -> Iterator[list[Digest]]:
    """Yield what is not the part of a proof below the meeting point."""
    for length in range(len(proof) + 1):
        if length != shared:
            yield list(proof[:length])
    for place in range(shared):
        yield [*proof[:place], b"\7" * 32, *proof[place + 1 : shared]]
    yield [ZERO, *proof[:shared]]


@pytest.mark.parametrize("count", only({3}, [2, 3, 10]))
@pytest.mark.parametrize("origin", [Origin.NODE, Origin.STATE])
def test_h2_second_proof_goes_exactly_as_far_as_it_meets_the_first(
    referee: Twin, count: int, origin: Origin
) -> None:
    """For places near, far, at the ragged end and the same: one evidence is taken, and no other."""
    trees = Trees(count)
    places = {(0, 1), (1, 0), (0, count - 1), (count - 1, 0), (count - 1, count - 2), (1, 1)}
    for one, other in sorted(places):
        node = read((origin, one), (origin, other))
        first = trees.show(origin, one) + b"".join(trees.prove(origin, one))
        proof, shown = trees.prove(origin, other), trees.show(origin, other)
        shared = trees.count_shared(other, one)
        right = first + shown + b"".join(proof[:shared])
        assert isinstance(compute(referee, trees.context, node, right), int)
        for link in bend_link(proof, shared):
            wrong = first + shown + b"".join(link)
            assert compute(referee, trees.context, node, wrong) == Reason.BAD_OPERAND
        # Another node where they meet: of another tensor, whose own proof is as long.
        stranger = trees.show(origin, other + 50) + b"".join(proof[:shared])
        assert compute(referee, trees.context, node, first + stranger) == Reason.BAD_OPERAND
        bent = first[:-1] + bytes([first[-1] ^ 1])
        wrong = bent + shown + b"".join(proof[:shared])
        assert compute(referee, trees.context, node, wrong) == Reason.BAD_OPERAND


def test_h2_proofs_meet_in_one_tree_only(referee: Twin) -> None:
    """A trace's proof is no help in a state, and data are proven whole each time."""
    trees = Trees(10)
    pairs = [
        (Origin.NODE, Origin.STATE),
        (Origin.STATE, Origin.NODE),
        (Origin.BATCH, Origin.BATCH),
        (Origin.BATCH, Origin.NODE),
        (Origin.NODE, Origin.BATCH),
    ]
    for one, other in pairs:
        for places in ((0, 1), (4, 4), (9, 8)):
            node = read((one, places[0]), (other, places[1]))
            first = trees.show(one, places[0]) + b"".join(trees.prove(one, places[0]))
            shown, proof = trees.show(other, places[1]), trees.prove(other, places[1])
            whole = first + shown + b"".join(proof)
            assert isinstance(compute(referee, trees.context, node, whole), int)
            for length in range(len(proof)):
                part = first + shown + b"".join(proof[:length])
                assert compute(referee, trees.context, node, part) == Reason.BAD_OPERAND
