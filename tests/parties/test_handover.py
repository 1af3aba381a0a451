"""What members hand over to the verifier: it is proven or refused, and the ruling is the same."""

import shutil
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moot.contracts.reasons import Outcome
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.datastore import fetch
from moot.offchain.datastore.objects import EVIDENCE, TENSORS, name_object
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.evidence.handover import (
    decode_evidence,
    encode_evidence,
    fetch_evidence,
    name_evidence,
)
from moot.offchain.disputes.evidence.rulings import LogEvidence, check, collect, get_arithmetic
from moot.offchain.errors import CostBoundExceeded, ProgramError, StoreError, UnprovenEvidence
from moot.offchain.parties.evidence_publisher import EvidencePublisher
from moot.offchain.parties.evidence_requests import EvidenceRequest, collect_evidence
from moot.offchain.programs.encoding import encode_layout, encode_name
from moot.offchain.programs.graph import Origin
from moot.offchain.programs.roots import hash_layout
from moot.offchain.providers.cheats.wrong_output import WrongOutput
from moot.offchain.providers.store import Store
from moot.offchain.verifier.bounds import Bound
from tests.end_to_end.fixtures import Case, draw_cheat, get_case, run
from tests.parties.rulings import Stopped, judge, stop
from tests.quick import every, only
from tests.store_helpers import answering, send_head, serving

DRAWS = only({0}, range(6))
FAULTS_PER_EVIDENCE = 60
SECONDS = 2.0
NOBODY_AT = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are short."""
    monkeypatch.setattr(fetch, "_FIRST_PAUSE_S", 0.001)


def ask(
    stopped: Stopped, folder: Path, urls: Sequence[str], seconds: float = SECONDS
) -> EvidenceRequest:
    """Return the request to some places, once it is over."""
    found = stopped.make_request()
    collect_evidence(found, folder, urls, time.monotonic() + seconds, Event())
    return found


@cache
def stop_drawn(seed: int, arithmetic: str = "ordered") -> Stopped:
    """Return a match of an honest member with a liar, about a drawn operator, on drawn sides."""
    case = get_case("mlp", arithmetic=arithmetic)
    rng = np.random.default_rng(seed)
    operators = [i for i, it in enumerate(case.task.program.nodes) if it.elements and it.inputs]
    cheating = draw_cheat(case, f"wrong-output:operator={rng.choice(operators)}", seed)
    return stop(case, [cheating, case.honest], is_turned=bool(rng.random() < 0.5))


def get_honest_side(stopped: Stopped) -> int:
    """Return the side of the honest member."""
    return [it.behaviour.name for it in stopped.runs].index("honest")


@pytest.mark.parametrize("arithmetic", only({"logged"}, ["ordered", "exact", "logged"]))
@pytest.mark.parametrize("seed", DRAWS)
def test_the_ruling_is_the_same_whoever_hands_over(
    seed: int, arithmetic: str, tmp_path: Path
) -> None:
    """The honest member wins by its evidence, by the liar's, and by a run of the verifier's own."""
    stopped = stop_drawn(seed, arithmetic)
    honest = get_honest_side(stopped)
    assert stopped.rule_by_run(stopped.runs[honest]) == Outcome(honest)
    for side in (0, 1):
        assert stopped.hand_over(tmp_path / f"by-{side}", side)
        found = ask(stopped, tmp_path / f"heard-{side}", [str(tmp_path / f"by-{side}")])
        assert found.found is not None
        assert found.found.side == side
        assert judge(found, tmp_path / f"heard-{side}") == Outcome(honest)


def tamper(step: int, operator: int, trace: Digest | None = None) -> WrongOutput:
    """Return a lie about the first element of an output, and maybe about the first output, too."""
    lie = WrongOutput(step=step, operator=operator, element=0, bit=3, position=0)
    if trace is not None:
        lie.alter_trace = lambda _, leaves: [trace, *leaves[1:]]  # type: ignore[method-assign]
    return lie


def find_reader(case: Case, operator: int) -> int:
    """Return an operator that reads another one's output."""
    nodes = case.task.program.nodes
    return next(i for i, node in enumerate(nodes) if operator in node.inputs and node.elements)


