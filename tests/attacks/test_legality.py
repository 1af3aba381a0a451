"""Jobs whose program is not legal: anybody can prove that, and nobody can of a legal one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from eth_abi import encode

from moot.contracts.compiler import Artifact, compile_contract
from moot.contracts.model.abi import pack_args, unpack_job
from moot.contracts.model.types import ZERO
from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Phase, Reason, Status
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.evidence.illegality import find_proof
from moot.offchain.errors import ProgramError, Reverted
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Slot
from moot.offchain.programs.legality import check_program
from moot.offchain.providers.task import Task
from tests.attacks.court import HONEST, LIE, REWARD_WEI, SALT, Court, open_court
from tests.attacks.elements import make_runs, make_task
from tests.attacks.puppet import Puppet
from tests.attacks.test_closed_jobs import watch
from tests.attacks.twin import Twin
from tests.quick import every
from tests.referee.illegal import (
    LEGAL,
    LONG,
    LONGEST,
    OPERANDS,
    OPERATORS,
    STARTS,
    STEPS,
    TWO_TERMS,
    Shown,
    list_proofs,
    make_job,
    wrap_round,
)
from tests.referee.programs import every_kind

F32 = DType.FLOAT32


def open_job(referee: Twin, shown: Shown) -> int:
    """Open the job of a program, and return its number."""
    terms = shown.get_terms(open_court(referee, HONEST).terms)
    job_id = len(referee.store.jobs)
    referee.call("open_job", referee.accounts[0], terms, value_wei=REWARD_WEI)
    return job_id


@dataclass
class Members:
    """Three accounts at every stage of a job: hidden, revealed, and late."""

    referee: Twin
    job_id: int
    tops: list[Digest] = field(default_factory=lambda: [b"\1" * 32, b"\2" * 32])

    def join(self) -> None:
        """Let them come to their stages."""
        referee, job = self.referee, self.referee.store.jobs[self.job_id]
        hidden, shown, late = referee.accounts[1:4]
        bond_wei = job.terms.bond_wei
        for account in (hidden, shown):
            digest = referee.commitment(self.job_id, account, self.tops[0], SALT)
            args = (self.job_id, digest, hash_job(job))
            referee.call("commit", account, *args, value_wei=bond_wei)
        referee.mine_to(job.commit_deadline + 1)
        referee.call("reveal", shown, self.job_id, self.tops[0], SALT)
        referee.mine_to(job.reveal_deadline + 1)
        args = (self.job_id, self.tops[1], hash_job(job))
        referee.call("join", late, *args, value_wei=bond_wei)


def collect_all(referee: Twin, job_id: int, accounts: Sequence[str]) -> None:
    """Let everybody collect what it has brought, once."""
    job = referee.store.jobs[job_id]
    assert job.status is Status.VOID
    for account in accounts:
        assert referee.debt(job_id, account) == job.terms.bond_wei
        referee.call("collect", account, job_id)
        assert referee.refused("collect", account, job_id) == Reason.NOTHING_OWED
    referee.call("collect", job.client, job_id)
    assert referee.refused("collect", job.client, job_id) == Reason.NOTHING_OWED


def assert_illegal(program: Program) -> None:
    """Check that the rule off the chain refuses a program, too."""
    with pytest.raises(ProgramError):
        check_program(program)


@pytest.mark.parametrize("name", every(8, OPERATORS))
def test_g2_operator_that_is_not_legal_voids_the_job(referee: Twin, name: str) -> None:
    """Anybody proves it, at any time; everybody gets back what it has brought, the hidden too."""
    program, index = OPERATORS[name]
    assert_illegal(program)
    job, burned_wei = make_job(program), referee.store.burned_wei
    job_id = open_job(referee, job)
    Members(referee, job_id).join()
    stranger, args = referee.accounts[8], job.show_operator(job_id, index)
    for other in range(4):
        if other != index:
            refused = referee.refused("prove_operator", stranger, *job.show_operator(job_id, other))
            assert refused == Reason.LEGAL
    wrong = [(*args[:2], args[2] + b"\0", args[3]), (*args[:3], args[3][1:]), (*args[:3], ())]
    wrong += [(job_id, n, *args[2:]) for n in (0, 4, 2**32, 2**256 - 1) if n != index]
    wrong += [(job_id + 1, *args[1:]), (0, *args[1:])]
    for bent in wrong:
        assert referee.refused("prove_operator", stranger, *bent) == Reason.UNPROVEN
    referee.call("prove_operator", stranger, *args)
    assert referee.refused("prove_operator", stranger, *args) == Reason.CLOSED
    collect_all(referee, job_id, referee.accounts[1:4])
    assert referee.store.burned_wei == burned_wei


def test_g2_operator_that_is_too_long_voids_the_job(referee: Twin) -> None:
    """One above the greatest length can't be entered, and is shown here as long as calls can be."""
    for size in (2_049, 20_000):
        job = make_job(LEGAL)
        long = replace(job, encodings=(*job.encodings[:2], b"\4" * size, job.encodings[3]))
        job_id = open_job(referee, long)
        refused = referee.refused(
            "prove_operand", referee.accounts[8], *long.show_operand(job_id, 2, 0)
        )
        assert refused == Reason.NO_REASON
        referee.call("prove_operator", referee.accounts[8], *long.show_operator(job_id, 2))
        collect_all(referee, job_id, ())


