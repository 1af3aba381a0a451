"""Attacks on and with the client's promise that what a job commits to can be had (family A)."""

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from moot.contracts.compiler import compile_contract
from moot.contracts.model.abi import pack_args
from moot.contracts.model.answers import ANSWERS_A_BLOCK, MIN_DEPOSIT_WEI, make_subject
from moot.contracts.model.types import NOBODY, ZERO
from moot.contracts.reasons import DemandStatus, Part, PromiseStatus, Reason, Status
from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import TensorTree, encode_header, hash_chunk, hash_tensor
from moot.offchain.commitments.tree import Tree, hash_root
from moot.offchain.disputes.availability.demands import (
    Answerer,
    TensorProof,
    explain_weakness,
    find_answer,
    list_demand,
)
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.programs.limits import MAX_RANK
from tests.attacks.puppet import SOURCE, Payday
from tests.lockstep.story import commit
from tests.quick import only
from tests.referee.promises import (
    ANSWER_BLOCKS,
    BOND_WEI,
    DEPOSIT_WEI,
    LAST_BLOCK,
    PLACES,
    STATE,
    TASK,
    Promises,
    prove,
)
from tests.referee.stage import CLIENT, PROVIDERS

CHUNK, RAGGED, EMPTY = (Part.START, 0, 0), (Part.START, 0, 1), (Part.START, 1, 0)
OPERATOR, ZEROS = (Part.PROGRAM, 1, 0), (Part.DATA, 1, 0)
ASKER, OTHER, STRANGER = PROVIDERS[:3]


@pytest.fixture
def both() -> Promises:
    """A job whose client has promised."""
    found = Promises()
    assert found.promise() is None
    return found


@pytest.mark.parametrize("place", [OPERATOR, CHUNK, ZEROS])
def test_a1_part_that_is_withheld_costs_the_bond(both: Promises, place: tuple[int, ...]) -> None:
    """Who asked has its deposit back and half the bond; the other half is burned."""
    before = both.balances[ASKER]
    assert both.demand(ASKER, place) is None
    both.block += ANSWER_BLOCKS + 1
    assert both.show(CLIENT, place) == Reason.PROMISE_PAST
    assert both.call("break_promise", STRANGER, both.subject, *place) is None
    assert both.call("break_promise", STRANGER, both.subject, *place) == Reason.PROMISE_ENDED
    assert both.call("reclaim", STRANGER, both.subject, *place) == Reason.NO_SUCH_DEMAND
    assert both.call("reclaim", ASKER, both.subject, *place) is None
    assert both.call("reclaim", ASKER, both.subject, *place) == Reason.NO_SUCH_DEMAND
    assert both.balances[ASKER] - before == BOND_WEI // 2
    assert both.vault.burned_wei == BOND_WEI - BOND_WEI // 2
    both.block = LAST_BLOCK + 1
    assert both.call("withdraw", CLIENT, both.subject) == Reason.PROMISE_ENDED


@pytest.mark.parametrize("place", [OPERATOR, CHUNK, RAGGED, EMPTY, ZEROS])
def test_a1_part_that_is_shown_in_the_last_block_keeps_it(
    both: Promises, place: tuple[int, ...]
) -> None:
    """Whoever shows it is paid; the promise is not broken, and the bond goes back at its end."""
    before = both.balances[STRANGER]
    assert both.demand(ASKER, place) is None
    both.block += ANSWER_BLOCKS
    assert both.call("break_promise", ASKER, both.subject, *place) == Reason.PROMISE_DUE
    assert both.call("reclaim", ASKER, both.subject, *place) == Reason.PROMISE_DUE
    assert both.show(STRANGER, place) is None
    assert both.balances[STRANGER] - before == DEPOSIT_WEI
    both.block = LAST_BLOCK
    assert both.call("withdraw", CLIENT, both.subject) == Reason.PROMISE_DUE
    both.block += 1
    assert both.call("withdraw", STRANGER, both.subject) == Reason.NOT_CLIENT
    assert both.call("withdraw", CLIENT, both.subject) is None
    assert both.call("withdraw", CLIENT, both.subject) == Reason.PROMISE_ENDED
    assert both.demand(ASKER, (Part.START, 2, 0)) == Reason.PROMISE_ENDED