def test_where_both_claims_are_wrong_the_agreed_operands_decide(tmp_path: Path) -> None:
    """Evidence of either side makes the one win who is right about the operator, as at a leaf.

    A run of the verifier's own does not know what the two have agreed on: neither wins.
    """
    case = get_case("mlp")
    reader = find_reader(case, 0)
    before = tamper(0, 0)
    both = WrongOutput(step=0, operator=reader, element=0, bit=3, position=0)
    both.patch = lambda step, state: (
        {  # type: ignore[method-assign]
            **(before.patch(step, state) or {}),
            **(tamper(0, reader).patch(step, state) or {}),
        }
        or None
    )
    runs = [run(case.task, it, "liar") for it in (before, both)]
    stopped = stop(case, runs)
    assert stopped.place.operator == reader
    better = stopped.runs.index(runs[0])
    for side in (0, 1):
        folder, heard = tmp_path / f"by-{side}", tmp_path / f"heard-{side}"
        assert stopped.hand_over(folder, side)
        assert judge(ask(stopped, heard, [str(folder)]), heard) == Outcome(better)
    assert stopped.rule_by_run(case.honest) == Outcome.NEITHER


def test_two_that_agree_on_what_nobody_has_lose_both(tmp_path: Path) -> None:
    """A false flag and its accomplice can't keep the verifier from ruling: neither wins."""
    case = get_case("mlp")
    reader = find_reader(case, 0)
    flag, lie = tamper(9, 0, b"\x07" * 32), tamper(0, reader, b"\x07" * 32)
    runs = [run(case.task, it, "flag") for it in (flag, lie)]
    stopped = stop(case, runs)
    assert stopped.place.operator == reader
    assert case.honest.history.top in stopped.claims
    assert not any(stopped.hand_over(tmp_path / "by", side) for side in (0, 1))
    assert not ask(stopped, tmp_path / "heard", [str(tmp_path / "by")], 0).found
    assert stopped.rule_by_run(case.honest) == Outcome.NEITHER