@pytest.mark.parametrize("name", every(16, OPERANDS))
def test_g2_operand_that_nobody_can_show_voids_the_job(referee: Twin, name: str) -> None:
    """What reads another type or size, or what there is not, is shown beside what it reads."""
    program, index, place = OPERANDS[name]
    assert_illegal(program)
    job = make_job(program)
    job_id = open_job(referee, job)
    stranger, args = referee.accounts[8], job.show_operand(job_id, index, place)
    assert referee.refused("prove_operator", stranger, *args[:4]) == Reason.LEGAL
    nodes = program.nodes
    for other, node in enumerate(nodes):
        for n in range(len(node.operands)):
            if (other, n) != (index, place):
                shown = job.show_operand(job_id, other, n)
                assert referee.refused("prove_operand", stranger, *shown) == Reason.LEGAL
    if args[7]:
        for bent in (args[7][:-1], args[7] + b"\0", b"\0" * 40, args[7][:1]):
            shown = (*args[:7], bent, args[8])
            assert referee.refused("prove_operand", stranger, *shown) == Reason.UNPROVEN
        for proof in ((), (*args[8], ZERO), args[8][::-1]):
            if proof != args[8]:
                shown = (*args[:8], proof)
                assert referee.refused("prove_operand", stranger, *shown) == Reason.UNPROVEN
    referee.call("prove_operand", stranger, *args)
    collect_all(referee, job_id, ())


def test_g2_start_of_another_shape_voids_the_job(referee: Twin) -> None:
    """The state before the first step has the sinks' types and sizes, or the job is void.

    So it is under a root of a good header and another form, as nobody could show its elements.
    """
    for tensor in STARTS:
        job = replace(make_job(LEGAL), start=[tensor])
        job_id = open_job(referee, job)
        stranger, args = referee.accounts[8], job.show_operand(job_id, 0, 0, is_start=True)
        fine = job.show_operand(job_id, 0, 0)
        assert referee.refused("prove_operand", stranger, *fine) == Reason.LEGAL
        bent = (*args[:8], (ZERO,))
        assert referee.refused("prove_operand", stranger, *bent) == Reason.UNPROVEN
        referee.call("prove_operand", stranger, *args)
        collect_all(referee, job_id, ())


def test_g2_start_of_another_job_proves_nothing(referee: Twin) -> None:
    """What is shown as the start has the job's own root, or it shows nothing of the job."""
    legal = make_job(LEGAL)
    job_id = open_job(referee, legal)
    for tensor in STARTS:
        args = replace(legal, start=[tensor]).show_operand(job_id, 0, 0, is_start=True)
        refused = referee.refused("prove_operand", referee.accounts[8], *args)
        assert refused == Reason.UNPROVEN


def test_g2_data_of_any_step_can_be_shown_and_no_others(referee: Twin) -> None:
    """The data of the first and of the last step are proven in their places, those of none not."""
    program, index, place = OPERANDS["data of rank 9"]
    job = make_job(program)
    job_id = open_job(referee, job)
    stranger = referee.accounts[8]
    last = job.show_operand(job_id, index, place, step=STEPS - 1)
    for step in (0, 1, STEPS, 2**32, 2**256 - 1):
        bent = (*last[:5], step, *last[6:])
        assert referee.refused("prove_operand", stranger, *bent) == Reason.UNPROVEN
    for step in (0, STEPS - 1):
        with referee.branch():
            shown = job.show_operand(job_id, index, place, step=step)
            referee.call("prove_operand", stranger, *shown)


