"""The calls that end a match: short chunks, later steps, forged pointers, two wrong sides."""

from dataclasses import replace
from typing import Any, cast

import pytest

from moot.contracts.model.types import ZERO
from moot.contracts.reasons import Ending, Outcome, Phase, Reason, Standing, Status
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import hash_chunk
from moot.offchain.commitments.tree import Tree
from moot.offchain.errors import Reverted
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Origin, immediate
from moot.sim.synthetic.run_length import RunLengthTensor
from tests.attacks.court import Call, Court, read_end
from tests.attacks.elements import decide, make_runs, make_task
from tests.attacks.test_entering import swap
from tests.attacks.test_hashing import BITS, NEGATED
from tests.attacks.test_leaf_contract import (
    EVIDENCE_HEAD,
    Trees,
    compute,
    pack_leaf,
    point,
    read,
    send_raw,
)
from tests.attacks.twin import Twin
from tests.quick import every

F32 = DType.FLOAT32
ONE, TWO, THREE = 0x3F800000, 0x40000000, 0x40400000
WIDE = Node(Kind.MAP, Function.COPY, F32, (100,), (immediate(F32, ONE),))
"""One of two chunks, of 64 and of 36 elements."""


class CutTensor(RunLengthTensor):
    """A tensor with one chunk of the wrong length in its tree."""

    def __init__(self, honest: RunLengthTensor, place: int, chunk: bytes) -> None:
        self.header = honest.header
        self._chunks = [chunk if n == place else honest.chunk(n) for n in range(2)]
        self.tree: Any = Tree(Tag.TENSOR_NODE, [hash_chunk(own) for own in self._chunks])

    def chunk(self, index: int) -> bytes:
        """Return the bytes of one chunk."""
        return self._chunks[index]


@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize(
    ("place", "size"), every(8, [(0, 0), (0, 4), (0, 255), (1, 4), (1, 140), (1, 256)])
)
def test_h1_leaf_of_a_tensor_is_a_whole_chunk(
    referee: Twin, liar: int, place: int, size: int
) -> None:
    """Who has hashed a chunk that is too short or too long can't show it, and loses by the clock.

    Neither before the other side shows its own, which is the whole one, nor after it.
    """
    task = make_task(WIDE)
    runs = make_runs(task, WIDE, (ONE, ONE))
    truth = cast("RunLengthTensor", runs[1 - liar].output)
    whole = truth.chunk(place)
    chunk = (whole + whole)[:size].ljust(min(size, CHUNK_BYTES), b"\1")
    runs[liar] = replace(runs[liar], output=CutTensor(truth, place, chunk))
    court = Court(referee, task, runs)
    pair = court.begin()
    call = court.await_call(pair, "reach_chunk")
    if call.sender != court.members[liar]:
        court.make(call)
        board = court.look(pair)
        assert board is not None
        args = (pair, board.position, board.facts, board.data, chunk, b"")
        call = Call("pick_element", court.members[liar], args)
    shown_at = 4
    assert court.refuse(call, args=swap(call.args, shown_at, chunk)) == Reason.BAD_CHUNK
    for other in (whole, chunk.ljust(len(whole), b"\0"), b"\7" * len(whole)):
        court.refuse(call, args=swap(call.args, shown_at, other))
    referee.mine_to(court.at(pair).deadline + 1)
    referee.call("timeout", court.client, pair, court.at(pair))
    assert referee.member(court.job_id, court.members[liar]).standing is Standing.DEFEATED
    assert referee.member(court.job_id, court.members[1 - liar]).prizes == 1