def test_no_byte_of_evidence_can_be_another(tmp_path: Path) -> None:
    """Evidence with any bit changed, cut or longer, or of another side, place or job is refused."""
    stopped = stop_drawn(0)
    side, rng = get_honest_side(stopped), np.random.default_rng(5)
    store, claim = open_store(str(tmp_path)), stopped.claims[side]
    assert stopped.hand_over(tmp_path, side)
    args = stopped.terms, stopped.place, side, claim
    evidence = fetch_evidence(store, *args)
    data = encode_evidence(evidence)
    assert decode_evidence(data, side) == evidence
    places = rng.choice(8 * len(data), FAULTS_PER_EVIDENCE, replace=False)
    logged = encode_evidence(replace(evidence, log=LogEvidence(b"", (), ())))
    spoilt = [bytearray(data) for _ in places]
    for each, place in zip(spoilt, places, strict=True):
        each[place // 8] ^= 1 << place % 8
    path = tmp_path / name_object(EVIDENCE, name_evidence(stopped.place, side, claim))
    for wrong in (*map(bytes, spoilt), data[:-1], data + b"\0", b"", logged):
        with pytest.raises((ProgramError, UnprovenEvidence)):
            check(decode_evidence(wrong, side), stopped.terms, stopped.place, claim)
    path.write_bytes(bytes(spoilt[0]))
    with pytest.raises(StoreError, match="is damaged"):
        fetch_evidence(store, *args)
    for terms, place, top in (
        (stopped.terms, replace(stopped.place, step=stopped.place.step ^ 1), claim),
        (stopped.terms, replace(stopped.place, operator=stopped.place.operator - 1), claim),
        (stopped.terms, replace(stopped.place, traces=stopped.place.traces[::-1]), claim),
        (replace(stopped.terms, program_top=claim), stopped.place, claim),
    ):
        with pytest.raises(UnprovenEvidence):
            check(evidence, terms, place, top)


def test_nothing_behind_the_operator_is_taken_for_agreed() -> None:
    """An operator that reads what comes after it, in a program that is not legal, is not proven."""
    stopped = stop_drawn(0)
    side = get_honest_side(stopped)
    prover, place = stopped.runs[side], stopped.place
    evidence, _ = collect(prover, place, side)
    encodings = list(prover.task.commitment.encodings)
    node = prover.task.program.nodes[place.operator]
    assert any(it.origin is Origin.NODE for it in node.operands)
    encodings[0] = evidence.encoding
    leaves = [keccak256(bytes([Tag.OPERATOR]) + it) for it in encodings]
    tree = Tree(Tag.PROGRAM_NODE, leaves)
    terms = replace(stopped.terms, program_top=tree.top)
    early = replace(evidence, program_proof=tuple(tree.proof(0)))
    with pytest.raises(UnprovenEvidence, match="an operand"):
        check(early, terms, replace(place, operator=0), stopped.claims[side])


def test_the_layout_says_which_arithmetic_it_is() -> None:
    """The name of an arithmetic can't pass for a piece of a layout."""
    stopped = stop_drawn(0)
    layout = encode_layout(stopped.runs[0].task.program)
    terms = replace(stopped.terms, layout=hash_layout(layout, EXACT))
    assert get_arithmetic(layout, stopped.terms) == ORDERED
    assert get_arithmetic(layout, terms) == EXACT
    assert hash_layout(layout + encode_name(EXACT), ORDERED) == terms.layout
    for wrong in (layout + encode_name(EXACT), layout[:-1], b""):
        with pytest.raises(UnprovenEvidence, match="the layout"):
            get_arithmetic(wrong, terms)


def test_an_operator_above_the_bound_is_not_fetched(tmp_path: Path) -> None:
    """What it would cost is known before any tensor is asked for."""
    stopped = stop_drawn(1)
    side = get_honest_side(stopped)
    assert stopped.hand_over(tmp_path / "by", side)
    shutil.rmtree(tmp_path / "by" / TENSORS)
    store = open_store(str(tmp_path / "by"))
    with pytest.raises(CostBoundExceeded):
        fetch_evidence(store, stopped.terms, stopped.place, side, stopped.claims[side], Bound(1))


@dataclass
class Served:
    """What a member serves, in a folder that a test may spoil."""

    folder: Path

    def tensor(self) -> Path:
        """Return the file of a tensor that the operator reads."""
        return next((self.folder / TENSORS).iterdir())

    def evidence(self) -> Path:
        """Return the file of the evidence."""
        return next((self.folder / EVIDENCE).iterdir())


def drop_tensor(served: Served) -> None:
    """Hand over a part only."""
    served.tensor().unlink()


def flip_tensor(served: Served) -> None:
    """Hand over another tensor than the root says."""
    data = bytearray(served.tensor().read_bytes())
    data[-1] ^= 1
    served.tensor().write_bytes(data)


def lengthen_tensor(served: Served) -> None:
    """Hand over more than the program declares."""
    with served.tensor().open("ab") as file:
        file.truncate(1 << 36)


def lengthen_evidence(served: Served) -> None:
    """Hand over evidence that never ends."""
    with served.evidence().open("ab") as file:
        file.truncate(1 << 36)


def flip_evidence(served: Served) -> None:
    """Hand over evidence that is not proven."""
    data = bytearray(served.evidence().read_bytes())
    data[len(data) // 2] ^= 1
    served.evidence().write_bytes(data)


def hand_over_nothing(served: Served) -> None:
    """Serve nothing."""
    served.evidence().unlink()


SPOILERS = (drop_tensor, flip_tensor, lengthen_tensor, lengthen_evidence, flip_evidence)


@pytest.mark.parametrize("spoil", every(12, [*SPOILERS, hand_over_nothing]))
def test_what_is_not_whole_and_right_is_of_no_use(
    spoil: Callable[[Served], None], tmp_path: Path
) -> None:
    """It is refused, nothing wrong is kept, and an honest member's place is as good as ever."""
    stopped = stop_drawn(0)
    honest = get_honest_side(stopped)
    for side, folder in ((1 - honest, "liar"), (honest, "honest")):
        assert stopped.hand_over(tmp_path / folder, side)
    spoil(Served(tmp_path / "liar"))
    with serving(tmp_path / "liar") as liar, serving(tmp_path / "honest") as other:
        alone = ask(stopped, tmp_path / "alone", [liar.url], 0)
        assert alone.found is None
        assert liar.url in alone.problem
        sizes = [p.stat().st_size for p in (tmp_path / "alone").rglob("*") if p.is_file()]
        assert sum(sizes) < 1 << 20
        both = ask(stopped, tmp_path / "both", [NOBODY_AT, liar.url, other.url], 6.0)
    assert both.url == other.url
    assert judge(both, tmp_path / "both") == Outcome(honest)


PIECES = 1_000


@pytest.mark.parametrize("is_silent", only({False}, [False, True]))
def test_a_slow_place_takes_no_more_than_its_share(tmp_path: Path, *, is_silent: bool) -> None:
    """It is given up, silent or fast enough for a store, and whoever comes after it is heard."""
    stopped = stop_drawn(2)
    honest, sent = get_honest_side(stopped), list[int]()
    assert stopped.hand_over(tmp_path / "honest", honest)

    def answer(connection: socket.socket, _path: str, _first: int) -> None:
        if is_silent:
            connection.recv(1)
            return
        send_head(connection, "Content-Length: 16000000")
        for number in range(PIECES):
            connection.sendall(bytes(1 << 12))
            sent.append(number)
            time.sleep(0.02)

    with answering(answer) as slow, serving(tmp_path / "honest") as other:
        assert ask(stopped, tmp_path / "alone", [slow], 0).found is None
        found = ask(stopped, tmp_path / "both", [slow, other.url], SECONDS)
    assert found.url == other.url
    assert judge(found, tmp_path / "both") == Outcome(honest)
    assert len(sent) < PIECES


def test_what_comes_late_is_waited_for(tmp_path: Path) -> None:
    """A place that has nothing yet is asked again; one that has served a lie is not."""
    stopped = stop_drawn(1)
    honest, paths = get_honest_side(stopped), list[str]()
    assert stopped.hand_over(tmp_path / "ready", honest)

    def answer(connection: socket.socket, path: str, first: int) -> None:
        paths.append(path)
        file = tmp_path / "ready" / path.removeprefix("/")
        if len(paths) <= 2 or first or not file.exists():
            send_head(connection, "Content-Length: 0", status="404 Not Found")
            return
        content = file.read_bytes()
        send_head(connection, f"Content-Length: {len(content)}")
        connection.sendall(content)

    with answering(answer) as url:
        found = ask(stopped, tmp_path / "heard", [url], 5.0)
    assert found.found is not None
    assert found.found.side == honest
    lies = list[str]()

    def lie(connection: socket.socket, path: str, _first: int) -> None:
        lies.append(path)
        send_head(connection, "Content-Length: 4")
        connection.sendall(b"lies")

    with answering(lie) as url:
        assert url in ask(stopped, tmp_path / "lies", [url], 60.0).problem
    assert len(lies) == 2


def test_a_member_hands_over_once(tmp_path: Path) -> None:
    """It serves what its match needs, and says when it has committed to something else."""
    stopped = stop_drawn(0)
    told: list[str] = []
    pair = stopped.board.pair
    for side, address in enumerate((pair.first, pair.second)):
        context: Any = SimpleNamespace(
            address=address, tell=lambda event, *_, **__: told.append(event)
        )
        boards = {pair: stopped.board}
        known = SimpleNamespace(boards=boards, job_id=0)
        job = SimpleNamespace(terms=stopped.terms)
        seat: Any = SimpleNamespace(job_id=0, view=SimpleNamespace(tournament=known, job=job))
        publisher, results = EvidencePublisher(context), Store(tmp_path / str(side))
        member: Any = stopped.runs[side]
        assert publisher.has_more(seat)
        publisher.publish(results, member, seat)
        assert not publisher.has_more(seat)
        assert told.pop() == "handed"
        EvidencePublisher(context).publish(results, member, seat)
        assert not told, "a member that was killed hands over nothing twice"
        other = replace(stopped.place, traces=(b"\1" * 32, b"\2" * 32))
        boards[pair] = replace(stopped.board, facts=other, position=replace(stopped.board.position))
        EvidencePublisher(context).publish(results, member, seat)
        assert told.pop() == "withheld"