@pytest.mark.parametrize(
    "program",
    every(12, [every_kind(), LEGAL, LONGEST, TWO_TERMS]),
    ids=["every kind", "small", "of the longest operator", "of two terms in a row"],
)
def test_g3_legal_program_is_never_void(referee: Twin, program: Program) -> None:
    """No operator, no operand, no slot and no datum of a legal program proves anything."""
    check_program(program)
    job = make_job(program)
    job_id = open_job(referee, job)
    for name, args in list_proofs(job, job_id):
        assert referee.refused(name, referee.accounts[8], *args) == Reason.LEGAL


def test_g3_step_that_wraps_round_shows_nothing(referee: Twin) -> None:
    """No step is so large that the datum of another slot is taken for the operand's."""
    shown, args = wrap_round()
    check_program(shown.program)
    job_id = open_job(referee, shown)
    refused = referee.refused("prove_operand", referee.accounts[8], job_id, *args[1:])
    assert refused == Reason.UNPROVEN


@pytest.mark.parametrize("gas_step", [pytest.param(1_500, marks=pytest.mark.slow), 6_000])
def test_g3_decoder_without_enough_gas_is_no_proof(
    referee: Twin, tmp_path: Path, gas_step: int
) -> None:
    """With whatever gas: a legal operator voids nothing, and another one is seen or is not."""
    puppet = Puppet(referee, tmp_path)
    legal, other = make_job(every_kind()), make_job(OPERATORS["an operand too few"][0])
    jobs = open_job(referee, legal), open_job(referee, other)
    longest = max(range(len(legal.encodings)), key=lambda n: len(legal.encodings[n]))
    shown = legal.show_operator(jobs[0], longest)
    seen = []
    for gas in (*range(20_000, 140_000, gas_step), 400_000, 3_000_000):
        assert not puppet.squeeze(gas, "prove_operator", *shown)
        with referee.branch():
            seen.append(puppet.squeeze(gas, "prove_operator", *other.show_operator(jobs[1], 2)))
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


REFUSAL = bytes.fromhex("08c379a0") + encode(["string"], [str(Reason.BAD_OPERATOR)])
FAILURES = {
    "without a word": b"",
    "with less": REFUSAL[:-1],
    "with another reason": REFUSAL[:4] + encode(["string"], [str(Reason.BAD_OPERAND)]),
    "with another selector": bytes(4) + REFUSAL[4:],
    "with a panic": bytes.fromhex("4e487b71") + (0x32).to_bytes(32, "big"),
}


def make_code(end: str, data: bytes) -> bytes:
    """Return code that ends with an instruction over constant data: f3 returns, fd reverts."""
    size = f"61{len(data):04x}"
    return bytes.fromhex(f"{size}600e600039{size}6000{end}") + data


def judge_by(referee: Twin, leaf_code: bytes) -> tuple[str, Status]:
    """Prove that a legal operator is not, before a decoder of this code; return what came of it."""
    chain, stranger = referee.chain, referee.accounts[8]
    code = make_code("f3", leaf_code)
    leaf = chain.deploy(Artifact("leaf", (), code, len(leaf_code), ""), sender=stranger)
    legality = chain.deploy(compile_contract("legality"), leaf.address, sender=stranger)
    trusted = (leaf.address, legality.address)
    court = chain.deploy(compile_contract("referee"), *trusted, sender=stranger)
    legal = make_job(LEGAL)
    terms = legal.get_terms(open_court(referee, HONEST).terms)
    court.transact("open_job", *pack_args([terms]), sender=stranger)
    said = ""
    try:
        args = (court.address, *legal.show_operator(0, 2))
        legality.transact("prove_operator", *args, sender=stranger)
    except Reverted as refusal:
        said = str(refusal.reason)
    return said, unpack_job(court.call("jobs", 0)).status


@pytest.mark.parametrize("failure", FAILURES)
def test_g3_decoder_that_fails_otherwise_is_no_proof(referee: Twin, failure: str) -> None:
    """Only the words with which a decoder refuses void a job; no other failure does."""
    code = make_code("fd", FAILURES[failure])
    assert judge_by(referee, code) == (Reason.LEGAL, Status.OPEN)


def test_g3_decoder_that_takes_all_gas_is_no_proof(referee: Twin) -> None:
    """A decoder that ends without gas proves nothing; one that refuses in its words does."""
    assert judge_by(referee, b"\xfe") == (Reason.LEGAL, Status.OPEN)
    assert judge_by(referee, make_code("fd", REFUSAL)) == ("", Status.VOID)