@pytest.mark.parametrize(
    ("steps", "late"), every(6, [(2, 1), (3, 1), (3, 2), (9, 1), (9, 4), (9, 8)])
)
def test_v3_state_before_a_later_step_is_the_intervals(
    referee: Twin, steps: int, late: int
) -> None:
    """In the second, third, .. step of an interval operands of the state are the step before's.

    The proof is of the interval of either side; that it is the job's start, too, which needs no
    proof in front of the interval's first step, does not count.
    """
    task = replace(make_task(NEGATED), steps=steps, checkpoint_every=steps)
    runs = make_runs(task, NEGATED, BITS, changed=late)
    court = Court(referee, task, runs)
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    for seat in (0, 1):
        call = court.make_leaf(pair, seat)
        assert call.args[2].step == late
        proof = tuple(runs[seat].interval(0).proof(late - 1))
        assert call.args[5:7] == (task.start_root, proof)
        forged = (*call.args[:5], task.start_root, (), call.args[7])
        assert court.refuse(call, args=forged) == Reason.BAD_OPERAND
        with referee.branch():
            assert read_end(court.make(call)) == (court.members[0], Ending.SCALAR)


@pytest.mark.parametrize(("steps", "every"), every(12, [(1, 1), (3, 3), (2, 1), (5, 2), (9, 1)]))
def test_s4_state_before_the_first_step_is_the_jobs_start(
    referee: Twin, steps: int, every: int
) -> None:
    """It is shown as it stands in the job, and no other state, and nothing with a proof, is taken.

    Not a checkpoint either, not even the only one, which is the claim itself.
    """
    task = replace(make_task(NEGATED), steps=steps, checkpoint_every=every)
    runs = make_runs(task, NEGATED, BITS, changed=0)
    court = Court(referee, task, runs, {"clock_blocks": 1000})
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    start, tops = task.start_root, [run.history.top for run in runs]
    for seat in (0, 1):
        call, trees = court.make_leaf(pair, seat), (runs[seat].history, runs[seat].interval(0))
        assert call.args[5:7] == (start, ())
        others = {
            *tops,
            *(tree.top for tree in trees),
            runs[seat].after,
            ZERO,
            start[:28] + ZERO[:4],
        }
        forged: list[tuple[bytes, tuple[bytes, ...]]] = [(other, ()) for other in others]
        for tree in trees:
            proof = tuple(tree.proof(0))
            forged += [(tree.node(0, 0), proof), *([(start, proof)] if proof else [])]
        forged += [(start, (start,)), (start, (ZERO,) * 2)]
        for shown in forged:
            args = (*call.args[:5], *shown, call.args[7])
            assert court.refuse(call, args=args) == Reason.BAD_OPERAND
        with referee.branch():
            assert read_end(court.make(call)) == (court.members[0], Ending.SCALAR)


@pytest.mark.parametrize("steps", every(6, [2, 3, 5, 8]))
def test_s4_state_before_a_later_interval_is_the_checkpoint_before_it(
    referee: Twin, steps: int
) -> None:
    """In the last of so many intervals the state before is the last checkpoint but one.

    It is the job's start again, as all checkpoints are up to there, and counts as that one only.
    """
    task = make_task(NEGATED, steps)
    runs = make_runs(task, NEGATED, BITS)
    court = Court(referee, task, runs, {"clock_blocks": 1000})
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    for seat in (0, 1):
        call, history = court.make_leaf(pair, seat), runs[seat].history
        leaves = [(history.node(0, place), tuple(history.proof(place))) for place in range(steps)]
        right = leaves[steps - 2]
        assert call.args[5:7] == right
        assert right[0] == task.start_root
        for shown in (*(leaf for leaf in leaves if leaf != right), (task.start_root, ())):
            args = (*call.args[:5], *shown, call.args[7])
            assert court.refuse(call, args=args) == Reason.BAD_OPERAND
        with referee.branch():
            assert read_end(court.make(call)) == (court.members[0], Ending.SCALAR)


