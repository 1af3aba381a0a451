"""Both machines answer alike: outputs, logs, reasons, words and balances."""

from collections.abc import Iterator
from typing import Any

import pytest
from vyper import compile_code

from moot.contracts.compiler import Artifact
from moot.contracts.model.types import NOBODY
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import BadCall
from tests.machines.base import BALANCE, BALANCE_WEI, HALTED, Deployed, Kind, Machine
from tests.machines.table import NAMES, find_kind
from tests.mutants.corpus import list_groups
from tests.mutants.replay import Contract
from tests.mutants.tape import ACCOUNTS
from tests.quick import only

GROUPS = [*list_groups(ORDERED)]
STEP = 24
"""Of so many stories of a group one is told."""
SOURCE = """
event Said:
    word: indexed(uint256)
    text: Bytes[64]

kept: uint256
paid: HashMap[address, uint256]

@external
@payable
def keep(word: uint256):
    self.kept = word
    self.paid[msg.sender] += msg.value
    log Said(word=word, text=b"kept")

@external
def give(to: address, amount: uint256):
    send(to, amount)

@external
def waste():
    for i: uint256 in range(2**40):
        self.kept += 1

@external
def refuse(is_silent: bool):
    assert not is_silent
    raise "reason"

@external
@view
def see() -> (uint256, uint256, uint256):
    return block.number, chain.id, self.kept
"""
SENDER, OTHER, STRANGER = (f"0x{number * 0x11:02x}" + "00" * 19 for number in (1, 2, 3))


def deploy(kind: Kind) -> tuple[Machine, Deployed]:
    """Put the contract into a machine."""
    made = compile_code(SOURCE, output_formats=["abi", "bytecode"])
    code = bytes.fromhex(made["bytecode"].removeprefix("0x"))
    machine = kind((SENDER, OTHER, NOBODY))
    return machine, machine.deploy(Artifact("small", tuple(made["abi"]), code, 0, ""))


def ask(
    kind: Kind, name: str, *args: Any, before: Any = None, wei: int = 0, gas: int = 10**6
) -> Any:
    """Return the answer to a call, on a storage of these words of the contract's."""
    machine, contract = deploy(kind)
    before = {(contract.raw, slot): word for slot, word in (before or {}).items()}
    data = contract.codec.encode_call(name, args)
    where = {"sender": SENDER, "value_wei": wei, "block": 7, "gas": gas}
    return machine.answer(contract.raw, data, before, **where)


@pytest.fixture(params=NAMES)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Return a kind of machine that is installed."""
    if request.param == "revm":
        pytest.importorskip("pyrevm")
    return find_kind(request.param)


class TestMachines:
    """What each machine does."""

    def test_words_logs_and_balances_are_told(self, kind: Kind) -> None:
        """A call writes a word and pays; what has another value than before is told."""
        _, contract = deploy(kind)
        output, logs, changes = ask(kind, "keep", 5, before={0: 4}, wei=3)
        assert output == b""
        assert [(topics[1], data[-32:][:4]) for topics, data in logs] == [(5, b"kept")]
        balances = {it: word for (it, slot), word in changes if slot == BALANCE}
        assert balances == {
            bytes.fromhex(SENDER[2:]): BALANCE_WEI - 3,
            contract.raw: BALANCE_WEI + 3,
        }
        words = sorted(word for (_, slot), word in changes if slot != BALANCE)
        assert words == [3, 5]

    def test_what_is_as_before_is_no_change(self, kind: Kind) -> None:
        """A word that is written again, and a payment of nothing."""
        assert ask(kind, "keep", 4, before={0: 4})[2] == frozenset()

    def test_a_stranger_is_paid(self, kind: Kind) -> None:
        """Whoever was never heard of has BALANCE_WEI, too."""
        _, _, changes = ask(kind, "give", STRANGER, 9, before={BALANCE: 10})
        _, contract = deploy(kind)
        stranger = bytes.fromhex(STRANGER[2:])
        assert changes == {((stranger, BALANCE), BALANCE_WEI + 9), ((contract.raw, BALANCE), 1)}

    def test_reasons_are_told(self, kind: Kind) -> None:
        """A reason, none, and gas that does not suffice."""
        assert ask(kind, "refuse", False) == ("reason",)
        assert ask(kind, "refuse", True) == ("no reason given",)
        assert ask(kind, "waste") == (HALTED,)
        assert ask(kind, "give", STRANGER, 11, before={BALANCE: 10}) == ("no reason given",)

    def test_a_refused_call_changes_nothing(self, kind: Kind) -> None:
        """Neither words nor balances; and marks are gone back to."""
        machine, contract = deploy(kind)
        encode = contract.codec.encode_call
        where = {"sender": SENDER, "block": 7}
        assert machine.call(contract.raw, encode("keep", (8,)), value_wei=2, **where).reason is None
        mark = machine.snapshot()
        machine.call(contract.raw, encode("keep", (9,)), value_wei=2, **where)
        assert machine.storage(contract.raw, 0) == 9
        machine.revert(mark)
        machine.call(contract.raw, encode("waste", ()), value_wei=0, **where)
        seen = machine.call(contract.raw, encode("see", ()), value_wei=0, **where)
        assert contract.codec.decode_result("see", (), seen.output) == (7, machine.chain_id, 8)
        assert machine.balance(SENDER) == BALANCE_WEI - 2
        assert machine.balance(contract.address) == 2


def tell(kind: Kind, name: str) -> Iterator[Any]:
    """Yield the answers of the referee's contracts to the calls of a group of stories."""
    for story in list_groups(ORDERED)[name](STEP):
        contract = Contract(kind(ACCOUNTS), {}, ORDERED)
        before: dict[tuple[bytes, int], int] = {}
        for made in story.calls:
            try:
                to, data = contract.encode(made)
            except BadCall:
                continue
            answer = contract.ask(made, to, data, before)
            yield answer
            if len(answer) > 1:
                before |= dict(answer[2])


@pytest.mark.parametrize("name", only(("plans", "strange"), GROUPS))
def test_both_answer_the_referee_s_calls_alike(name: str) -> None:
    """A part of the corpus; mutants are not judged before all of it has been compared."""
    pytest.importorskip("pyrevm")
    one, other = (list(tell(find_kind(machine), name)) for machine in NAMES)
    assert len(one) > 10
    assert one == other
