"""The check of a job before it is joined finds every fault, and names it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moot.contracts.deployment import deploy_referee
from moot.contracts.model.types import Terms
from moot.contracts.reasons import LeafMode
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.chain import Chain, Contract, connect
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.joining import job_check
from moot.offchain.disputes.joining.job_check import Agreement, bound_answer, check_job
from moot.offchain.disputes.referee import code as referee_code
from moot.offchain.disputes.referee.crowds import (
    Pace,
    calculate_least_clock,
    count_calls,
    count_censored,
)
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_program
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.rates import estimate_timing
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.task import Task
from tests.chain_helpers import LoopbackNode, open_node
from tests.end_to_end.command import moot

ANY_TIME: dict[str, Any] = {"least_yield": 0.0}
"""Conditions where blocks take so long that no machine is too slow."""
BOB = "0x" + "b0" * 20


@cache
def get_task(arithmetic: Arithmetic = ORDERED) -> Task:
    """Capture a real program."""
    return make_task(
        Setting(program="mlp", steps=4, checkpoint_every=2, arithmetic=arithmetic.name)
    )


@cache
def get_agreement(arithmetic: Arithmetic = ORDERED) -> Agreement:
    """Return what its client publishes and a provider agrees to.

    Blocks are so long that no machine is too slow.
    """
    task = get_task(arithmetic)
    published = (encode_program(task.program), list(task.initial_state), task.batch)
    length = (task.steps, task.checkpoint_every)
    return Agreement(*published, *length, crowd=150, block_seconds=10**6, **ANY_TIME)


@dataclass(frozen=True)
class Office:
    """A chain with a referee, on which jobs are opened."""

    chain: Chain
    contract: Contract

    def open(self, arithmetic: Arithmetic = ORDERED, **changes: Any) -> int:
        """Open a job with some of its terms changed, and return its number."""
        referee = ChainReferee(self.chain, self.contract, 0)
        terms: Terms = replace(make_terms(get_task(arithmetic)), **changes)
        client = self.chain.accounts[0]
        opened = referee.transact("open_job", terms, sender=client, value_wei=10**17)
        return int(str(opened.events[0].args[0]))

    def find_problems(self, job_id: int, agreed: Agreement) -> dict[str, str]:
        """Check a job, and return what is wrong with it."""
        job = ChainReferee(self.chain, self.contract, 0).job(job_id)
        findings = check_job(self.chain, self.contract.address, job, agreed)
        problems = {it.item: it.problem for it in findings if it.problem is not None}
        assert all("\n" not in problem for problem in problems.values())
        return problems


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    """A chain with our referee."""
    with connect() as chain:
        yield Office(chain, deploy_referee(chain, chain.accounts[0]))


@pytest.mark.parametrize("together_bytes", [job_check.TOGETHER_BYTES, 20_000, 1])
def test_an_honest_job_has_no_problem(
    office: Office, monkeypatch: pytest.MonkeyPatch, together_bytes: int
) -> None:
    """All items of a real program's job are looked at, and hold, however few outputs are held."""
    monkeypatch.setattr(job_check, "TOGETHER_BYTES", together_bytes)
    job = ChainReferee(office.chain, office.contract, 0).job(office.open())
    findings = check_job(office.chain, office.contract.address, job, get_agreement())
    assert [it for it in findings if it.problem] == []
    assert len({it.item for it in findings}) == len(findings) == 40


@pytest.mark.parametrize("program", [ORDERED, EXACT], ids=str)
@pytest.mark.parametrize("court", [ORDERED, EXACT], ids=str)
def test_a_job_stands_at_the_referee_of_its_programs_arithmetic(
    program: Arithmetic, court: Arithmetic
) -> None:
    """It may be joined there, and nowhere else: another leaf computes something else."""
    with connect() as chain:
        office = Office(chain, deploy_referee(chain, chain.accounts[0], court))
        problems = office.find_problems(office.open(program), get_agreement(program))
    assert set(problems) == (set() if program is court else {"referee"})


TERMS = {
    "steps": 5,
    "checkpoint_every": 3,
    "leaf_mode": LeafMode.OPERATOR,
    "verifier": BOB,
    "bond_wei": 2 * 10**18,
    "reveal_blocks": 3,
    "window_blocks": 2,
}
CLOCKS = {"commit_blocks": 1, "clock_blocks": 5}
ROOTS = {
    "operators": 10**4,
    "state_slots": 1,
    "batch_slots": 7,
    "layout": b"\x01" * 32,
    "program_top": b"\x02" * 32,
    "start_root": b"\x03" * 32,
    "data_top": b"\x04" * 32,
}


