"""The contracts of the simulated chain, which are the models, and the accounts that call them."""

from collections import defaultdict
from functools import cache
from pathlib import Path

from moot.contracts.model import availability
from moot.contracts.model.answers import Vault
from moot.contracts.model.referee import call as call_referee
from moot.contracts.model.types import Address, Event, Message, Store
from moot.contracts.reasons import Revert
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain.reverts import OUT_OF_GAS
from moot.offchain.disputes.referee.port import Call
from tests.arena.records import Receipt, Sent, State, name_account

CHAIN_ID = 4242
REFEREE = name_account("referee")
PROMISES = name_account("promises")
TRUSTED = {f"{name}_contract": name_account(name) for name in ("leaf", "legality")}
PAYMENT_GAS = 21_000
OTHER_GAS = {"promise": 99_677, "demand": 112_799, "show_chunk": 175_220}
"""Gas of calls that the snapshot does not have, from docs/explanation/protocol.md."""
MOST_REFUSED_GAS = 40_000
"""What a refused call costs."""
SNAPSHOT = Path(__file__).parents[2] / "gas-snapshot.txt"


@cache
def read_gas() -> dict[str, int]:
    """Return the most gas that each call takes in any scenario that was measured."""
    most: dict[str, int] = defaultdict(int) | OTHER_GAS
    for line in SNAPSHOT.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            _, name, _, *gas = line.split()
            call = name.rpartition(".")[2]
            most[call] = max(most[call], int(gas[-1]))
    return most


class Ledger:
    """Accounts, and the contracts that hold their money.

    Attributes:
        store: the referee's.
        vault: that of the promises.
        balances: what accounts hold, in wei.
        nonces: how many transactions each has made.
    """

    def __init__(self) -> None:
        self.store = Store(CHAIN_ID, REFEREE, arithmetic=ORDERED)
        self.vault = Vault({REFEREE: self.store})
        self.balances: dict[Address, int] = defaultdict(int)
        self.nonces: dict[Address, int] = defaultdict(int)

    def execute(self, sent: Sent, block: int, base_fee_wei: int) -> Receipt:
        """Make a call, and charge its gas; a refused one is paid for, too."""
        call = sent.call
        self.nonces[call.sender] += 1
        price_wei = base_fee_wei + sent.tip_at(base_fee_wei)
        gas = read_gas()[call.name] or PAYMENT_GAS
        events: tuple[Event, ...] = ()
        if gas > sent.gas_limit:
            gas, reason = sent.gas_limit, OUT_OF_GAS
        else:
            try:
                events, reason = self._make(call, block), ""
            except Revert as refusal:
                gas, reason = min(gas, MOST_REFUSED_GAS), str(refusal)
        self.balances[call.sender] -= gas * price_wei
        return Receipt(sent, gas, price_wei, reason, events)

    def _make(self, call: Call, block: int) -> tuple[Event, ...]:
        message = Message(call.sender, call.value_wei, block)
        if call.name in availability.CALLS:
            held = self.vault.balance_wei + self.vault.burned_wei
            events = availability.call(self.vault, call.name, message, *call.args)
            gone = held - self.vault.balance_wei - self.vault.burned_wei + call.value_wei
        else:
            held = self.store.balance_wei
            events = call_referee(self.store, call.name, message, *call.args)
            paid = (it.args[2] for it in events if it.name == "Collected")
            gone = sum(int(str(it)) for it in paid)
        self.balances[call.sender] += gone - call.value_wei
        return events

    def save(self) -> State:
        """Return a copy of everything."""
        store, vault = self.store, self.vault
        tables = (store.jobs, store.members, store.claims, store.matches)
        kept = (*tables, vault.promises, vault.demands)
        numbers = (store.balance_wei, store.burned_wei, vault.balance_wei, vault.burned_wei)
        copies = tuple(dict(it) for it in kept)
        return State(copies, numbers, dict(self.balances), dict(self.nonces))

    def load(self, state: State) -> None:
        """Put everything back."""
        store, vault = self.store, self.vault
        tables = [dict(it) for it in state.tables]
        store.jobs, store.members, store.claims, store.matches = tables[:4]
        vault.promises, vault.demands = tables[4:]
        numbers = state.numbers
        store.balance_wei, store.burned_wei, vault.balance_wei, vault.burned_wei = numbers
        self.balances = defaultdict(int, state.balances)
        self.nonces = defaultdict(int, state.nonces)
