"""The command `moot court`, and the replay of a dispute: what a user does, and does wrong."""

import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moot.contracts.deployment import deploy_referee
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.chain import connect
from moot.offchain.disputes.referee.code import compare_codes
from moot.offchain.record.schema import encode_record, read_record
from tests.chain_helpers import LoopbackNode, compile_ledger, deploy_ledger, open_node
from tests.end_to_end.command import complaint, moot, showing
from tests.quick import every
from tests.record_helpers import SCALAR, make_small_record, open_chain

DISPUTE = ("dispute", "--program", "mlp", "--steps", "2", "--checkpoint-every", "1")
QUICK = (*DISPUTE, "--trust-capture", "--seed", "3")
NOBODY = "0x" + "12" * 20


def get(url: str) -> str:
    """Return what an address answers."""
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - ours, on loopback
        text: str = answer.read().decode()
    return text


@pytest.fixture(scope="module")
def node() -> Iterator[LoopbackNode]:
    """A node behind JSON-RPC."""
    with open_node("http") as node:
        yield node


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_court_is_shown_until_a_signal(node: LoopbackNode, number: signal.Signals) -> None:
    """The page and the frames of a chain are served; a signal ends that, with status 0."""
    with connect(node.url) as chain:
        game = open_chain(chain, (SCALAR,))
        calls = len(list(game.play()))
        place = ("--chain", node.url, "--referee", game.referee.address)
        with showing("court", *place) as (process, url):
            assert "Moot court" in get(url)
            assert len(json.loads(get(f"{url}frames"))["frames"]) == calls
            process.send_signal(number)
            _, stderr = process.communicate(timeout=60)
            assert (process.returncode, stderr) == (0, "")


def test_a_replay_is_a_page_or_a_record(tmp_path: Path) -> None:
    """The same dispute is a file that a browser opens, and one that `moot court` shows."""
    page, record = tmp_path / "dispute.html", tmp_path / "dispute.json"
    for path in (page, record):
        done = moot(*QUICK, "--replay", str(path), "--json")
        assert (done.status, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    told = read_record(record)
    assert [frame.call.gas for frame in told.frames] == [
        it["gas_used"] for it in report["transactions"]
    ]
    scalar = next(it.scalar for frame in told.frames for it in frame.matches if it.scalar)
    located = report["located"]
    assert scalar.function == located["scalar"]["function"]
    assert [it.bits for it in scalar.operands] == located["scalar"]["operands"]
    assert scalar.computed.bits == located["scalar"]["correct"]
    match = [it for frame in told.frames for it in frame.matches][-1]
    assert match.found.operator is not None
    assert match.found.operator.index == located["operator"]["index"]
    assert match.found.operator.name.startswith(located["operator"]["name"])
    assert set(told.names.values()) >= {"client", "honest-1", "wrong-output-1"}
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"'](?!data:|#)", text)
    with showing("court", str(record)) as (_, url):
        assert told.court.referee in get(url)


@pytest.mark.parametrize(
    "words", every(4, [(("--arithmetic", "exact"),), (("--leaf", "operator"),)])
)
def test_other_disputes_have_replays(tmp_path: Path, words: tuple[str, ...]) -> None:
    """In another arithmetic, and where the verifier decides, the record ends with how it ended."""
    path = tmp_path / "dispute.json"
    assert moot(*QUICK, *words, "--replay", str(path)).status == 0
    matches = [it for frame in read_record(path).frames for it in frame.matches]
    assert matches[-1].end is not None
    assert matches[-1].end.ending == ("verifier" if "operator" in words else "scalar")
    assert (matches[-1].scalar is None) == ("operator" in words)


