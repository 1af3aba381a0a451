"""What a provider serves at every stage of a job, whoever asks, and what a copier makes of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moot.contracts.model.types import Address, Pair
from moot.contracts.model.words import hash_job
from moot.contracts.reasons import LeafMode, Standing, Status
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import compute_history_root
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.datastore.objects import EVIDENCE, HISTORIES, STATES, TENSORS, name_object
from moot.offchain.datastore.server import Server
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.evidence.handover import decode_evidence
from moot.offchain.disputes.referee.board import Board
from moot.offchain.errors import StoreError
from moot.offchain.parties.provider import Provider
from moot.offchain.parties.serving import Stage
from tests.parties.stages import (
    CONFIRMATIONS,
    REWARD_WEI,
    STAKES,
    Court,
    find_answered,
    list_names,
    read_table,
)

OTHER = 2
"""The account of somebody who computes nothing."""


@pytest.fixture
def court(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Court]:
    """Yield a court whose journals are its own."""
    monkeypatch.setenv("MOOT_STATE", str(tmp_path / "state"))
    with Court(tmp_path) as found:
        yield found


def act(*providers: Provider, turns: int = 3) -> None:
    """Let providers take some turns."""
    for _ in range(turns):
        for provider in providers:
            provider.take_turn()


def get_history(provider: Provider) -> Tree:
    """Return what a provider has computed in the first job."""
    run = provider.works[0].run
    assert run is not None
    return run.history


def name_all(provider: Provider) -> dict[str, set[str]]:
    """Return the objects of a job that may be served once, by what they are."""
    history, store = get_history(provider), provider.works[0].store
    roots = [history.node(0, place) for place in range(history.count)]
    tensors = {name_object(TENSORS, it) for it in store.get_roots(STATES, roots[-1])}
    return {
        HISTORIES: {name_object(HISTORIES, compute_history_root(roots))},
        STATES: {name_object(STATES, roots[-1])} | tensors,
        EVIDENCE: set(),
    }


def expect(court: Court, provider: Provider, stage: Stage, names: dict[str, set[str]]) -> None:
    """Check that what is answered is what the docs' table says, and nothing else."""
    row = read_table()[stage]
    wanted = {name for kind, known in names.items() if row[kind] for name in known}
    assert find_answered(court.find_url("honest"), list_names(court, provider)) == wanted, stage


def settle(court: Court, *providers: Provider) -> None:
    """Let a job without matches be settled by a provider, and collected."""
    court.mine_to(court.referee.job(0).window_end + 1)
    act(*providers)
    court.mine_to(court.chain.block_number() + providers[0].context.settings.stand_in_blocks)
    act(*providers)


def test_nothing_is_answered_before_its_stage(court: Court) -> None:
    """Whoever knows all roots and asks in all ways gets at each stage what the docs' table says.

    Ended after it was paid, the provider serves the state all the same, once that is final.
    """
    court.open_job()
    with court.provider("honest") as honest:
        act(honest, turns=2)
        job, names = court.referee.job(0), name_all(honest)
        expect(court, honest, Stage.HIDDEN, names)
        with pytest.raises(StoreError, match="serve `results` alone"):
            Server(honest.works[0].store.path)
        shown = job.reveal_deadline + CONFIRMATIONS
        for block in (job.commit_deadline + CONFIRMATIONS, job.reveal_deadline, shown):
            court.mine_to(block)
            act(honest)
            expect(court, honest, Stage.HIDDEN, names)
        court.mine_to(shown + 1)
        act(honest)
        expect(court, honest, Stage.SHOWN, names)
        settle(court, honest)
        assert court.referee.member(0, honest.context.address).standing is Standing.PAID
        expect(court, honest, Stage.SHOWN, names)
    with court.provider("honest") as honest:
        act(honest)
        expect(court, honest, Stage.SHOWN, names)
        court.mine_to(court.chain.block_number() + CONFIRMATIONS)
        act(honest)
        expect(court, honest, Stage.PAID, names)
        assert not honest.works
    state = open_store(str(court.folder / "honest" / "results")).get_state(
        bytes.fromhex(min(names[STATES]).partition("/")[2])
    )
    assert len(state) == len(court.task.program.state)
    with court.provider("honest") as honest:
        assert not honest.works


