"""Services are deployed, bonds stand, vouchers pay and receipts are published, by the commands."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_utils.address import to_checksum_address

from moot.contracts.compiler import compile_contract
from moot.contracts.deployment import deploy_availability
from moot.contracts.model.receipts import Domain
from moot.offchain.chain import connect
from moot.offchain.chain.accounts.keystore import KeyAccount
from moot.offchain.chain.devnode.server import DevNode, serve
from moot.offchain.errors import ReceiptError
from moot.offchain.parties import testnet
from moot.offchain.receipts.book import Book
from moot.offchain.receipts.service import SignedVoucher
from tests.end_to_end.command import complaint
from tests.end_to_end.command import moot as run_moot
from tests.receipt_helpers import make_receipt

ACCOUNTS = 8
ETHER = 10**18


class Net:
    """A node with a service on it, a provider and a client, each a file of settings.

    Args:
        folder: where the settings are.
        node: the node's URL.
    """

    def __init__(self, folder: Path, node: str) -> None:
        (folder / "password").write_text(testnet.PASSWORD + "\n")
        common = {
            "chain": node,
            "password_from": f"file:{folder / 'password'}",
            "confirmations": 1,
        }
        self.folder, self.node = folder, node
        self.configs = {name: testnet.configure(folder, common, name) for name in ("p", "c")}
        deployed = self.run("p", "deploy")
        self.service = str(deployed["service"])

    def call(self, who: str, *words: str) -> Any:
        """Run a verb of `moot service` with somebody's settings."""
        place = () if words[0] == "deploy" else ("--service", self.service)
        return run_moot("service", *words, *place, "--config", str(self.configs[who]), "--json")

    def run(self, who: str, *words: str) -> dict[str, Any]:
        """Run a verb that succeeds, and return what it tells."""
        done = self.call(who, *words)
        assert done.status == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def get_address(self, who: str) -> str:
        """Return somebody's address."""
        return str(to_checksum_address(self.get_key(who).address))

    def get_key(self, who: str) -> KeyAccount:
        """Return somebody's key."""
        return KeyAccount.open(self.folder / f"{who}.json", testnet.PASSWORD)


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Net]:
    """A service on a node of its own."""
    monkeypatch.setenv("MOOT_STATE", str(tmp_path / "state"))
    with serve(DevNode(ACCOUNTS)) as node:
        yield Net(tmp_path, node)


def test_bond_and_balance(net: Net) -> None:
    """A bond stands and leaves, a voucher pays once what it promises, others are refused."""
    provider, client = net.get_address("p"), net.get_address("c")
    net.run("p", "stake", "2")
    net.run("p", "unstake", "0.5")
    early = net.call("p", "take-stake")
    assert "too early" in complaint(early, status=1)
    net.run("c", "fund", provider, "0.3")
    vouchers = {}
    for ether in ("0.1", "0.25"):
        made = net.call("c", "voucher", provider, ether)
        assert made.status == 0, made.stderr
        vouchers[ether] = net.folder / f"{ether}.json"
        vouchers[ether].write_text(made.stdout)
    redeemed = net.run("p", "redeem", str(vouchers["0.25"]))
    assert (redeemed["amount_wei"], redeemed["owed_wei"]) == (ETHER // 4, 0)
    for file in vouchers.values():
        assert "nothing owed" in complaint(net.call("p", "redeem", str(file)), status=1)
    found = net.run("c", "show", provider, "--client", client)
    assert found["standing_wei"] == 3 * ETHER // 2
    assert found["leaving_wei"] == ETHER // 2
    assert (found["redeemed_wei"], found["funds_wei"]) == (ETHER // 4, ETHER // 20)
    stranger = net.call("c", "redeem", str(vouchers["0.1"]))
    assert "your key's is another" in complaint(stranger, status=2)


def test_what_a_balance_lacks_stays_owed(net: Net) -> None:
    """A voucher beyond the balance pays what is there, says the rest, and pays that later."""
    provider = net.get_address("p")
    net.run("c", "fund", provider, "0.1")
    voucher = net.folder / "voucher.json"
    voucher.write_text(net.call("c", "voucher", provider, "0.3").stdout)
    first = net.run("p", "redeem", str(voucher))
    assert (first["amount_wei"], first["owed_wei"]) == (ETHER // 10, ETHER // 5)
    assert "0.2 ETH are owed" in first["line"]
    net.run("c", "fund", provider, "0.5")
    assert net.run("p", "redeem", str(voucher))["amount_wei"] == ETHER // 5


def test_changed_vouchers_are_refused(net: Net) -> None:
    """A voucher with a changed field, or of another service, is refused before anything is sent."""
    provider = net.get_address("p")
    document = json.loads(net.call("c", "voucher", provider, "0.1").stdout)
    assert SignedVoucher.from_json(document).voucher.total_wei == ETHER // 10
    changes: dict[str, Any] = {
        "total_wei": ETHER,
        "provider": net.get_address("c"),
        "client": provider,
        "chain": 5,
        "service": provider,
        "signature": "0x" + "11" * 65,
    }
    for name, value in changes.items():
        with pytest.raises(ReceiptError):
            SignedVoucher.from_json(document | {name: value})
    for bad in ({}, [], None, document | {"total_wei": "x"}, document | {"client": 7}):
        with pytest.raises(ReceiptError):
            SignedVoucher.from_json(bad)


def test_receipts_are_published_once(net: Net) -> None:
    """Each publication binds what is new in a book, and nothing twice."""
    key, provider = net.get_key("p"), net.get_address("p")
    voucher = json.loads(net.call("c", "voucher", provider, "1").stdout)
    domain = Domain(voucher["chain"], voucher["service"])
    assert net.run("c", "show", provider)["published"] == 0
    with Book(net.folder / "book", domain, provider) as book:
        for count in (3, 2):
            for _ in range(count):
                draft = make_receipt(provider=provider)
                book.issue(draft, 10**30, b"{}", key.sign_digest)
            assert net.run("p", "publish", str(net.folder / "book"))["count"] == count
    assert net.run("p", "publish", str(net.folder / "book"))["count"] == 0
    assert net.run("c", "show", provider)["published"] == 5
    nothing = net.call("p", "publish", str(net.folder))
    assert "no receipts are in" in complaint(nothing, status=2)


def test_services_that_ask_others_are_refused(net: Net) -> None:
    """No money is sent to a service whose challenges are another contract's."""
    with connect(str(net.node)) as chain:
        other = deploy_availability(chain, chain.accounts[0])
        impostor = chain.deploy(
            compile_contract("service"), other.address, sender=chain.accounts[0]
        )
    net.service = impostor.address
    refused = net.call("p", "stake", "1")
    assert "no service of this version" in complaint(refused, status=2)


def test_other_contracts_are_no_service(net: Net) -> None:
    """An address without a service is refused in one line, as is an arithmetic without a scalar."""
    net.service = net.get_address("c")
    refused = net.call("p", "stake", "1")
    assert "no contract at" in complaint(refused, status=2)
    logged = run_moot(
        "service", "deploy", "--config", str(net.configs["p"]), "--arithmetic", "logged"
    )
    assert "choose another --arithmetic" in complaint(logged, status=2)