def test_all_terms_that_are_not_agreed_are_named(office: Office) -> None:
    """Of a job in which no term is right all that need no program are named, and nothing else."""
    found = office.find_problems(office.open(**TERMS, **CLOCKS, **ROOTS), get_agreement())
    assert set(found) == set(TERMS)


@pytest.mark.slow
@pytest.mark.parametrize("item", TERMS | CLOCKS | ROOTS)
def test_a_term_that_is_not_agreed_is_named(office: Office, item: str) -> None:
    """Each term of its own, however the rest is; the line says what the job has."""
    changed = {item: (TERMS | CLOCKS | ROOTS)[item]}
    problems = office.find_problems(office.open(**changed), get_agreement())
    assert set(problems) == {item}


@pytest.mark.parametrize("missing", [0, 1])
def test_a_clock_outlasts_a_crowd_and_whoever_keeps_calls_out(office: Office, missing: int) -> None:
    """It outlasts the crowd, what a censor could be paid for, and a reorganisation."""
    usual, agreed = make_terms(get_task()), get_agreement()
    block_gas = office.chain.node.get_block_gas()
    crowd = calculate_least_clock(
        agreed.crowd, usual.increment_blocks, Pace(count_calls(block_gas))
    )
    censored = count_censored(10**17 + usual.prize_wei, block_gas=block_gas)
    assert censored > 1
    least = crowd + censored + agreed.confirmations
    job_id = office.open(clock_blocks=least - missing)
    assert set(office.find_problems(job_id, agreed)) == {*["clock_blocks"][:missing]}


def spoil_start(agreed: Agreement) -> Agreement:
    """Publish another start than the job's."""
    first, *others = agreed.initial_state
    return replace(agreed, initial_state=[first + np.float32(1), *others])


def spoil_shape(agreed: Agreement) -> Agreement:
    """Publish a tensor of another shape."""
    first, *others = agreed.initial_state
    return replace(agreed, initial_state=[first[None], *others])


def spoil_data(agreed: Agreement) -> Agreement:
    """Publish a batch with one slot too few."""
    return replace(agreed, batch=lambda step: agreed.batch(step)[: -1 if step == 3 else None])


def spoil_program(agreed: Agreement) -> Agreement:
    """Publish a program of which an operator has no legal encoding."""
    program = get_task().program
    place = next(i for i, node in enumerate(program.nodes) if node.operands[0].rows)
    node = program.nodes[place]
    first, *rows = node.operands[0].rows
    operand = replace(node.operands[0], rows=(replace(first, divisor=0), *rows))
    illegal = replace(node, operands=(operand, *node.operands[1:]))
    nodes = (*program.nodes[:place], illegal, *program.nodes[place + 1 :])
    return replace(agreed, program=encode_program(replace(program, nodes=nodes)))


def want_more(agreed: Agreement) -> Agreement:
    """Ask for a higher reward."""
    return replace(agreed, least_reward_wei=10**18)


SPOILERS: dict[str, tuple[str, Callable[[Agreement], Agreement]]] = {
    "another start": ("start_root", spoil_start),
    "another shape": ("start", spoil_shape),
    "a short batch": ("data", spoil_data),
    "an illegal operator": ("program", spoil_program),
    "a file cut short": ("program", lambda it: replace(it, program=it.program[:-1])),
    "a low reward": ("reward_wei", want_more),
    "a larger crowd": ("clock_blocks", lambda it: replace(it, crowd=100_000)),
}


@pytest.mark.parametrize("case", SPOILERS)
def test_a_publication_that_does_not_fit_is_named(office: Office, case: str) -> None:
    """What the client has published is computed again, and compared with the job."""
    item, spoil = SPOILERS[case]
    assert set(office.find_problems(office.open(), spoil(get_agreement()))) == {item}