def test_h4_evidence_lies_within_the_call(referee: Twin) -> None:
    """A pointer behind the call's end, round the end of all numbers or into the heads is refused.

    What lies there may be read as no evidence at all, which is right for an operator without
    operands: so the place itself has to be.
    """
    task = make_task(WIDE)
    runs = make_runs(task, WIDE, (ONE, TWO))
    court = Court(referee, task, runs, {"clock_blocks": 1000})
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    call = court.make_leaf(pair, 0)
    assert call.args[7] == b""
    codec = cast("Any", referee.leaf)._codec
    data = bytes(codec.encode_call("leaf", pack_leaf(referee.address, call)))
    last, heads = len(data) - 4, EVIDENCE_HEAD - 4
    assert data[EVIDENCE_HEAD:][:32] == (last - 32).to_bytes(32, "big")
    # Wherever 32 bytes of the heads are 0, a length would be.
    places = [n for n in range(heads) if data[4 + n :][:32] == bytes(32)][::9]
    places += [last - 31, last - 1, last, last + 1, last + 32, 2**31, 2**63, 2**255]
    places += [2**256 - n for n in (1, 4, 5, 32, 36, 37, 2**20)]
    storage = referee._get_storage()
    for place in places:
        with pytest.raises(Reverted) as refusal:
            send_raw(referee, court.client, point(data, place))
        assert refusal.value.reason in {Reason.BAD_OPERAND, Reason.NO_REASON}, place
    with pytest.raises(Reverted, match=Reason.BAD_OPERAND):
        send_raw(referee, court.client, data[:-1])
    assert referee._get_storage() == storage
    # Behind all the rest it may lie anywhere, and two arguments may be read from the same bytes.
    proof_at = int.from_bytes(data[EVIDENCE_HEAD - 32 :][:32], "big")
    for moved in (point(data, proof_at), point(data, last) + bytes(32), data + b"\7"):
        with referee.branch():
            send_raw(referee, court.client, moved)
            loser = referee.member(court.job_id, court.members[1])
            assert loser.standing is Standing.DEFEATED


def test_h4_evidence_of_a_computation_lies_within_the_call(referee: Twin) -> None:
    """What anybody may ask the leaf contract to compute is read as strictly."""
    codec = cast("Any", referee.leaf)._codec
    context = (bytes(32), 1, False, bytes(32), 1, bytes(32), 0, 1, 0, 0, 0, 0)
    args = (context, encode_node(WIDE), b"")
    data = bytes(codec.encode_call("compute", args))
    assert referee.leaf.call("compute", *args) == ONE
    head, last = 4 + 13 * 32, len(data) - 4
    send_raw(referee, referee.accounts[0], data)
    for place in (0, 32, head - 4, last - 31, last, last + 32, 2**255, 2**256 - 4, 2**256 - 36):
        bent = data[:head] + place.to_bytes(32, "big") + data[head + 32 :]
        with pytest.raises(Reverted):
            send_raw(referee, referee.accounts[0], bent)


def test_c7_two_wrong_sides_both_lose(referee: Twin) -> None:
    """Where neither side has what is computed, both bonds are burned whole; nobody has a prize."""
    node = Node(Kind.MAP, Function.ADD, F32, (1,), (immediate(F32, ONE), immediate(F32, TWO)))
    task = make_task(node)
    court = Court(referee, task, make_runs(task, node, (ONE, TWO)))
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    event = court.make(court.make_leaf(pair, 0))[-1]
    assert event.args[3:] == (Outcome.NEITHER, Ending.SCALAR, THREE)
    for member in court.members:
        found = referee.member(court.job_id, member)
        assert (found.standing, found.prizes) == (Standing.DEFEATED, 0)
    assert (court.job.claims, court.job.defeated, court.job.forfeits) == (0, 2, 2)
    burned_wei = referee.store.burned_wei
    court.settle(0)
    assert referee.job(court.job_id).status is Status.EMPTY
    assert referee.store.burned_wei - burned_wei == 2 * court.terms.bond_wei
    for member in court.members:
        assert court.referee.refused("collect", member, court.job_id) == Reason.NOTHING_OWED
    referee.call("collect", court.client, court.job_id)


