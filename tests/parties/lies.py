"""Changes of real answers of a node, at every place: `python -m tests.parties.lies --draws 20000`.

An exercise asks a node all that a party asks. One of the answers on its way is changed at one place
in one way; whoever asks gets what is right, or an error of the chain, and nothing else is raised.
"""

import argparse
import copy
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from moot.contracts.deployment import bind_referee, deploy_referee
from moot.contracts.model.words import hash_job
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Chain
from moot.offchain.chain.accounts import FeePolicy, KeyAccount, open_chain
from moot.offchain.chain.accounts.account_state import look
from moot.offchain.chain.accounts.fees import Fees
from moot.offchain.chain.accounts.journal import Entry, Version
from moot.offchain.chain.accounts.signers import Order
from moot.offchain.chain.answers import CHECKED_METHODS
from moot.offchain.chain.devnode.server import DevNode, Local
from moot.offchain.chain.jsonrpc import JsonRpc
from moot.offchain.chain.receipts import Transaction
from moot.offchain.chain.transports import HttpTransport
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.errors import ChainError
from moot.offchain.parties.polled_referee import PolledReferee
from moot.sim.synthetic.products import Size, make_task

KEY = b"\x21" * 32
PAYER = KeyAccount(KEY).address
TERMS = make_terms(make_task(Size()), Stakes(commit_blocks=4, reveal_blocks=4))
DEEP = "@deep@"
_DEEP_BYTES = b"[" * 100_000 + b"]" * 100_000

EXERCISES = ("read", "follow", "look", "send")

Place = tuple[str | int, ...]


def encode(answer: Any) -> bytes:
    """Return an answer as JSON, however deep."""
    return json.dumps(answer).encode().replace(f'"{DEEP}"'.encode(), _DEEP_BYTES)


class Wire(HttpTransport):
    """A way to a node in this process, over the very bytes of JSON; `change` changes an answer."""

    def __init__(self, node: DevNode) -> None:
        super().__init__("http://here")
        self._node = node
        self.change: Callable[[int, Any], Any] | None = None
        self.methods: set[str] = set()
        self._count = -1

    def _read(self, question: Any) -> bytes:
        asked = question if isinstance(question, list) else [question]
        self.methods |= {it["method"] for it in asked}
        self._count += 1
        answer = json.loads(self._node.answer(json.dumps(question).encode()))
        if self.change is not None:
            answer = self.change(self._count, answer)
        return encode(answer)