@pytest.mark.parametrize("name", ["referee", "leaf", "legality", "transcendental"])
def test_another_contract_is_named(
    office: Office, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A referee with one other byte of code, or one that asks such a contract, is not ours."""
    ours, get_code = referee_code._get_own_codes()[name][1], office.chain.node.get_code

    def alter(address: Any) -> bytes:
        code = bytearray(get_code(address))
        if code[:200] == ours[:200]:
            code[100] ^= 1
        return bytes(code)

    job_id = office.open()
    monkeypatch.setattr(office.chain.node, "get_code", alter)
    assert set(office.find_problems(job_id, get_agreement())) == {name}


def test_outputs_are_shared_out_to_executions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator is in one range, and each range but that of one operator fits into memory."""
    program = decode_program(get_agreement().program)
    sizes = [node.elements * node.dtype.width for node in program.nodes]
    counts = []
    for most_bytes in (1, 20_000, 1 << 28):
        monkeypatch.setattr(job_check, "TOGETHER_BYTES", most_bytes)
        ranges = job_check._share_out(program)
        assert [it for some in ranges.values() for it in some] == [*range(len(sizes))]
        for first, some in ranges.items():
            held = {*some, *(read for it in some for read in program.nodes[it].inputs)}
            assert first == some[0]
            assert len(some) == 1 or sum(sizes[it] for it in held) <= most_bytes
        counts.append(len(ranges))
    assert counts[0] == len(sizes) > counts[1] > counts[2] == 1


def test_an_operator_that_is_computed_otherwise_is_named(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor that does not do what the contract computes is noticed before it costs a bond."""
    compute = job_check.compute_leaf
    monkeypatch.setattr(job_check, "compute_leaf", lambda *args: compute(*args) ^ 1)
    (problem,) = office.find_problems(office.open(), get_agreement()).items()
    assert problem[0] == "leaves"
    assert "operator 0" in problem[1]


@pytest.fixture
def node() -> Iterator[LoopbackNode]:
    """A node behind JSON-RPC."""
    with open_node("http") as node:
        yield node


def test_the_command_reads_what_was_published(node: LoopbackNode, tmp_path: Path) -> None:
    """A job on a node, its files in a folder: nothing to say, or each problem, with its status."""
    with connect(node.url) as chain:
        office = Office(chain, deploy_referee(chain, chain.accounts[0]))
        good, bad = office.open(), office.open(steps=5, bond_wei=2 * 10**18)
    put_task(open_store(str(tmp_path)), get_task())
    length = ("--steps", "4", "--checkpoint-every", "2", "--block-seconds", "1e6")
    others = ("--least-yield", "0", "--json")
    place = (str(tmp_path), "--chain", node.url, "--referee", office.contract.address)
    done = [moot("provider", "check", str(job), *place, *length, *others) for job in (good, bad)]
    assert [(it.status, it.stderr) for it in done] == [(0, ""), (3, "")]
    found = [json.loads(it.stdout) for it in done]
    assert [it["may_be_joined"] for it in found] == [True, False]
    assert {item for item, problem in found[1]["items"].items() if problem} == {"steps", "bond_wei"}


def test_a_clock_is_bounded_by_shapes_and_not_by_first_steps(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that are short beside the slowest values ask for a longer clock; nothing is run."""
    monkeypatch.setattr(job_check, "Run", None)
    agreed = replace(get_agreement(), most_locked_blocks=10**8, crowd=4, block_seconds=0.01)
    job = office.open(commit_blocks=10**6)
    assert set(office.find_problems(job, agreed)) == {"clock_blocks"}
    assert bound_answer(get_task().program, agreed) > 0.01


@pytest.mark.parametrize("arithmetic", ["ordered", "exact", "logged"])
def test_an_answer_is_bounded_by_the_slowest_values(arithmetic: str) -> None:
    """The bound has room for every operator at the worst, and grows with the interval."""
    program = replace(get_task().program, arithmetic=ARITHMETICS[arithmetic])
    timing = estimate_timing(program)
    assert timing.worst_step_s > timing.step_s > 0
    bounds = [timing.bound_answer(every) for every in (1, 2, 100)]
    assert bounds[0] > 2 * timing.worst_step_s
    assert bounds == sorted(bounds)
    assert bounds[2] > 50 * bounds[0] / 3


def test_a_claim_has_to_be_shown_in_spite_of_whom_the_reward_pays(office: Office) -> None:
    """A censor that the reward pays for, and a reorganisation, may together take some blocks."""
    job = ChainReferee(office.chain, office.contract, 0).job(office.open())
    dear = replace(job, reward_wei=10**19)
    for found, is_met in ((job, True), (dear, False)):
        findings = check_job(office.chain, office.contract.address, found, get_agreement())
        problems = [it for it in findings if it.problem and it.item == "reveal_time"]
        assert (not problems) == is_met