def copy(court: Court, name: str) -> Digest | None:
    """Return the top of the first history that a provider serves, None if there is none."""
    store = open_store(court.find_url(name), court.folder / "copied")
    for found, size in store.list():
        kind, _, root = found.partition("/")
        if kind == HISTORIES:
            roots = store.get_roots(HISTORIES, bytes.fromhex(root), size // DIGEST_BYTES)
            return Tree(Tag.HISTORY_NODE, roots).top
    return None


def test_a_copier_is_paid_nothing(court: Court) -> None:
    """It finds no claim as long as it could commit to one; a copy that joins late shares nothing.

    Nothing that is told before claims are shown names what was computed.
    """
    copier: Address = court.chain.accounts[OTHER]
    court.open_job()
    with court.provider("honest") as honest:
        act(honest)
        job, top = court.referee.job(0), get_history(honest).top
        for block in (job.commit_deadline + CONFIRMATIONS, job.reveal_deadline):
            court.mine_to(block)
            assert copy(court, "honest") is None
            act(honest)
        roots = [get_history(honest).node(0, it) for it in range(get_history(honest).count)]
        secret = {root.hex() for root in (top, compute_history_root(roots), *roots)}
        assert not [line for line in map(str, court.told) if any(it in line for it in secret)]
        court.mine_to(job.reveal_deadline + CONFIRMATIONS + 1)
        act(honest)
        stolen = copy(court, "honest")
        assert stolen == top
        bond_wei = job.terms.bond_wei
        claim = (stolen, hash_job(job))
        court.referee.transact("join", 0, *claim, sender=copier, value_wei=bond_wei)
        settle(court, honest)
        assert court.referee.debt(0, copier) == bond_wei
        paid = [it.args for it in court.referee.events(0) if it.name == "Collected"]
        assert [int(str(it[2])) for it in paid] == [bond_wei + REWARD_WEI]


def test_unpaid_work_is_not_served(court: Court) -> None:
    """A provider whose commitment comes too late serves nothing of what it has computed."""
    court.open_job()
    with court.provider("honest") as honest:
        honest.take_turn()
        job = court.referee.job(0)
        honest._results += honest.workshop.collect()  # no turn came in time to commit
        names = list_names(court, honest)
        court.mine_to(job.commit_deadline + 1)
        act(honest)
        assert not honest.works
        court.mine_to(job.window_end + CONFIRMATIONS + 2)
        act(honest)
        assert find_answered(court.find_url("honest"), names) == set()


@pytest.mark.slow
def test_a_match_shows_evidence_and_an_undecided_job_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the verifier a match adds one operator's operands; if it never rules, no state is served.

    Before that nothing is answered; then the tensors are those that the evidence proves.
    """
    monkeypatch.setenv("MOOT_STATE", str(tmp_path / "state"))
    with Court(tmp_path, LeafMode.OPERATOR) as court, court.provider("honest") as honest:
        with court.provider("cheat", cheat="wrong-output") as cheat:
            court.open_job()
            act(honest, cheat)
            job, names = court.referee.job(0), name_all(honest)
            for block in (job.commit_deadline + CONFIRMATIONS, job.reveal_deadline + 1):
                expect(court, honest, Stage.HIDDEN, names)
                court.mine_to(block)
                act(honest, cheat)
            while not [it for it, about in court.told if it == "handed"]:
                court.mine_to(court.chain.block_number() + 1)
                act(honest, cheat, turns=1)
        court.mine_to(job.reveal_deadline + CONFIRMATIONS + 1)
        act(honest)
        names[EVIDENCE] = find_evidence(court)
        expect(court, honest, Stage.SHOWN, names)
        court.mine_to(court.chain.block_number() + 2 * STAKES.clock_blocks)
        act(honest)
        for pair, board in get_boards(honest).items():
            court.referee.transact("timeout", pair, board.position, sender=job.client)
        settle(court, honest)
        assert court.referee.job(0).status is Status.EMPTY
        listed = list_names(court, honest)
        court.mine_to(court.chain.block_number() + CONFIRMATIONS)
        act(honest)
        assert not honest.works
        wanted = names[HISTORIES] | names[EVIDENCE]
        assert find_answered(court.find_url("honest"), listed) == wanted


def get_boards(provider: Provider) -> dict[Pair, Board]:
    """Return the matches of the first job, as a provider sees them."""
    seat = provider.works[0].seat
    return {} if seat is None else dict(seat.view.tournament.boards)


def find_evidence(court: Court) -> set[str]:
    """Return the objects of the evidence that is served, and of the tensors that it proves."""
    folder = court.folder / "honest" / "results" / EVIDENCE
    (path,) = folder.iterdir()
    shown = [it for it in decode_evidence(path.read_bytes(), 0).shown if it is not None]
    return {f"{EVIDENCE}/{path.name}"} | {name_object(TENSORS, it.root) for it in shown}