class World:
    """A referee on a chain, where a job was opened and joined, and an account that has paid."""

    def __init__(self) -> None:
        self.node = DevNode(accounts=3)
        chain = Chain(JsonRpc("here", 10.0, Local(self.node)), None)
        contract = deploy_referee(chain, chain.accounts[0])
        self.contract = contract.address
        referee = ChainReferee(chain, contract, 0)
        _, client, self.member = chain.accounts
        for _ in range(2):
            referee.transact("open_job", TERMS, sender=client, value_wei=10**17)
        named = (b"\1" * 32, hash_job(referee.job(0)))
        made = referee.transact("commit", 0, *named, sender=self.member, value_wei=TERMS.bond_wei)
        assert made.receipt is not None
        self.receipt = made.receipt
        self.entry = self._pay(chain)
        self.right = {name: getattr(self, name)(Wire(self.node)) for name in EXERCISES}

    def _pay(self, chain: Chain) -> Entry:
        """Return the entry of a payment of an account of our own, which is in a block."""
        identity, gift = chain.chain_id, 10**18
        chain.send([Transaction(identity, "fund", chain.accounts[0], PAYER, b"", gift, 21_000)])
        paid = Transaction(identity, "pay", PAYER, self.member, b"", 1, 21_000)
        fees = Fees(10**11, 10**9)
        raw = KeyAccount(KEY).sign(Order(paid, 0, fees))
        entry = Entry(0, paid, [Version(raw, fees)])
        Local(self.node).ask("eth_sendRawTransaction", ["0x" + raw.hex()])
        return entry

    def read(self, wire: Wire) -> object:
        """Ask the node one thing after another."""
        node = JsonRpc("here", 0.05, wire)
        contract = bind_referee(Chain(node, None), self.contract)
        receipt, last = self.receipt, self.receipt.block + 2
        past = node.get_past(receipt.transaction_hash, receipt.block)
        request = "0x" + "00" * 32
        return (
            node.get_chain_id(),
            node.get_accounts(),
            node.get_block_number(),
            node.get_balance(self.member),
            bool(node.get_code(self.contract)),
            node.get_block_hash(2),
            node.get_block_hash(1_000),
            contract.trace(0, last),
            contract.trace(0, last, [bytes(32)]),
            past and replace(past, data=b""),  # of which only the hash is checked
            node.get_past(request, 3),
        )

    def follow(self, wire: Wire) -> object:
        """Follow the jobs of a referee, in both ways, and read what their logs say."""
        with (
            tempfile.TemporaryDirectory() as folder,
            open_chain(wire, [], FeePolicy(), folder=Path(folder)) as chain,
        ):
            bound = bind_referee(chain, self.contract)
            sight = PolledReferee(chain, bound, ORDERED, self.member)
            jobs = [*sight.find_jobs()]
            sight.look()
            sight.follow(0)
            sight.look()
            Tournament(0, TERMS).read(sight.events(0))
            other = ChainReferee(chain, bound, 0)
            claim = other.claim(0, b"\3" * 32)
            return jobs, sight.events(0), sight.member(0, self.member), other.events(1), claim

    def look(self, wire: Wire) -> object:
        """Look at an account, and at what has become of its transaction."""
        node = JsonRpc("here", 0.05, wire)
        sight = look(node, PAYER, [self.entry])
        found = sight.receipts.get(0)
        mined = found and node.read_receipt(self.entry.transaction, 0, found.record)
        return sight.count, sight.balance_wei, sight.head_hash, mined and repr(mined)

    def send(self, wire: Wire) -> list[str]:
        """Send transactions of the node's account and of one of our own, and undo both."""
        marks = Local(self.node).ask("evm_snapshot", [])["result"]
        try:
            with tempfile.TemporaryDirectory() as folder:
                return self._send(wire, Path(folder))
        finally:
            Local(self.node).ask("evm_revert", [marks])

    def _send(self, wire: Wire, folder: Path) -> list[str]:
        node = JsonRpc("here", 0.05, wire)
        identity, sender = self.entry.transaction.chain_id, self.member
        gift = Transaction(identity, "give", sender, PAYER, b"", 5, 21_000)
        answers: list[object] = [*node.send([gift])]
        policy = FeePolicy(confirmations=1)
        with open_chain(
            wire, [KeyAccount(KEY)], policy, folder=folder, patience_seconds=0.05
        ) as chain:
            answers += chain.send([Transaction(identity, "pay", PAYER, sender, b"", 2, 21_000)])
        return [repr(it) for it in answers if not isinstance(it, ChainError)]