def test_m11_nobody_but_the_proofs_contract_voids_a_job(referee: Twin, tmp_path: Path) -> None:
    """Members, the client, strangers, the leaf contract and other contracts can't."""
    court = open_court(referee, LIE, HONEST)
    puppet = Puppet(referee, tmp_path)
    court.begin()
    storage = referee._get_storage()
    for sender in (court.client, *court.members, referee.accounts[8]):
        with pytest.raises(Reverted, match=Reason.NOT_YOURS):
            referee.contract.transact("annul", court.job_id, sender=sender)
    with pytest.raises(Reverted, match=Reason.NOT_YOURS):
        puppet.send(("annul", court.job_id))
    assert referee._get_storage() == storage


def test_c7_match_without_a_legal_leaf_ends_without_a_loser(referee: Twin) -> None:
    """Where no leaf is taken, and even when the clock has beaten somebody, all bonds go back."""
    node = Node(Kind.MAP, Function.NEG, F32, (3,), (Operand(Origin.STATE, F32, 0, 0, LONG),))
    task = make_task(node)
    assert_illegal(task.program)
    court = Court(referee, task, make_runs(task, node, (1, 2), element=2))
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    for seat in (0, 1):
        assert court.refuse(court.make_leaf(pair, seat)) == Reason.BAD_OPERAND
    encodings, tree = task.commitment.encodings, task.commitment.tree
    proofs = [tuple(tree.proof(index)) for index in range(3)]
    args = (court.job_id, 1, encodings[1], proofs[1], 0, 0, False, encodings[2], proofs[2])
    with referee.branch():
        referee.call("prove_operand", court.client, *args)
        assert referee.refused("timeout", court.client, pair, watch(court, pair).position) in {
            Reason.CLOCK_RUNNING,
            Reason.CLOSED,
        }
        collect_all(referee, court.job_id, court.members)
    at = court.at(pair)
    referee.mine_to(at.deadline + 1)
    referee.call("timeout", court.client, pair, at)
    assert court.job.defeated == 1
    referee.call("prove_operand", court.client, *args)
    collect_all(referee, court.job_id, court.members)
    assert referee.store.balance_wei == 0


def test_v5_members_of_a_void_job_decide_nothing_any_more(referee: Twin) -> None:
    """No match that goes on in it can be won or lost, and nobody joins it or settles it."""
    node = Node(Kind.MAP, Function.NEG, F32, (3,), (Operand(Origin.STATE, F32, 0, 0, LONG),))
    task = make_task(node)
    court = Court(referee, task, make_runs(task, node, (1, 2), element=2))
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    encodings, tree = task.commitment.encodings, task.commitment.tree
    proofs = [tuple(tree.proof(index)) for index in range(3)]
    args = (court.job_id, 1, encodings[1], proofs[1], 0, 0, False, encodings[2], proofs[2])
    at = court.at(pair)
    referee.call("prove_operand", court.client, *args)
    referee.mine_to(at.deadline + 1)
    job_id, top = court.job_id, court.get_top(0)
    assert referee.refused("timeout", court.client, pair, at) == Reason.CLOSED
    assert referee.refused("settle", court.client, job_id, top) == Reason.CLOSED
    bond_wei = court.terms.bond_wei
    args = (job_id, top, court.named)
    late = referee.refused("join", referee.accounts[8], *args, value_wei=bond_wei)
    assert late == Reason.CLOSED


def make_task_of(program: Program) -> Task:
    """Return a task of a program, whose data and start are ones."""

    def fill(slots: Sequence[Slot]) -> list[Array]:
        return [np.ones(slot.shape, NUMPY_TYPES[slot.dtype]) for slot in slots]

    return Task(program, fill(program.state), lambda _: fill(program.batch), STEPS, 1)


CASES = {name: case[0] for name, case in OPERATORS.items()}
CASES |= {name: case[0] for name, case in OPERANDS.items()}


@pytest.mark.parametrize("name", every(6, CASES))
def test_g2_proof_is_found_for_each_program_that_is_not_legal(referee: Twin, name: str) -> None:
    """Whoever has such a program finds what the referee takes, and nothing of a legal one."""
    court = Court(referee, make_task_of(CASES[name]), ())
    found = find_proof(court.task)
    assert found is not None
    referee.call(found.call, referee.accounts[8], court.job_id, *found.args)
    assert court.job.status is Status.VOID
    assert find_proof(make_task_of(LEGAL)) is None