def test_a1_demands_beside_the_one_that_broke_a_promise_get_their_deposits_back(
    both: Promises,
) -> None:
    """Half the bond is paid once, and nobody's deposit is lost with the promise."""
    for asker, place in ((ASKER, CHUNK), (OTHER, OPERATOR), (STRANGER, ZEROS)):
        both.demand(asker, place)
    both.show(CLIENT, ZEROS)
    both.block += ANSWER_BLOCKS + 1
    both.call("break_promise", ASKER, both.subject, *CHUNK)
    assert both.show(CLIENT, OPERATOR) == Reason.PROMISE_ENDED
    assert both.call("reclaim", STRANGER, both.subject, *ZEROS) == Reason.NO_SUCH_DEMAND
    before = both.balances[OTHER]
    assert both.call("reclaim", OTHER, both.subject, *OPERATOR) is None
    assert both.balances[OTHER] - before == DEPOSIT_WEI
    assert both.call("reclaim", ASKER, both.subject, *CHUNK) is None
    assert both.vault.balance_wei == 0


@pytest.mark.parametrize(("steps", "others"), only({(20, 25)}, [(20, 25), (40, 80)]))
def test_a2_crowd_of_demands_leaves_time_for_every_answer(steps: int, others: int) -> None:
    """However many come at once, so many answers a block are enough, in their order."""
    task = replace(TASK, steps=steps)
    both = Promises(task)
    both.promise()
    places = [(Part.DATA, index, 0) for index in range(2 * task.steps)]
    later = ((2, 2 * (i // 2), 1 + i % 2) for i in range(others))
    crowd = dict.fromkeys((*places, *PLACES[:8], *later))
    for place in crowd:
        assert both.demand(ASKER, place) is None
    client, last = Answerer(CLIENT, task), 0
    both.block += ANSWER_BLOCKS - 1
    while calls := [*client.act(both.view())]:
        assert len(calls) <= ANSWERS_A_BLOCK
        for call in calls:
            assert both.make(call) is None
        last, both.block = both.block, both.block + 1
    assert last == 2 + ANSWER_BLOCKS - 1 + (len(crowd) - 1) // ANSWERS_A_BLOCK
    assert both.view().promise.status is PromiseStatus.KEPT


def test_a2_demand_costs_a_deposit_and_is_made_once(both: Promises) -> None:
    """Nobody asks for less, twice, after the end, or for what a job does not have."""
    place = (both.subject, *list_demand(CHUNK, None))
    for value_wei in (0, DEPOSIT_WEI - 1, DEPOSIT_WEI + 1):
        assert both.call("demand", ASKER, *place, value_wei=value_wei) == Reason.WRONG_DEPOSIT
    absent = [(0, 4, 0), (1, 3, 0), (2, 6, 0), (3, 0, 0), (1, 3, 1)]
    assert {both.demand(ASKER, each) for each in absent} == {Reason.NO_SUCH_PART}
    assert both.demand(ASKER, CHUNK) is None
    assert both.demand(OTHER, CHUNK) == Reason.DEMANDED
    both.show(CLIENT, CHUNK)
    assert both.demand(OTHER, CHUNK) == Reason.DEMANDED
    both.block = LAST_BLOCK
    assert both.demand(OTHER, RAGGED) is None
    both.block = LAST_BLOCK + 1
    assert both.demand(OTHER, OPERATOR) == Reason.PROMISE_PAST


def test_a2_a_job_waits_for_no_demand(both: Promises) -> None:
    """Members claim, and the job is settled and paid, with demands open and the promise broken."""
    twins, terms = both.twins, both.terms
    top, member = b"\7" * 32, PROVIDERS[4]
    assert both.demand(ASKER, CHUNK) is None
    assert both.demand(OTHER, OPERATOR) is None
    assert commit(twins, member, top) is None
    both.block += ANSWER_BLOCKS + 1
    job = twins.store.jobs[0]
    assert both.call("break_promise", ASKER, both.subject, *CHUNK) is None
    assert twins.store.jobs[0] == job
    twins.block += terms.commit_blocks + 1
    assert twins.call("reveal", member, 0, top, ZERO) is None
    twins.block = twins.store.jobs[0].window_end + 1
    assert twins.call("settle", ASKER, 0, top) is None
    assert twins.store.jobs[0].status is Status.WON
    assert twins.call("collect", member, 0) is None


def test_a3_client_that_demands_of_itself_does_not_free_its_bond(both: Promises) -> None:
    """A demand that it leaves open keeps the bond in; anybody may break the promise by it."""
    before = both.balances[CLIENT]
    assert both.demand(CLIENT, CHUNK) is None
    both.block = LAST_BLOCK + 1
    assert both.call("withdraw", CLIENT, both.subject) == Reason.STILL_DEMANDED
    assert both.show(CLIENT, CHUNK) == Reason.PROMISE_PAST
    assert both.call("break_promise", STRANGER, both.subject, *CHUNK) is None
    assert both.call("reclaim", CLIENT, both.subject, *CHUNK) is None
    assert both.balances[CLIENT] - before == BOND_WEI // 2
    assert both.vault.burned_wei == BOND_WEI - BOND_WEI // 2


def test_a4_nothing_but_what_was_demanded_is_an_answer(both: Promises) -> None:
    """Other chunks, cut and lengthened ones, other tensors, headers and proofs are none."""
    for place in (CHUNK, RAGGED, EMPTY, OPERATOR):
        both.demand(ASKER, place)
    tensor = TensorTree(STATE[0])
    ragged, siblings = tensor.chunk(1), find_answer(TASK, CHUNK).args[5]
    wrong = [
        both.show(CLIENT, CHUNK, at_4=tensor.chunk(0)[:-1]),
        both.show(CLIENT, CHUNK, at_4=ragged),
        both.show(CLIENT, CHUNK, at_3=encode_header(1, (35, 2))),
        both.show(CLIENT, CHUNK, at_3=b"\1"),
        both.show(CLIENT, CHUNK, at_3=encode_header(6, (70,))),
        both.show(CLIENT, CHUNK, at_5=()),
        both.show(CLIENT, CHUNK, at_5=(*siblings, ZERO)),
        both.show(CLIENT, CHUNK, at_6=()),
        both.show(CLIENT, RAGGED, at_4=ragged + bytes(256 - len(ragged))),
        both.show(CLIENT, EMPTY, at_4=ZERO),
        both.show(CLIENT, EMPTY, at_3=tensor.header),
        both.show(CLIENT, EMPTY, at_5=(ZERO,)),
        both.show(CLIENT, OPERATOR, at_1=TASK.commitment.encodings[0]),
        both.show(CLIENT, OPERATOR, at_2=()),
    ]
    assert set(wrong) == {Reason.NOT_SHOWN}
    for place in (CHUNK, RAGGED, EMPTY, OPERATOR):
        assert both.show(CLIENT, place) is None


def test_a4_tensor_of_the_data_does_not_pass_for_an_operator() -> None:
    """Not even where there are as many operators as tensors, so that a proof fits both."""
    both = Promises(replace(TASK, steps=2))
    both.promise()
    assert both.subject.count(Part.PROGRAM) == both.subject.count(Part.DATA)
    both.demand(ASKER, OPERATOR)
    both.demand(ASKER, ZEROS)
    assert both.show(CLIENT, ZEROS, at_0=Part.PROGRAM) == Reason.NOT_SHOWN
    assert both.show(CLIENT, ZEROS) is None
    assert both.show(CLIENT, OPERATOR) is None


def test_a4_tensor_whose_leaf_is_no_whole_chunk_cannot_be_shown() -> None:
    """Who commits to chunks of other lengths than the header says, or to no chunks, has lost."""
    header, short = encode_header(1, (64,)), b"\1" * 255
    leaf = hash_chunk(short)
    empty = encode_header(1, (0,))
    roots = [hash_tensor(header, leaf), hash_tensor(empty, leaf), TensorTree(STATE[2]).root]
    tree = Tree(Tag.STATE_NODE, roots)
    both = Promises()
    terms = replace(both.terms, start_root=hash_root(Tag.STATE_ROOT, 3, tree.top))
    both.twins.call("open_job", CLIENT, terms, value_wei=0)
    both.subject = make_subject(terms, both.twins.store.address, 1)
    assert both.promise() is None
    for index in range(3):
        assert both.demand(ASKER, (Part.START, index, 0)) is None
    own = (both.subject, Part.START)
    shown = (header, short, (), tuple(tree.proof(0)))
    assert both.call("show_chunk", CLIENT, *own, 0, 0, *shown) == Reason.NOT_SHOWN
    for content in (b"", short):
        shown = (empty, content, (), tuple(tree.proof(1)))
        assert both.call("show_chunk", CLIENT, *own, 1, 0, *shown) == Reason.NOT_SHOWN
    element = TensorTree(STATE[2])
    shown = (element.header, element.chunk(0), (), tuple(tree.proof(2)))
    assert both.call("show_chunk", CLIENT, *own, 2, 0, *shown) is None


def test_a4_header_of_a_tensor_has_one_form() -> None:
    """Each rank and element type that there is, and no other rank, type or length, is a header's.

    The header counts the chunks: the last of them is demanded, and none behind it.
    """
    sound = {
        encode_header(dtype, shape): -(-prod(shape) * dtype.width // 256)
        for rank in (0, 1, 2, MAX_RANK)
        for dtype in DType
        for shape in [(*[1] * (rank - 1), 257)[:rank]]
    }
    sound[encode_header(DType.BOOL, ((1 << 63) - 1,))] = 1 << 55
    long = encode_header(1, (65,))
    spoilt = [
        b"",
        b"\1",
        long[:-1],
        long + b"\0",
        b"\0" + long[1:],
        bytes([len(DType) + 1]) + long[1:],
    ]
    spoilt += [bytes([1, MAX_RANK + 1]) + long[2:] * (MAX_RANK + 1), bytes([1, 0]) + long[2:]]
    spoilt += [encode_header(1, (1 << 61,)), encode_header(1, (1 << 62, 1 << 62))]
    headers = [*sound, *spoilt]
    tops = [bytes([number]) * 32 for number in range(1, len(headers) + 1)]
    roots = [hash_tensor(it, top) for it, top in zip(headers, tops, strict=True)]
    tree, both = Tree(Tag.STATE_NODE, roots), Promises()
    start = hash_root(Tag.STATE_ROOT, len(roots), tree.top)
    slots = {"state_slots": len(roots), "operators": len(roots)}
    terms = replace(both.terms, start_root=start, **slots)
    assert both.twins.call("open_job", CLIENT, terms, value_wei=0) is None
    both.subject = make_subject(terms, both.twins.store.address, 1)
    assert both.promise() is None
    for index, header in enumerate(headers):
        proof, count = TensorProof(header, tops[index], tuple(tree.proof(index))), sound.get(header)
        for chunk in {max(1, (count or 1) - 1), count or 2}:
            place = (Part.START.value, index, chunk)
            reason = both.demand(ASKER, place, proof)
            if len(header) > 2 + 8 * MAX_RANK:
                assert reason == Reason.NO_REASON
            elif count is None:
                assert reason == Reason.NOT_SHOWN
            else:
                assert reason == (None if chunk < count else Reason.NO_SUCH_PART)


def test_a5_promise_is_about_all_that_the_job_says() -> None:
    """No number and no root of another job is promised, but for the job's own."""
    both = Promises()
    usual, own = (DEPOSIT_WEI, ANSWER_BLOCKS, LAST_BLOCK), both.subject
    numbers = ("operators", "state_slots", "batch_slots", "steps")
    others = [replace(own, **{name: getattr(own, name) + 1}) for name in numbers]
    others += [replace(own, **{it: ZERO}) for it in ("program_top", "start_root", "data_top")]
    for other in others:
        promise = both.call("promise", CLIENT, other, *usual, value_wei=BOND_WEI)
        assert promise == Reason.NOT_OF_JOB
    assert both.promise() is None


def test_a5_calls_about_a_job_that_a_reorganisation_has_replaced_are_refused(
    both: Promises,
) -> None:
    """Each call names what it is about: another job under that number is another promise."""
    assert both.demand(ASKER, CHUNK) is None
    other = replace(both.subject, start_root=b"\1" * 32)
    args, wei = (other, *list_demand(OPERATOR, None)), DEPOSIT_WEI
    assert both.call("demand", ASKER, *args, value_wei=wei) == Reason.NO_SUCH_PROMISE
    move = find_answer(TASK, CHUNK)
    assert both.call(move.call, CLIENT, other, *move.args) == Reason.NO_SUCH_PROMISE
    for name in ("break_promise", "reclaim"):
        assert both.call(name, ASKER, other, *CHUNK) == Reason.NO_SUCH_PROMISE
    assert both.call("withdraw", CLIENT, other) == Reason.NO_SUCH_PROMISE
    terms = (DEPOSIT_WEI, ANSWER_BLOCKS, LAST_BLOCK)
    promise = both.call("promise", CLIENT, other, *terms, value_wei=BOND_WEI)
    assert promise == Reason.NOT_OF_JOB
    assert both.show(CLIENT, CHUNK) is None


def test_a6_copied_answer_keeps_the_promise_and_copied_demand_gets_the_answer(
    both: Promises,
) -> None:
    """Who is copied pays for a refused call, and no more: what was asked for is on the chain."""
    assert both.demand(STRANGER, CHUNK) is None
    assert both.demand(ASKER, CHUNK) == Reason.DEMANDED
    assert both.show(STRANGER, CHUNK) is None
    assert both.show(CLIENT, CHUNK) == Reason.NO_SUCH_DEMAND
    both.block = LAST_BLOCK + 1
    assert both.call("withdraw", CLIENT, both.subject) is None


def test_a7_receiver_that_calls_again_is_paid_once(both: Promises, tmp_path: Path) -> None:
    """A contract that answers, and shows the same again while it is paid, gets one deposit."""
    both.demand(ASKER, CHUNK)
    both.demand(ASKER, OPERATOR)
    (tmp_path / "puppet.vy").write_text(SOURCE)
    artifact = compile_contract("puppet", tmp_path)
    puppet = both.machine.deploy(artifact, both.contract.address)
    move = find_answer(TASK, CHUNK)
    data = both.contract.codec.encode_call(move.call, pack_args((both.subject, *move.args)))
    place = {"sender": NOBODY, "value_wei": 0, "block": both.block}

    def tell(name: str, *args: object) -> str | None:
        return both.machine.call(puppet.raw, puppet.codec.encode_call(name, args), **place).reason

    for payday, paid_wei in ((Payday.REFUSE, 0), (Payday.CALL, DEPOSIT_WEI)):
        assert tell("arm", payday, [data]) is None
        reason = tell("play", [both.contract.address], [data])
        assert (reason is None) == (paid_wei != 0)
        assert both.machine.balance(puppet.address) == paid_wei
    result = both.machine.call(puppet.raw, puppet.codec.encode_call("successes", ()), **place)
    assert int.from_bytes(result.output, "big") == 0
    where = (both.subject, *CHUNK)
    demand = both.read_demand(where)
    assert demand is not None
    assert demand.status is DemandStatus.SHOWN


def test_a8_nobody_but_the_client_promises_and_nothing_absurd() -> None:
    """A stranger takes no client's place; a bond pays the prize, and a deposit the answer."""
    both = Promises()
    usual = (DEPOSIT_WEI, ANSWER_BLOCKS, LAST_BLOCK)
    assert both.demand(ASKER, CHUNK) == Reason.NO_SUCH_PROMISE

    def promise(sender: str, *terms: int, bond_wei: int = BOND_WEI) -> str | None:
        return both.call("promise", sender, both.subject, *terms, value_wei=bond_wei)

    assert promise(STRANGER, *usual) == Reason.NOT_CLIENT
    absent = replace(both.subject, job_id=7)
    assert both.call("promise", CLIENT, absent, *usual) == Reason.NOT_CLIENT
    stranger = replace(both.subject, referee=STRANGER)
    assert both.call("promise", CLIENT, stranger, *usual) == Reason.NO_REASON
    absurd = [
        promise(CLIENT, MIN_DEPOSIT_WEI - 1, ANSWER_BLOCKS, LAST_BLOCK),
        promise(CLIENT, *usual, bond_wei=2 * DEPOSIT_WEI - 1),
        promise(CLIENT, *usual, bond_wei=1 << 80),
        promise(CLIENT, DEPOSIT_WEI, 0, LAST_BLOCK),
        promise(CLIENT, DEPOSIT_WEI, (1 << 20) + 1, LAST_BLOCK),
        promise(CLIENT, DEPOSIT_WEI, ANSWER_BLOCKS, both.block - 1),
        promise(CLIENT, DEPOSIT_WEI, ANSWER_BLOCKS, both.block + (1 << 22) + 1),
    ]
    assert set(absurd) == {Reason.ABSURD_PROMISE}
    assert promise(CLIENT, *usual, bond_wei=2 * DEPOSIT_WEI) is None
    assert promise(CLIENT, *usual) == Reason.PROMISED


@pytest.mark.parametrize(("blocks", "last"), [(1, 0), (1 << 20, 1 << 22)])
def test_a8_promise_at_its_limits_is_sound(blocks: int, last: int) -> None:
    """The shortest and the longest time to answer and to promise, and the highest bond."""
    both, most_wei = Promises(), (1 << 80) - 1
    terms = (most_wei // 2, blocks, both.block + last)
    assert both.call("promise", CLIENT, both.subject, *terms, value_wei=most_wei) is None


def test_a8_provider_relies_on_no_weak_promise(both: Promises) -> None:
    """A provider is told what is weak: the bond, the time to answer, the end, a broken promise."""
    terms, promise = make_terms(TASK), both.view().promise
    end = 1 + terms.commit_blocks + terms.reveal_blocks + terms.window_blocks
    sound = replace(promise, last_block=end)
    assert explain_weakness(sound, terms, 1, BOND_WEI) == ""
    for changes, word in (
        ({"last_block": end - 1}, "ends at block"),
        ({"answer_blocks": terms.commit_blocks}, "longer than"),
        ({"bond_wei": BOND_WEI - 1}, "below"),
        ({"status": PromiseStatus.BROKEN}, "is broken"),
    ):
        assert word in explain_weakness(replace(sound, **changes), terms, 1, BOND_WEI)


BEHIND = (0, 1, 7, (1 << 55) - 1, 1 << 55, (1 << 56) - 1, 1 << 248)
"""Chunks beyond the end of a tensor, by their distance from its last one."""


@pytest.mark.parametrize("part", [Part.START, Part.DATA])
def test_a11_chunk_that_does_not_exist_is_not_demanded(both: Promises, part: Part) -> None:
    """Each chunk of a tensor can be demanded, and none behind them, whatever its number is.

    The first chunk of each tensor is one, that of a tensor without elements, too: it is empty.
    """
    arrays = STATE if part is Part.START else TASK.batch(0)
    for index, array in enumerate(arrays):
        count = max(-(-array.nbytes // 256), 1)
        for chunk in (count + it for it in BEHIND):
            assert both.demand(ASKER, (part.value, index, chunk)) == Reason.NO_SUCH_PART
        for chunk in range(count):
            assert both.demand(ASKER, (part.value, index, chunk)) is None
            assert both.show(STRANGER, (part.value, index, chunk)) is None
    assert len(both.vault.demands) == sum(max(-(-it.nbytes // 256), 1) for it in arrays)


def test_a11_nothing_but_the_tensors_own_root_shows_that_it_has_a_chunk(both: Promises) -> None:
    """Longer headers, other tops, other tensors and cut or lengthened proofs are refused."""
    last, beyond, own = (2, 0, 2), (2, 0, 3), prove(TASK, (2, 0, 2))
    assert own is not None
    longer, other = encode_header(DType.BOOL, (6_000,)), prove(TASK, (2, 1, 0))
    assert other is not None
    false = [
        replace(own, header=longer),
        replace(own, header=b""),
        replace(own, top=ZERO),
        replace(own, proof=()),
        replace(own, proof=own.proof[:-1]),
        replace(own, proof=(*own.proof, ZERO)),
        replace(own, proof=other.proof),
        replace(other, header=longer),
        TensorProof(b"", ZERO, ()),
    ]
    for place in (last, beyond):
        assert {both.demand(ASKER, place, it) for it in false} == {Reason.NOT_SHOWN}
    assert not both.vault.demands
    for place in ((2, 0, 0), OPERATOR):
        assert both.demand(ASKER, place, false[0]) is None
    assert both.demand(ASKER, last, own) is None


def test_a11_operator_has_no_chunk_but_itself() -> None:
    """Not even where there are as many operators as tensors, so that a proof fits both."""
    both = Promises(replace(TASK, steps=2))
    both.promise()
    proof = prove(both.task, (Part.DATA.value, 0, 1))
    assert both.demand(ASKER, (Part.PROGRAM.value, 0, 1), proof) == Reason.NOT_SHOWN
    assert both.demand(ASKER, (Part.DATA.value, 0, 1), proof) is None