def list_places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield all places in an answer."""
    yield place
    items: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = [*value.items()]
    elif isinstance(value, list):
        items = [*enumerate(value)][:6]
    for key, inner in items:
        yield from list_places(inner, (*place, key))


def _flip(value: Any, random: Random) -> Any:
    """Return text with another digit in it."""
    if not isinstance(value, str) or len(value) < 3:
        return 7
    at = random.randrange(2, len(value))
    return value[:at] + random.choice("0123456789abcdef") + value[at + 1 :]


def _repeat(value: Any) -> Any:
    return [*value, *value[-1:]] if isinstance(value, list) else [value, value]


def _turn(value: Any) -> Any:
    return value[::-1] if isinstance(value, list | str) else 0.5


FORMS: dict[str, Callable[[Any], Any]] = {
    "null": lambda _: None,
    "negative": lambda _: "-0x5",
    "padded": lambda _: "0x00",
    "empty": lambda _: "0x",
    "huge": lambda _: "0x" + "f" * 80,
    "endless": lambda _: "0x" + "1" * 100_000,
    "signless": lambda value: value[2:] if isinstance(value, str) else "",
    "spaced": lambda value: f" {value}\n",
    "short": lambda value: value[:-2] if isinstance(value, str) else {},
    "odd": lambda value: value[:-1] if isinstance(value, str) else "x",
    "number": lambda _: 7,
    "boolean": lambda _: True,
    "fraction": lambda _: 1e308,
    "not a number": lambda _: float("nan"),
    "infinity": lambda _: float("-inf"),
    "whole": lambda _: 10**400,
    "list": lambda _: [],
    "object": lambda _: {},
    "deep": lambda _: DEEP,
    "letters": lambda _: "\ud800\x1b[2J\u202e",
    "twice": _repeat,
    "reversed": _turn,
    "refusal": lambda _: {"code": -32000, "message": "\x1b[2Jno\n" * 500, "data": ["0x"]},
}
"""Changes of what stands at a place of an answer."""
UNDETECTED = frozenset({"null", "reversed", "short", "odd", "empty", "list"})
"""Changes after which some answers are those of a node that makes sense, such as no block."""


@dataclass(frozen=True, slots=True)
class Lie:
    """A change: of which answer of an exercise, at what place of it, and how."""

    exchange: int
    place: Place
    form: str
    seed: int = 0

    def change(self, count: int, answer: Any) -> Any:
        """Return the answer with the change, if it is the one."""
        if count != self.exchange:
            return answer
        outer = [copy.deepcopy(answer)]
        at: Any = outer
        try:
            for key in (0, *self.place)[:-1]:
                at = at[key]
            key = (0, *self.place)[-1]
            if self.form == "dropped":
                del at[key]
            elif self.form == "digit":
                at[key] = _flip(at[key], Random(self.seed))
            else:
                at[key] = FORMS[self.form](at[key])
        except (KeyError, IndexError, TypeError):  # what was asked is another thing by now
            return answer
        return outer[0] if outer else {}


def list_lies(exercise: Callable[[Wire], object], wire: Wire) -> list[Lie]:
    """Return all changes of the answers in an exercise."""
    found: list[Lie] = []

    def note(count: int, answer: Any) -> Any:
        for place in list_places(answer):
            found.extend(Lie(count, place, form) for form in (*FORMS, "dropped"))
            found.extend(Lie(count, place, "digit", seed) for seed in range(3))
        return answer

    wire.change = note
    exercise(wire)
    return found


def tell(world: World, name: str, lie: Lie) -> str:
    """Play an exercise with a lie in it, and return what has come of it: `right` or an error."""
    wire = Wire(world.node)
    wire.change = lie.change
    exercise = getattr(world, name)
    try:
        answer = exercise(wire)
    except ChainError as error:
        line = str(error)
        assert line.isprintable(), f"{name} {lie}: not a line: {line!r}"
        assert len(line) < 1_000, f"{name} {lie}: a long line"
        return type(error).__name__
    if name == "send" and len(answer) < len(right := world.right[name]):  # it waits for longer
        return "lost" if set(answer) < set(right) else "another"
    return "right" if answer == world.right[name] else "another"


def campaign(world: World, draws: int, seed: int) -> Counter[str]:
    """Tell drawn lies, each once; all of them, if there are fewer."""
    random, counts = Random(seed), Counter[str]()
    lies: list[tuple[str, Lie]] = []
    methods: set[str] = set()
    for name in EXERCISES:
        wire = Wire(world.node)
        lies += [(name, lie) for lie in list_lies(getattr(world, name), wire)]
        methods |= wire.methods
    assert methods >= CHECKED_METHODS, CHECKED_METHODS - methods
    random.shuffle(lies)
    for name, lie in lies[:draws]:
        try:
            came = tell(world, name, lie)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{name} {lie}: {error!r}") from error
        counts[came] += 1
        is_seen = lie.form in UNDETECTED | {"digit", "dropped"} or came != "another"
        assert is_seen, f"{name} {lie}: it was believed"
    return counts


def main() -> int:
    """Tell lies, and say what came of them."""
    parser = argparse.ArgumentParser(prog="lies", description=__doc__)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    counts = campaign(World(), chosen.draws, chosen.seed)
    print(f"{counts.total()} lies: {dict(sorted(counts.items()))}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