@pytest.mark.slow
def test_operators_of_a_published_program_are_named(node: LoopbackNode, tmp_path: Path) -> None:
    """Who has what the client has published sees the names of the operators."""
    path, folder = tmp_path / "dispute.json", tmp_path / "published"
    done = moot(*QUICK, "--replay", str(path), "--chain", node.url)
    assert (done.status, done.stderr) == (0, "")
    words = ("mlp", str(folder), "--steps", "2", "--trust-capture", "--seed", "3")
    assert moot("program", "publish", *words).status == 0
    referee = read_record(path).court.referee
    wanted = [frame.text for frame in read_record(path).frames]
    for given in ((), ("--published", str(folder))):
        with showing("court", "--chain", node.url, "--referee", referee, *given) as (_, url):
            frames = json.loads(get(f"{url}frames"))["frames"]
        assert ([frame["text"] for frame in frames] == wanted) == bool(given)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "say what to show: --chain URL and --referee ADDRESS, or a record FILE.json"),
        (("--chain", "http://127.0.0.1:1"), "--referee ADDRESS is missing"),
        (("--referee", NOBODY), "--chain URL is missing"),
        (("--chain", "http://127.0.0.1:1", "--referee", "0x12"), "is not an address"),
        (("absent.json",), "cannot read absent.json"),
        (("README.md",), "README.md is no record of a court"),
        (("README.md", "--chain", "x"), "choose one"),
        (("--chian", "x"), "did you mean '--chain'"),
        (("README.md", "--port", "70000"), "70000"),
        (("README.md", "--every", "0"), "0"),
        (("x.json", "--chain", "tester"), "choose one"),
    ],
)
def test_bad_arguments_get_one_line(words: tuple[str, ...], says: str) -> None:
    """Whatever is asked for wrongly is answered by one line that says what to do."""
    assert says in complaint(moot("court", *words), status=2)


def test_no_chain_and_no_referee_get_one_line(node: LoopbackNode, tmp_path: Path) -> None:
    """A node that is not there, an address without code, another contract: one line each."""
    gone = moot("court", "--chain", "http://127.0.0.1:1", "--referee", NOBODY)
    assert "nothing answers there" in complaint(gone, status=1)
    empty = moot("court", "--chain", node.url, "--referee", NOBODY)
    assert f"no contract at {NOBODY}" in complaint(empty, status=2)
    with connect(node.url) as chain:
        ledger = deploy_ledger(chain, compile_ledger(tmp_path))
        words = ("court", "--chain", node.url, "--referee", ledger.address)
        assert "is no referee of this version" in complaint(moot(*words), status=2)
        referee = deploy_referee(chain, chain.accounts[0], EXACT).address
    with showing("court", "--chain", node.url, "--referee", referee) as (_, url):
        assert "exact 1" in get(url)


def test_a_referee_is_known_whatever_was_deployed_before(tmp_path: Path) -> None:
    """Its contracts may stand where others of them stand on a chain that is new."""
    ledger = compile_ledger(tmp_path)
    for before in range(6):
        with connect("tester") as chain:
            for _ in range(before):
                deploy_ledger(chain, ledger)
            referee = deploy_referee(chain, chain.accounts[0], EXACT).address
            assert {problem for _, problem in compare_codes(chain, referee, EXACT)} == {None}


def test_a_port_in_use_gets_one_line(tmp_path: Path) -> None:
    """Where somebody listens already, another port is to be chosen."""
    path = tmp_path / "record.json"
    path.write_bytes(encode_record(make_small_record()))
    with showing("court", str(path)) as (_, url):
        port = url.rstrip("/").rpartition(":")[2]
        said = complaint(moot("court", str(path), "--port", port), status=2)
        assert "choose another --port" in said


def test_a_replay_of_another_kind_is_refused_before_the_work(tmp_path: Path) -> None:
    """A file of no known kind, or a place that is none, is refused; nothing is left there."""
    said: Any = complaint(moot(*QUICK, "--replay", str(tmp_path / "x.pdf")), status=2)
    assert "is neither a .html nor a .json file" in said
    missing = tmp_path / "no" / "x.html"
    assert "cannot write" in complaint(moot(*QUICK, "--replay", str(missing)), status=2)
    assert list(tmp_path.iterdir()) == []