def test_v3_second_to_enter_shows_the_same_operator(referee: Twin) -> None:
    """Another operator of the same type and shape, whose output has the same root, is refused."""
    others = (
        Node(Kind.MAP, Function.COPY, F32, (100,), (immediate(F32, TWO),)),
        Node(Kind.MAP, Function.NEG, F32, (100,), (immediate(F32, ONE),)),
        Node(Kind.MOVE, Function.COPY, F32, (100,), (immediate(F32, ONE),)),
    )
    task = make_task(WIDE)
    court = Court(referee, task, make_runs(task, WIDE, (ONE, TWO)))
    pair = court.begin()
    court.play_to(pair, Phase.TENSOR, entered=1)
    second = court.find(pair)
    assert second.name == "enter_tensor"
    for other in others:
        args = swap(second.args, 3, encode_node(other))
        assert court.refuse(second, args=args) == Reason.BAD_PROOF
    assert court.finish(pair) == (court.members[0], Ending.SCALAR)


@pytest.mark.parametrize(
    ("count", "one", "other", "siblings"),
    every(
        6,
        [
            (2, 0, 1, 0),
            (10, 8, 9, 0),
            (10, 2, 0, 1),
            (10, 0, 9, 1),
            (10, 9, 0, 3),
            (10, 5, 3, 2),
            (10, 4, 8, 1),
            (7, 6, 0, 2),
            (7, 1, 6, 1),
        ],
    ),
)
@pytest.mark.parametrize("origin", [Origin.NODE, Origin.STATE])
def test_h2_sum_of_two_operands_whose_proofs_meet(
    referee: Twin, count: int, one: int, other: int, siblings: int, origin: Origin
) -> None:
    """The second proof has so many siblings up to the first; the sum is that of the two shown."""
    trees, node = Trees(count), read((origin, one), (origin, other))
    shown = trees.show(origin, one) + b"".join(trees.prove(origin, one))
    shown += trees.show(origin, other) + b"".join(trees.prove(origin, other)[:siblings])
    shift = {Origin.NODE: 0, Origin.STATE: 100}[origin]
    # 1 + n * 2^-23, twice: the sum is even, or is rounded to an even number of its halves.
    places = one + other + 2 * shift
    halves = places // 2 + (places % 2 and places // 2 % 2)
    assert compute(referee, trees.context, node, shown) == TWO + halves
    bent = shown[:5] + bytes([shown[5] ^ 1]) + shown[6:]
    assert compute(referee, trees.context, node, bent) == Reason.BAD_OPERAND


@pytest.mark.parametrize(
    ("x", "y", "tie", "above", "below"),
    [
        (0x3F800800, 0x3F800800, 0x3F801000, 0x3F801001, 0x3F801000),
        (0x3F800800, 0x3F801800, 0x3F802002, 0x3F802002, 0x3F802001),
    ],
)
def test_v1_smallest_addend_breaks_a_tie(
    referee: Twin, x: int, y: int, tie: int, above: int, below: int
) -> None:
    """(1 + 2^-12)(1 + 2^-12) and (1 + 2^-12)(1 + 3 * 2^-12) lie half-way between two numbers.

    Whatever is added decides, be it the least number that there is, 2^-149.
    """
    for addend, right in (
        (0, tie),
        *((bits, above) for bits in (1, 2, 0x007FFFFF, 0x00800000, 0x0D800000, 0x30000000)),
        *((1 << 31 | bits, below) for bits in (1, 2, 0x007FFFFF, 0x00800000, 0x0D800000)),
    ):
        operands = (immediate(F32, addend), immediate(F32, x), immediate(F32, y))
        node = Node(Kind.CONTRACT, Function.FMA, F32, (1,), operands, (1,))
        assert compute(referee, Trees(2).context, node, b"") == right
    tied = (immediate(F32, 1), immediate(F32, x), immediate(F32, y))
    node = Node(Kind.CONTRACT, Function.FMA, F32, (1,), tied, (1,))
    assert decide(referee, node, (above, tie if tie != above else below)) == (0, Ending.SCALAR)
