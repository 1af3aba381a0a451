"""Outages: what a party waits for, what it says meanwhile, and what it does not wait for."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from moot.contracts.deployment import deploy_referee
from moot.offchain.chain import Chain
from moot.offchain.chain.accounts import create_keystore
from moot.offchain.chain.devnode.server import DevNode, Local
from moot.offchain.chain.jsonrpc import JsonRpc
from moot.offchain.errors import (
    BadCall,
    ChainIdChanged,
    ChainUnavailable,
    NodeError,
    Reverted,
    StoreError,
    UsageError,
)
from moot.offchain.parties import turns
from moot.offchain.parties.context import open_signers
from moot.offchain.parties.daemon import PartyDaemon, opened_daemon
from moot.offchain.parties.settings import Settings
from tests.sending.proxy import open_proxy

MISSED = 6


class Late:
    """A way to a node, whose first requests are lost."""

    def __init__(self, node: DevNode) -> None:
        self._node = node
        self.asked = 0

    def answer(self, body: bytes) -> bytes:
        """Answer a request."""
        self.asked += 1
        if self.asked <= MISSED:
            raise ConnectionError
        return self._node.answer(body)


class Told:
    """The events of a party."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def __call__(self, event: str, line: str, **_: object) -> None:
        """Keep an event."""
        self.events.append((event, line))


class Stopped(Exception):  # noqa: N818 - no error
    """The party is to end."""


FAILURES = (
    StoreError("there is no room"),
    StoreError("there is no room"),
    NodeError("eth_call", "header not found"),
    BadCall("jobs", "it returned what its ABI does not allow"),
    Reverted("no reason given", "jobs"),
    ChainIdChanged(1, 2),
    ChainUnavailable("here", "nothing answers there"),
)


class Stumbling(PartyDaemon):
    """A party whose disk is full for some turns, whose node then errs, and which then ends."""

    turns = 0

    def take_turn(self) -> None:
        """Fail in one way after another."""
        self.turns += 1
        if self.turns > len(FAILURES):
            raise Stopped
        raise FAILURES[self.turns - 1]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Return what hears a party that does not wait for long."""
    monkeypatch.setattr(turns, "RETRY_S", 0.001)
    return Told()


def test_a_party_waits_for_its_node_and_its_disk(tmp_path: Path, told: Told) -> None:
    """Whatever fails of a node or a disk is told once, and ends no party; then all goes on."""
    node = DevNode()
    chain = Chain(JsonRpc("here", 10.0, Local(node)), None)
    contract = deploy_referee(chain, chain.accounts[0])
    settings: dict[str, Any] = {"store": str(tmp_path / "store"), "folder": str(tmp_path / "own")}
    late = Late(node)
    with (
        open_proxy(late, Random(0), 0.0) as proxy,
        opened_daemon(
            Stumbling,
            Settings(chain=proxy.url, referee=contract.address, **settings),
            told,
            signs=False,
        ) as daemon,
        pytest.raises(Stopped),
    ):
        daemon.run()
    assert late.asked > MISSED
    events = [event for event, _ in told.events]
    assert events == ["unavailable", "serving", *["failed"] * 5, "unavailable"]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"chain": "nowhere"}, "unknown chain"),
        ({"referee": "0x12"}, "is no address"),
        ({"store": ""}, "`store` is not set"),
    ],
)
def test_wrong_settings_are_not_waited_for(told: Told, wrong: dict[str, Any], problem: str) -> None:
    """What no waiting mends ends the party at once, though no node can be reached."""
    usual = {"chain": "http://127.0.0.1:1", "referee": "0x" + "ab" * 20, "store": "store"}
    settings = Settings(**(usual | wrong))
    with (
        pytest.raises(UsageError, match=problem),
        opened_daemon(PartyDaemon, settings, told, signs=False),
    ):
        pass
    assert told.events == []


def test_a_key_that_others_may_read_is_told(tmp_path: Path, told: Told) -> None:
    """A party says so in one line, and goes on."""
    key, password = tmp_path / "key.json", tmp_path / "password"
    create_keystore(key, "open", scrypt_n=2)
    password.write_text("open\n")
    settings = Settings(
        chain="http://127.0.0.1:1",
        referee="0x" + "ab" * 20,
        key=str(key),
        password_from=f"file:{password}",
    )
    open_signers(settings, told, signs=True)
    assert told.events == []
    key.chmod(0o644)
    open_signers(settings, told, signs=True)
    ((event, line),) = told.events
    assert event == "exposed"
    assert f"chmod 600 {key}" in line
